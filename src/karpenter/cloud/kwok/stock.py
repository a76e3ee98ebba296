"""What the cloud has left to sell: all but what was sold out on request, and reservations used up."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from karpenter.cloud.market import Choice
    from karpenter.cloud.offerings import OfferingName
    from karpenter.core.model.catalog import Catalog, InstanceType, Offering


class Shelf(msgspec.Struct, frozen=True, kw_only=True):
    """Some offerings: those of a type, a zone or a capacity type; whatever is left empty does not matter."""

    instance_type: str = ""
    zone: str = ""
    capacity_type: str = ""

    def holds(self, name: OfferingName) -> bool:
        """Say whether an offering is one of these."""
        return (
            self.instance_type in {"", name.instance_type}
            and self.zone in {"", name.zone}
            and self.capacity_type in {"", name.capacity_type}
        )


class Stock:
    """What is sold, at which price, and how much of it is left."""

    def __init__(self, catalog: Catalog) -> None:
        self._empty: set[Shelf] = set()
        self._used: Counter[str] = Counter()
        self.sell(catalog)

    def sell(self, catalog: Catalog) -> None:
        """Sell something else from now on, such as the same at other prices."""
        self._catalog = catalog
        self._shown: Catalog | None = None
        self._held = {
            each.reservation_id: each.reservation_capacity or 0
            for kind in catalog.types
            for each in kind.offerings
            if each.reservation_id
        }

    def sell_out(self, shelf: Shelf) -> None:
        """Let launches of these offerings fail."""
        self._empty.add(shelf)

    def restock(self, shelf: Shelf | None) -> None:
        """Let launches of these offerings succeed again; of all, when none are named."""
        self._empty = {each for each in self._empty if shelf is not None and each != shelf}

    def has(self, choice: Choice) -> bool:
        """Say whether one more can be had."""
        if any(shelf.holds(choice.name) for shelf in self._empty):
            return False
        reservation = choice.offering.reservation_id
        return not reservation or self._left(reservation) > 0

    def take(self, reservation: str) -> None:
        """Use up one machine of a reservation."""
        if reservation:
            self._used[reservation] += 1
            self._shown = None

    def give_back(self, reservation: str) -> None:
        """Return a machine of a reservation."""
        if reservation:
            self._used[reservation] -= 1
            self._shown = None

    def catalog(self) -> Catalog:
        """Return what is sold, with what is left of reservations; the same value until that changes."""
        if not self._held:
            return self._catalog
        if self._shown is None:
            types = tuple(self._counted(kind) for kind in self._catalog.types)
            self._shown = msgspec.structs.replace(self._catalog, types=types)
        return self._shown

    def _counted(self, kind: InstanceType) -> InstanceType:
        if not any(offering.reservation_id for offering in kind.offerings):
            return kind
        offerings = tuple(self._with_count(each) if each.reservation_id else each for each in kind.offerings)
        return msgspec.structs.replace(kind, offerings=offerings)

    def _with_count(self, offering: Offering) -> Offering:
        left = self._left(offering.reservation_id)
        return msgspec.structs.replace(
            offering, reservation_capacity=left, available=offering.available and left > 0
        )

    def _left(self, reservation: str) -> int:
        return max(0, self._held.get(reservation, 0) - self._used[reservation])
