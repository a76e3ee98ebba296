"""The change from Karpenter to this operator and back: what differs, what would be replaced, what to type."""
