"""
The parts of an EC2NodeClass: what it selects, how its machines are made, and what was found.

The kind itself is :class:`karpenter.api.ec2nodeclass.EC2NodeClass`.
"""
