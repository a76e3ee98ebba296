"""Builds a problem from a ClusterView: which pods, nodes, NodePools and daemons the solver gets."""
