"""
AMI families: which AMIs a node class selects, and how nodes that start from them are configured.

:mod:`.alias` knows the SSM parameters of the AMIs that AWS publishes, :mod:`.ssm` reads them, :mod:`.ami`
finds AMIs and maps instance types to them. :mod:`.family` has what differs between families,
:mod:`.bootstrap` renders user data, and :mod:`.resolver` renders launch templates.
"""
