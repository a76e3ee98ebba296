"""
From what a node class selects to what there is.

Each module looks one thing up, remembers it for a while, and returns what was found in the order in which
the status of the class lists it. Nothing here writes to Kubernetes.
"""
