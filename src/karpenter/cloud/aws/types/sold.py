"""What EC2 says about an instance type, beyond what every catalogue needs."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import msgspec

from karpenter.cloud.catalogs.ec2.data import load_data
from karpenter.cloud.catalogs.ec2.facts import InstanceFacts
from karpenter.cloud.catalogs.ec2.records import facts_of

if TYPE_CHECKING:
    from karpenter.cloud.catalogs.ec2.records import Record


class SoldType(msgspec.Struct, frozen=True, kw_only=True):
    """An instance type that EC2 sells."""

    facts: InstanceFacts
    cards: dict[int, int] = {}
    """Network cards: index to how many interfaces each takes."""

    ena: bool = True
    """Whether it has the network adapter that several interfaces need."""

    storage_gb: int = 0
    """All local disks together, whatever kind they are of."""

    strategies: frozenset[str] = frozenset()
    """The kinds of placement group that it may be launched into."""

    features: frozenset[str] = frozenset()
    """What its processors can do beyond the usual."""

    @property
    def name(self) -> str:
        """The name of the type."""
        return self.facts.name


def sold_type(record: Record) -> SoldType:
    """Return what a record of DescribeInstanceTypes says about a usable type."""
    network = record["NetworkInfo"]
    return SoldType(
        facts=facts_of(record, branch_interfaces=_branches().get(record["InstanceType"], 0)),
        cards={
            card.get("NetworkCardIndex", place): card.get("MaximumNetworkInterfaces", 0)
            for place, card in enumerate(network.get("NetworkCards", ()))
        },
        ena=network.get("EnaSupport", "unsupported") != "unsupported",
        storage_gb=record.get("InstanceStorageInfo", {}).get("TotalSizeInGB", 0),
        strategies=frozenset(record.get("PlacementGroupInfo", {}).get("SupportedStrategies", ())),
        features=frozenset(record.get("ProcessorInfo", {}).get("SupportedFeatures", ())),
    )


@cache
def _branches() -> dict[str, int]:
    """Return how many branch interfaces each type supports: no API tells, so it ships with the product."""
    return {facts.name: facts.branch_interfaces for facts in load_data().types}
