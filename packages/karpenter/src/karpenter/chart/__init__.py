"""
How the operator gets into a cluster: one description of its objects, read in two ways.

The objects are written once, as trees that say where a value goes (:mod:`.tree`). Filled in with values they
are manifests (:mod:`.filling`); written out they are the templates of a Helm chart (:mod:`.helm`). So the
chart and ``karpenter manifests`` cannot say different things.
"""
