"""Every decision, as pure functions from values to values."""
