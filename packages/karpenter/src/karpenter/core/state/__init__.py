"""Cluster state: objects, nodes, pods, PodDisruptionBudgets and volumes as values. It decides nothing."""
