"""
The instance types of each node class: built when something they depend on has changed, and cached otherwise.

:class:`InstanceTypeStore` keeps what EC2 describes. :class:`InstanceTypeProvider` makes catalogues of it.
Building one for all of EC2 takes a good part of a second, so the work is cut in two: what depends on the node
class, on EC2 and on prices is built rarely (:mod:`.offering`); what failed lately, and what is left of
capacity reservations, is marked often, for the types concerned.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.cloud.aws.instancetype.offering import InstanceTypeBuilder
from karpenter.cloud.aws.instancetype.types import InstanceTypeInfo, Traits, instance_type_info
from karpenter.cloud.aws.kubelet.expressions import BadExpression
from karpenter.cloud.aws.labels import DOMAIN, RESERVATION_ID
from karpenter.cloud.aws.unavailableofferings import (
    UnavailableOfferings,
    UnavailableSnapshot,
    apply_unavailable,
)
from karpenter.cloud.catalogs.ec2 import refresh
from karpenter.cloud.catalogs.ec2.data import usable
from karpenter.cloud.catalogs.ec2.instancetypes import WELL_KNOWN
from karpenter.cloud.catalogs.ec2.volumes import PUBLIC_IPV4_HOURLY, volume_prices
from karpenter.cloud.catalogs.kwok import Interner
from karpenter.cloud.errors import CloudUnreachable, NodeClassNotReady
from karpenter.core.model.catalog import Catalog

if TYPE_CHECKING:
    from collections.abc import Mapping

    from karpenter.cloud.aws.capacityreservation import CapacityReservationProvider
    from karpenter.cloud.aws.instancetype.capacity import DiscoveredCapacity
    from karpenter.cloud.aws.pricing import PricingProvider
    from karpenter.cloud.aws.sdk import AwsApi

# New instance types come a few times a month, and describing all of them is many pages:
# https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeInstanceTypes.html
REFRESH_SECONDS: Final = 12 * 3600.0
"""Seconds between two updates of instance types, offerings and prices, as in Karpenter."""

_MAX_CATALOGS: Final = 16
"""How many catalogues are cached; the one that was used longest ago is dropped for another."""


class InstanceTypeStore:
    """Instance types and the zones that offer them, as EC2 describes them."""

    def __init__(self, aws: AwsApi) -> None:
        self._aws = aws
        self.types: Mapping[str, InstanceTypeInfo] = MappingProxyType({})
        self.zones: Mapping[str, frozenset[str]] = MappingProxyType({})
        self.version = 0
        """Grows whenever something about types or zones changes."""

    async def refresh(self) -> None:
        """
        Describe instance types and offerings again.

        Raises:
            CloudError: EC2 does not answer, or lists nothing.
        """
        types, zones = await asyncio.gather(
            self._aws.run("ec2", _types), self._aws.run("ec2", refresh.zones_by_type)
        )
        if not types:
            raise CloudUnreachable(f"EC2 lists no instance types in {self._aws.region}")
        if not zones:
            raise CloudUnreachable(f"EC2 lists no offerings of instance types in {self._aws.region}")
        offered = {name: frozenset(zones[name]) for name in sorted(zones)}
        # The version changes only with the content, so that equal answers keep every cached catalogue.
        if types != self.types or offered != self.zones:
            self.types, self.zones = MappingProxyType(types), MappingProxyType(offered)
            self.version += 1


class _Held(msgspec.Struct):
    """A catalogue as it was built, and as it was returned last."""

    built: Catalog
    marks: UnavailableSnapshot | None = None
    reservations: int = -1
    returned: Catalog | None = None


class InstanceTypeProvider:
    """Makes the catalogue of a node class."""

    def __init__(
        self,
        instance_types: InstanceTypeStore,
        prices: PricingProvider,
        *,
        unavailable: UnavailableOfferings,
        reservations: CapacityReservationProvider,
        discovered: DiscoveredCapacity,
    ) -> None:
        self._instance_types = instance_types
        self._prices = prices
        self._unavailable = unavailable
        self._reservations = reservations
        self._discovered = discovered
        self._interner = Interner()
        self._known: OrderedDict[tuple[object, ...], _Held] = OrderedDict()

    def catalog(self, traits: Traits, *, node_class: str) -> Catalog:
        """
        Return the instance types of a node class with these traits.

        Raises:
            NodeClassNotReady: it has no subnets, or its kubelet settings have no value for some type.
            CloudUnreachable: instance types have not been described yet.
        """
        held = self._held(traits, node_class)
        marks = self._unavailable.now()
        changes = self._reservations.changes if traits.reservations else 0
        if held.returned is None or held.marks != marks or held.reservations != changes:
            held.returned = apply_unavailable(held.built, traits, marks, self._reservations.left)
            held.marks, held.reservations = marks, changes
        return held.returned

    def _held(self, traits: Traits, node_class: str) -> _Held:
        key = (traits.key, self._instance_types.version, self._prices.version, self._discovered.version)
        held = self._known.get(key)
        if held is None:
            held = self._known[key] = _Held(self._build(traits, node_class))
            if len(self._known) > _MAX_CATALOGS:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        return held

    def _build(self, traits: Traits, node_class: str) -> Catalog:
        if not self._instance_types.types:
            raise CloudUnreachable("EC2 has not told yet which instance types there are")
        if not traits.zone_ids:
            raise NodeClassNotReady(node_class=node_class, because="no subnets were found")
        builder = InstanceTypeBuilder(traits, self._prices, self._interner)
        try:
            types = [
                builder.build(
                    info,
                    self._instance_types.zones.get(name, frozenset()),
                    discovered=self._discovered.memory(name, traits.images),
                )
                for name, info in self._instance_types.types.items()
            ]
        except BadExpression as error:
            raise NodeClassNotReady(node_class=node_class, because=str(error)) from error
        return Catalog(
            types=tuple(each for each in types if each is not None),
            well_known=WELL_KNOWN,
            restricted_domains=frozenset({DOMAIN}),
            reservation_label=RESERVATION_ID,
            zones=frozenset().union(*self._instance_types.zones.values()),
            volume_prices=volume_prices(traits.region),
            public_ipv4_price=PUBLIC_IPV4_HOURLY,
        )


def _types(ec2: Any) -> dict[str, InstanceTypeInfo]:
    found = (instance_type_info(record) for record in refresh.instance_types(ec2) if usable(record))
    return {each.name: each for each in sorted(found, key=lambda each: each.name)}
