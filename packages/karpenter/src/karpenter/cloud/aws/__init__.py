"""
The cloud provider of AWS: nodes on EC2.

:mod:`.operator` connects it, :mod:`.services` is everything that it works with, and :mod:`.cloudprovider`
implements the CloudProvider. :mod:`.sdk` calls AWS. :mod:`.nodeclass` resolves and validates EC2NodeClasses,
:mod:`.amifamily` finds AMIs and renders user data and launch templates, :mod:`.instancetype` knows instance
types and offerings, :mod:`.instance` launches and terminates instances, and :mod:`.interruption` follows the
interruption queue. :mod:`.controllers` lists the controllers, and :mod:`.policy` the IAM permissions.
"""
