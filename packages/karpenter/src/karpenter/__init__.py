"""Karpenter: a node autoscaler for Kubernetes, compatible with Karpenter 1.14."""

__version__ = "0.1.0"
