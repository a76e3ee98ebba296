"""
Random problems: hypothesis strategies for whole scheduling problems.

Everything is small, so that a failure can be read: a handful of types in up to three zones,
one to three pools, a few nodes with pods on them, and pods made from a few templates with
every kind of constraint, also contradictory ones. A :class:`Mix` leaves out what a law does
not hold for.
"""

from karpenter_local.testing.problems.described import described
from karpenter_local.testing.problems.mix import EVERYTHING, Mix
from karpenter_local.testing.problems.problems import problems

__all__ = ["EVERYTHING", "Mix", "described", "problems"]
