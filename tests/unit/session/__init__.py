"""The node viewer."""
