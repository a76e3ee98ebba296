"""The operator beside a running Karpenter."""
