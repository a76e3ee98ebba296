"""
EC2NodeClasses: their status, their validation, their hash, and the controller that keeps all of it current.

:mod:`.status` resolves what a class selects, :mod:`.validation` says whether it can launch, :mod:`.hash`
computes what drift is compared by. :mod:`.controller` is the only module that writes to Kubernetes.
"""
