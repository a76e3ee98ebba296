"""
How a machine of the embedded AWS becomes a node: by what a real one would read, and nothing else.

A machine has hardware, an image and user data. The image decides who reads the user data and how:
:mod:`.al2`, :mod:`.nodeadm`, :mod:`.bottlerocket` and :mod:`.windows` each turn it into a boot configuration
(:mod:`.bootconfig`). From that and the hardware come the amounts that the kubelet reports (:mod:`.amounts`)
and the Node (:mod:`.node`). A machine with the wrong cluster or invalid user data does not join.

Nothing here uses what the provider renders user data with: the two have to agree by themselves.
"""
