"""
CustomResourceDefinitions, generated from the structs of our kinds.

The structs say what their fields are, what is allowed in them and what they mean; :mod:`.schemas`
turns that into OpenAPI, :mod:`.prose` finds the words, and :mod:`.definitions` adds what a
definition says about a kind as a whole. Nothing here is needed to read or write objects.
"""
