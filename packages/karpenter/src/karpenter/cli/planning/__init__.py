"""What stands behind ``karpenter plan``: reading its input, and showing its answer."""
