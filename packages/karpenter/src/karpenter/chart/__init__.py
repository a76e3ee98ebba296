"""
The installation of the operator: one description of its objects, rendered as manifests and as a Helm chart.

The objects are written once, as trees that state where a value goes (:mod:`.objects`, :mod:`.tree`). Filled
in with values they are manifests; written out by :mod:`.helm` they are the templates of a Helm chart. So the
chart and ``karpenter manifests`` cannot differ.
"""
