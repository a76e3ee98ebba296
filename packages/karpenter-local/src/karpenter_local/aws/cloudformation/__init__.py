"""
CloudFormation for the resources that installations of Karpenter consist of.

moto's own needs large libraries, leaves out queue policies and the policies of roles, and does not change
what a changed template changes. Here :mod:`.template` reads templates, :mod:`.resources` makes, changes and
deletes what they name through the same API that other clients use, :mod:`.stacks` keeps what belongs
together, and :mod:`.operations` answers the service.
"""
