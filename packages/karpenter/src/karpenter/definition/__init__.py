"""
The cluster definition: NodePools and their classes in one file, short enough for a pull request.

Pure: a definition is read (:mod:`.reading`), becomes objects (:mod:`.objects`), and objects become a
definition again. What a change of it would do to a cluster is asked by ``karpenter definition check``.
"""
