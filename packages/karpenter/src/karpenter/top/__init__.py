"""What stands behind ``karpenter top``: nodes as rows, what becomes of them, and the screen."""
