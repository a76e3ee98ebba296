"""The commands ``karpenter local``, ``karpenter demo`` and ``karpenter simulate``."""
