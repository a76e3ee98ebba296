"""
API objects: frozen structs with the fields of Kubernetes, Karpenter and the node classes that we read.

Each module holds the kinds of one subject; :mod:`.kinds` lists them all. Structs are plain values that are
decoded and encoded by :mod:`.meta`. Nothing here decides anything or talks to an API server or a cloud.
"""
