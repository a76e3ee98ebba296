"""The Kubernetes API: client, informers, leader election, Event recorder. It decides nothing."""
