"""
How a machine of the embedded AWS becomes a node: by what a real one would read, and nothing else.

A machine has hardware, an image and user data. The image decides who reads the user data and how:
:mod:`.al2`, :mod:`.nodeadm`, :mod:`.bottlerocket` and :mod:`.windows` each turn it into what the kubelet was
told (:mod:`.told`). From that and the hardware come the amounts that the kubelet reports (:mod:`.amounts`)
and the Node (:mod:`.node`). Whoever is told the wrong cluster, or nonsense, does not join.

Nothing here uses what the provider renders user data with: the two have to agree by themselves.
"""
