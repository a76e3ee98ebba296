"""
The kubelet settings of a node class.

:mod:`.validation` knows every setting of a kubelet, its type and its allowed values. :mod:`.expressions`
reads the settings that change what fits on a node, and evaluates those that depend on the instance type.
"""
