"""
What the contract suite of providers works with: a cloud that can be done things to, and claims to launch.

:class:`Laboratory` is what the author of a provider has to supply. The functions are the suite's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import pytest

from karpenter.api import labels
from karpenter.api.meta import ObjectMeta
from karpenter.api.nodeclaim import (
    NodeClaim,
    NodeClaimResources,
    NodeClaimSpec,
    NodeClaimStatus,
    NodeClassReference,
    NodeRequirement,
)
from karpenter.cloud.errors import MachineNotFound
from karpenter.core.model.catalog import Catalog, InstanceType, Offering, OfferingName
from karpenter.core.model.requirements import Requirements
from karpenter.core.model.resources import fits, parse_resources

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from karpenter.api.nodepool import NodePool
    from karpenter.cloud.cloudprovider import CloudProvider, Machine

TERMINATION_SECONDS: Final = 900
"""Seconds within which the end of a machine must be reported."""

REQUESTS: Final = {"cpu": "500m", "memory": "512Mi", "pods": "3"}
"""What an ordinary claim asks for; little enough for any type."""


class Laboratory(Protocol):
    """A cloud that a test can do things to, and the provider of one cluster in it."""

    @property
    def provider(self) -> CloudProvider: ...

    @property
    def pool(self) -> NodePool: ...

    @property
    def node_class(self) -> str:
        """The name of a class that is ready, of the provider's first kind."""

    async def restarted(self) -> CloudProvider:
        """Return a new provider for the same cluster and the same cloud: all that it knew is forgotten."""

    async def other_cluster(self) -> CloudProvider:
        """Return a provider for another cluster in the same cloud."""

    async def sell_out(self, offerings: Iterable[OfferingName]) -> None:
        """Let launches of these offerings fail from now on; the provider isn't told."""

    async def lose_next_answer(self) -> None:
        """Let the next launch succeed, but its answer never come: the provider sees an error."""

    async def drift(self, machine: Machine) -> str:
        """Let a machine not be what its class asks for any longer; return the reason that must be told."""

    async def spoil_class(self) -> None:
        """Let the class not be ready any longer."""

    async def interrupt(self, machine: Machine) -> None:
        """Let the cloud announce that it will take a machine away."""

    async def wait(self, seconds: float) -> None:
        """Let so much time pass for the cloud."""


def requirement(key: str, operator: str, *values: str) -> NodeRequirement:
    return NodeRequirement(key=key, operator=operator, values=values)


def make_claim(
    lab: Laboratory,
    name: str,
    *requirements: NodeRequirement,
    requests: Mapping[str, str] | None = None,
    node_class: str = "",
    provider_id: str = "",
) -> NodeClaim:
    """Return a claim for exactly these requirements; its uid follows from its name."""
    kind = lab.provider.node_classes[0]
    return NodeClaim(
        metadata=ObjectMeta(name=name, uid=f"uid-{name}", labels={labels.NODEPOOL: lab.pool.name}),
        spec=NodeClaimSpec(
            requirements=requirements,
            resources=NodeClaimResources(requests=dict(REQUESTS if requests is None else requests)),
            node_class_ref=NodeClassReference(
                group=kind.group, kind=kind.kind, name=node_class or lab.node_class
            ),
        ),
        status=NodeClaimStatus(provider_id=provider_id),
    )


async def ordinary_claim(lab: Laboratory, name: str, *requirements: NodeRequirement) -> NodeClaim:
    """Return a claim as the operator makes them: it also names the types that would do."""
    catalog = await lab.provider.catalog(lab.pool)
    requests = parse_resources(REQUESTS)
    types = [kind.name for kind in buyable(catalog) if fits(requests, kind.allocatable)]
    return make_claim(lab, name, requirement(labels.INSTANCE_TYPE, "In", *types), *requirements)


async def ended(lab: Laboratory, machine: Machine) -> None:
    """End a machine and wait until the cloud says that it is gone."""
    for _ in range(TERMINATION_SECONDS):
        try:
            await lab.provider.terminate(machine.provider_id)
        except MachineNotFound:
            return
        await lab.wait(1.0)
    pytest.fail(f"{machine.provider_id} was not gone after {TERMINATION_SECONDS} seconds")


def buyable(catalog: Catalog) -> list[InstanceType]:
    """Return the types of which at least one offering is available."""
    return [kind for kind in catalog.types if kind.cheapest is not None]


def some_offering(catalog: Catalog, zones: int = 1) -> tuple[InstanceType, Offering]:
    """Return a type that is sold in so many zones and holds an ordinary claim, and its cheapest offering."""
    requests = parse_resources(REQUESTS)
    for kind in buyable(catalog):
        if fits(requests, kind.allocatable) and len({each.zone for each in kind.available}) >= zones:
            assert kind.cheapest is not None
            return kind, kind.cheapest
    pytest.fail(f"the catalogue sells nothing in {zones} zones that holds {REQUESTS}")


def exactly(kind: InstanceType, offering: Offering) -> tuple[NodeRequirement, ...]:
    return (
        requirement(labels.INSTANCE_TYPE, "In", kind.name),
        requirement(labels.ZONE, "In", offering.zone),
        requirement(labels.CAPACITY_TYPE, "In", offering.capacity_type),
    )


def ways_to_say(
    catalog: Catalog, kind: InstanceType, offering: Offering
) -> Iterable[tuple[NodeRequirement, ...]]:
    """Yield requirements that an offering satisfies, in several forms."""
    zones = {each.zone for each in kind.available} - {offering.zone}
    arch = min(kind.requirements[labels.ARCH].values)
    yield exactly(kind, offering)
    yield (requirement(labels.ZONE, "In", offering.zone), requirement(labels.ARCH, "In", arch))
    yield (requirement(labels.CAPACITY_TYPE, "In", offering.capacity_type, "reserved"),)
    yield (requirement(labels.ZONE, "NotIn", *sorted(zones)),) if zones else ()
    yield (requirement(labels.INSTANCE_TYPE, "NotIn", *[each.name for each in catalog.types[1:]][:5]),)
    yield (requirement(labels.ZONE, "Exists"), requirement(labels.OS, "Exists"))


def violated(have: Mapping[str, str], wanted: Iterable[NodeRequirement]) -> list[str]:
    """Return a sentence for each requirement that these labels do not satisfy."""
    return [
        f"{each} but the machine has {have.get(each.key)}"
        for each in Requirements.from_entries(wanted)
        if not each.allows(have.get(each.key, ""))
    ]


def availability(catalog: Catalog) -> dict[OfferingName, bool]:
    return {OfferingName.of(kind, each): each.available for kind in catalog.types for each in kind.offerings}
