"""The life of a machine, from its claim to its node and back, and the pools that it belongs to."""
