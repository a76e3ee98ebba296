"""What no plan can cost less than: for ``karpenter plan``, never between a pod and its machine."""
