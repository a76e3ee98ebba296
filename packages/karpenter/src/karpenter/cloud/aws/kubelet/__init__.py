"""
The kubelet settings of a node class.

:mod:`.shape` knows every setting of a kubelet and its type, :mod:`.rules` what they may say,
:mod:`.subset` reads the few that change what fits on a node, and :mod:`.expressions` works out those that
depend on the instance type.
"""
