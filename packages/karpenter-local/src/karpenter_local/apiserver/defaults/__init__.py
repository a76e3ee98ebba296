"""
What the API fills in when a user leaves it out, by kind. Each function works in place on an object of known
types.
"""
