"""
Objects that a cluster accepts or refuses, as tables.

Each case says what it shows, the object, and which field is wrong, if any. The same tables are put to
our own checks and to a real API server.
"""
