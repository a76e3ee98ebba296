"""
The catalogue of each node class: made when something it depends on has changed, and the same value otherwise.

Making one for all of EC2 takes a good part of a second, so the work is cut in two. What depends on the
class, on EC2 and on prices is built rarely; what failed lately and what is left of reservations is marked in
it often, for the types concerned.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.cloud.aws.kubelet.expressions import BadExpression
from karpenter.cloud.aws.types.building import Builder
from karpenter.cloud.aws.types.marking import mark
from karpenter.cloud.aws.types.unavailable import Marks
from karpenter.cloud.aws.words import DOMAIN, RESERVATION_ID
from karpenter.cloud.catalogs.ec2.labels import WELL_KNOWN
from karpenter.cloud.catalogs.interning import Interner
from karpenter.cloud.errors import CloudUnreachable, NodeClassNotReady
from karpenter.core.model.catalog import Catalog

if TYPE_CHECKING:
    from karpenter.cloud.aws.resolving.reservations import Reservations
    from karpenter.cloud.aws.types.discovered import Discovered
    from karpenter.cloud.aws.types.prices import Prices
    from karpenter.cloud.aws.types.shop import Shop
    from karpenter.cloud.aws.types.traits import Traits
    from karpenter.cloud.aws.types.unavailable import Unavailable

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
        )
