"""
The cluster definition: NodePools and their classes in one file, short enough for a pull request.

Pure: :mod:`.model` reads a definition, :mod:`.objects` renders it to objects and imports objects into a
definition, :mod:`.check` says what a change of it would do to a cluster.
"""
