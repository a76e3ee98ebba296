"""
Bugs that were planted on purpose, and the command that looks whether the simulation finds them.

``make planted`` runs :mod:`tests.planted`. A bug is a small change of the source (:mod:`.bugs`); it is put
into a copy of the tree that a process of its own imports instead (:mod:`.plant`).
"""
