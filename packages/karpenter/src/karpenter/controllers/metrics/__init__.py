"""Metrics controllers: they read the cluster state and events, and decide nothing."""
