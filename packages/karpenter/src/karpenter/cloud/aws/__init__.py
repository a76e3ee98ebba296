"""
Machines on EC2.

Read in this order: :mod:`.provider` keeps the promises of a cloud provider and delegates the rest.
:mod:`.calls` asks AWS. :mod:`.resolving` finds what a node class selects, :mod:`.images` what machines
start from and :mod:`.userdata` what they are told, :mod:`.types` what can be bought, and :mod:`.launch`
buys it. :mod:`.policy` is what the provider must be allowed to do.
"""
