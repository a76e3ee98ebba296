"""The change from Karpenter to this operator and back."""
