"""Explanations of pods, nodes, NodePools and NodeClaims."""
