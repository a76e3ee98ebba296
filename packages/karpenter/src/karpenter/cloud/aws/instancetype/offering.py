"""
The catalogue of each node class: made when something it depends on has changed, and the same value otherwise.

Making one for all of EC2 takes a good part of a second, so the work is cut in two. What depends on the
class, on EC2 and on prices is built rarely; what failed lately and what is left of reservations is marked in
it often, for the types concerned.

What EC2 sells in a region, and where: kept current, and counted by version.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.cloud.aws.instancetype.instancetype import Builder, sold_type
from karpenter.cloud.aws.kubelet.expressions import BadExpression
from karpenter.cloud.aws.labels import DOMAIN, RESERVATION_ID
from karpenter.cloud.aws.unavailableofferings import Marks, mark
from karpenter.cloud.catalogs.ec2 import refresh as asking
from karpenter.cloud.catalogs.ec2.data import usable
from karpenter.cloud.catalogs.ec2.instancetypes import WELL_KNOWN
from karpenter.cloud.catalogs.kwok import Interner
from karpenter.cloud.errors import CloudUnreachable, NodeClassNotReady
from karpenter.core.model.catalog import Catalog

if TYPE_CHECKING:
    from collections.abc import Mapping

    from karpenter.cloud.aws.capacityreservation import Reservations
    from karpenter.cloud.aws.instancetype.capacity import Discovered
    from karpenter.cloud.aws.instancetype.instancetype import SoldType, Traits
    from karpenter.cloud.aws.pricing import Prices
    from karpenter.cloud.aws.sdk import Aws
    from karpenter.cloud.aws.unavailableofferings import Unavailable


_KEPT: Final = 16
"""How many catalogues are remembered; one more, and the one that was asked for longest ago is forgotten."""


class _Shown(msgspec.Struct):
    """A catalogue as it was built, and as it was last shown."""

    built: Catalog
    marks: Marks | None = None
    reservations: int = -1
    shown: Catalog | None = None


class Catalogs:
    """Makes catalogues."""

    def __init__(
        self,
        shop: Shop,
        prices: Prices,
        *,
        unavailable: Unavailable,
        reservations: Reservations,
        discovered: Discovered,
    ) -> None:
        self._shop = shop
        self._prices = prices
        self._unavailable = unavailable
        self._reservations = reservations
        self._discovered = discovered
        self._interner = Interner()
        self._known: OrderedDict[tuple[object, ...], _Shown] = OrderedDict()

    def catalog(self, traits: Traits, *, node_class: str) -> Catalog:
        """
        Return what a class with these traits may buy.

        Raises:
            NodeClassNotReady: its kubelet settings come to nothing for some type.
            CloudUnreachable: EC2 has not told yet what it sells, or the class has no subnets.
        """
        held = self._held(traits, node_class)
        marks = self._unavailable.now()
        changes = self._reservations.changes if traits.reservations else 0
        if held.shown is None or held.marks != marks or held.reservations != changes:
            held.shown = mark(held.built, traits, marks, self._reservations.left)
            held.marks, held.reservations = marks, changes
        return held.shown

    def _held(self, traits: Traits, node_class: str) -> _Shown:
        key = (traits.key, self._shop.version, self._prices.version, self._discovered.version)
        held = self._known.get(key)
        if held is None:
            held = self._known[key] = _Shown(self._build(traits, node_class))
            if len(self._known) > _KEPT:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        return held

    def _build(self, traits: Traits, node_class: str) -> Catalog:
        if not self._shop.types:
            raise CloudUnreachable("EC2 has not told yet which instance types there are")
        if not traits.zone_ids:
            raise NodeClassNotReady(node_class=node_class, because="no subnets were found")
        builder = Builder(traits, self._prices, self._interner)
        try:
            types = [
                builder.build(
                    sold,
                    self._shop.zones.get(name, frozenset()),
                    discovered=self._discovered.memory(name, traits.images),
                )
                for name, sold in self._shop.types.items()
            ]
        except BadExpression as error:
            raise NodeClassNotReady(node_class=node_class, because=str(error)) from error
        return Catalog(
            types=tuple(each for each in types if each is not None),
            well_known=WELL_KNOWN,
            restricted_domains=frozenset({DOMAIN}),
            reservation_label=RESERVATION_ID,
            zones=frozenset().union(*self._shop.zones.values()),
        )


REFRESHED_EVERY: Final = 12 * 3600.0
"""Seconds between two questions about types, offerings and prices."""


class Shop:
    """Instance types and the zones that sell them."""

    def __init__(self, aws: Aws) -> None:
        self._aws = aws
        self.types: Mapping[str, SoldType] = MappingProxyType({})
        self.zones: Mapping[str, frozenset[str]] = MappingProxyType({})
        self.version = 0
        """Grows whenever something about types or zones changes."""

    async def refresh(self) -> None:
        """
        Ask EC2 anew.

        Raises:
            CloudError: EC2 does not tell, or lists nothing.
        """
        types, zones = await asyncio.gather(
            self._aws.run("ec2", _types), self._aws.run("ec2", asking.zones_by_type)
        )
        if not types:
            raise CloudUnreachable(f"EC2 lists no instance types in {self._aws.region}")
        if not zones:
            raise CloudUnreachable(f"EC2 lists no offerings of instance types in {self._aws.region}")
        sold = {name: frozenset(zones[name]) for name in sorted(zones)}
        if types != self.types or sold != self.zones:
            self.types, self.zones = MappingProxyType(types), MappingProxyType(sold)
            self.version += 1


def _types(ec2: Any) -> dict[str, SoldType]:
    found = (sold_type(record) for record in asking.instance_types(ec2) if usable(record))
    return {each.name: each for each in sorted(found, key=lambda each: each.name)}
