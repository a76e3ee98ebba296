"""
Installing the operator on EKS: what an installation consists of, and what is done with that.

:mod:`.plan` is pure: options and facts of a cluster become an ordered plan of resources. Everything else is a
face of the plan: :mod:`.apply` makes it so, :mod:`.observe` compares it with an account, :mod:`.script`,
:mod:`.cloudformation` and :mod:`.text` print it, :mod:`.uninstall` takes it away.
"""
