"""
Simulated kubelets: hollow nodes that report, renew their leases, and take their pods through their phases.

Hollow nodes are those of kubemark: https://github.com/kubernetes/kubernetes/tree/master/pkg/kubemark
:mod:`.script` says what a pod does and when, :mod:`.status` what its status is at each point,
:mod:`.machine` what a node reports; :mod:`.hollownodes` carries it out for any number of nodes on one loop,
and :mod:`.health` is how tests make a node unready, silent, slow or dead. No containers run, no images are
pulled, nothing listens.
"""
