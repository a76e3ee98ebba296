"""
An AWS on loopback: what the provider for AWS is run against where there is no account.

:class:`~karpenter_local.aws.server.EmbeddedAws` serves it over real HTTP, so that the SDK, its signatures,
its retries and its errors are part of what is tested. Most of it is moto, a library that imitates AWS; what
an autoscaler is about and moto leaves out is added here: the choice that a fleet makes, offerings that are
sold out, prices, reservations, placement groups, images of EKS, and answers that get lost.

Each :class:`~karpenter_local.aws.account.Account` is an AWS of its own, with a control interface
that sells offerings out, publishes images and refuses calls.

Needs moto, which is a tool of developers and no part of the product.
"""
