"""What metrics show of the cluster and of ourselves: read from the state and from events, never decided."""
