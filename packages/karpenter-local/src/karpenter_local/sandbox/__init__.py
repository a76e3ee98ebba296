"""
A sandbox: a cluster, a cloud, a clock and any number of operators, started and stopped in order.

    :mod:`.sandbox`    the sandbox itself: the only place where these parts are put together
    :mod:`.options`    the values that say which cluster, cloud and clock it has
    :mod:`.cluster`    the control plane: the embedded one, or the programs of Kubernetes
    :mod:`.cloud`      the kwok cloud; :mod:`.aws` the embedded AWS
    :mod:`.operators`  an operator in this process, and the seams around it at which faults are injected
    :mod:`.processes`  a cluster and an operator as processes of their own

The demo, ``karpenter local up``, the simulation, the integration tests and the benchmarks all run in one.
"""
