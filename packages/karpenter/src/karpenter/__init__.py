"""Karpenter: the right machines for the pods that wait, at the lowest price that can be proven."""

__version__ = "0.1.0"
