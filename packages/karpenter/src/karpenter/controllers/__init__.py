"""
Controllers: they read the cluster state, call the core, perform its effects, and requeue.

Every decision is made in :mod:`karpenter.core`; one module per controller, named as upstream names it.
"""
