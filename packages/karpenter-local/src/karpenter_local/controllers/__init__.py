"""
The controllers of the embedded cluster: those of kube-controller-manager that workloads and nodes need.

Each module has pure functions that decide what changes, and a small :class:`.loop.Controller` that reads,
calls them and writes. All share :mod:`.informers` and :mod:`.writer`; :mod:`.controllermanager` lists and
starts them. See https://kubernetes.io/docs/concepts/architecture/controller/
"""
