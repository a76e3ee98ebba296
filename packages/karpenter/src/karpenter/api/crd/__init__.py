"""
CustomResourceDefinitions, generated from the structs of our kinds.

The structs state the type, the constraints and the description of every field. :mod:`.definitions` turns
them into CustomResourceDefinitions, :mod:`.reference` into the reference pages. Reading and writing objects
needs nothing of this package.
"""
