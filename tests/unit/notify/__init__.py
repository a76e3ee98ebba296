"""Messages about what the operator does."""
