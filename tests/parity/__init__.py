"""Behaviour scenarios: a cluster, and what must come out of ``karpenter plan``."""
