"""What stands behind ``karpenter demo``: a stage, a tour through it, and a screen to watch it on."""
