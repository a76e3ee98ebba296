"""
User data: how a node is told to join the cluster.

:mod:`.bootstrap` has what every family needs; :mod:`.nodeadm` (AL2023), :mod:`.eksbootstrap` (AL2),
:mod:`.bottlerocket` and :mod:`.windows` render it in the format of a family and merge it with the user data
of the node class. :mod:`.userdata` picks the family, and checks the size.
"""
