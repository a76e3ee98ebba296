"""Which nodes may go, when, and how many at once."""
