"""The operator beside a running Karpenter: it decides as if it led, writes nothing, and compares."""
