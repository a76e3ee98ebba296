"""
Node classes: what they have found, whether they can be used, and why not.

:mod:`.checking` judges what a class says, :mod:`.resolver` works its status out. Nothing here writes to
Kubernetes: the status is returned.
"""
