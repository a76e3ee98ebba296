"""Where in AWS a cluster is. Knows nothing of the libraries that imitate AWS, which take long to load."""

from __future__ import annotations

import msgspec

from karpenter_local.aws.account import DEFAULT_REGION


class Location(msgspec.Struct, frozen=True, kw_only=True):
    """Where in AWS a cluster is, and how it is called there."""

    cluster: str
    region: str = DEFAULT_REGION
    types: tuple[str, ...] = ()
    """The instance types that are sold; empty means all."""
