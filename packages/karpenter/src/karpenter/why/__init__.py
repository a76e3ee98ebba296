"""Explanations of one pod, node, NodePool or NodeClaim, as values."""
