"""The cluster as a value: what was seen, joined and indexed. Decides nothing."""
