"""Talking to a Kubernetes API server: client, informers, leader election, events. Decides nothing."""
