"""Where in AWS a cluster is. Knows nothing of the libraries that imitate AWS, which take long to load."""

from __future__ import annotations

from typing import Final

import msgspec

from karpenter.cloud.catalogs.ec2.data import load_data
from karpenter_local.aws.account import DEFAULT_REGION

ZONES: Final = 3
"""Zones in which a cluster has subnets, where the region has as many."""


class NodeGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A managed node group: so many instances of a type, which are there from the beginning."""

    name: str
    type: str = "m5.large"
    count: int = 2


class Location(msgspec.Struct, frozen=True, kw_only=True):
    """Where in AWS a cluster is, and how it is called there."""

    cluster: str
    region: str = DEFAULT_REGION
    types: tuple[str, ...] = ()
    """The instance types that are sold; empty means all."""

    bare: bool = False
    """Whether the account is as it is before anything was installed: no roles, no queue, no rules."""

    tagged: bool = True
    """Whether subnets and security groups carry the discovery tag."""

    node_groups: tuple[NodeGroup, ...] = ()

    @property
    def zones(self) -> tuple[str, ...]:
        """The zones in which the cluster has subnets."""
        return zones_of(self.region)


def zones_of(region: str) -> tuple[str, ...]:
    """Return the zones of a region in which a cluster has subnets."""
    return tuple(sorted(load_data().regions[region].zones))[:ZONES]
