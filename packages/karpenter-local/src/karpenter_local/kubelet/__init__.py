"""
Simulated kubelets: every Node is made to live, and the pods bound to it to run and to end.

:mod:`.script` says what a pod does and when, :mod:`.status` what its status looks like at each point,
:mod:`.machine` what a node reports; :mod:`.fleet` carries it all out for any number of nodes on one loop,
and :mod:`.health` is how tests make a node unready, silent, slow or dead. No containers run, no images are
pulled, nothing listens.
"""
