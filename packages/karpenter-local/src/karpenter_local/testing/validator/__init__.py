"""
A plan, checked from scratch: every constraint of every pod, with plain loops.

A plan does not say in which order pods were placed, nor which preferences were given up,
so only what must hold in the end is checked: whatever is required holds on every machine
that a claim could still become, and the counts of spread and affinity are such that some
order could have led to them. Every problem is one sentence; a sound plan has none.

Shares nothing with the solver and nothing with the oracle.
"""

from karpenter_local.testing.validator.check import problems_of

__all__ = ["problems_of"]
