"""
The offerings of one pool as arrays, and which of them a requirement leaves.

The offerings themselves stand on a :mod:`.shelf`, which many pools and problems share;
what daemons leave of each machine is the pool's own.

Knows labels, sizes and prices; knows nothing of pods, claims or topology.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from karpenter.core.scheduling.bits import to_bits, to_flags
from karpenter.core.scheduling.shelf import amounts_of, shelf_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from karpenter.core.model.catalog import InstanceType
    from karpenter.core.model.labels import Requirement
    from karpenter.core.scheduling.bits import Bits, Flags

Amounts: TypeAlias = "NDArray[np.int64]"


class Universe:
    """Every offering that one pool may buy now."""

    def __init__(
        self,
        types: tuple[InstanceType, ...],
        axis: Sequence[str],
        well_known: frozenset[str],
    ) -> None:
        """
        Number the offerings of `types`.

        `axis` names the resources that anyone asks for; a well-known key that a type does
        not name is a label it lacks.
        """
        self._shelf = shelf_of(types, well_known)
        self.types = self._shelf.types
        self.offerings = self._shelf.offerings
        self.owner = self._shelf.owner
        self.price = self._shelf.price
        self.everything = self._shelf.everything
        self.axis = tuple(axis)
        self.room = self._shelf.room(self.axis)
        self.bought = self._shelf.bought
        self.reserved = self._shelf.reserved

    def reserve(self, daemons: Sequence[Mapping[str, int]]) -> None:
        """Take what daemons need, type by type, off the room; an overdrawn type has none at all."""
        room = self._shelf.room(self.axis) - amounts_of(daemons, self.axis)
        room[self._shelf.overdrawn | (room < 0).any(axis=1)] = -1
        self.room = room

    def left(self, requirement: Requirement) -> Bits:
        """Return the offerings that satisfy `requirement`."""
        return self._shelf.left(requirement)

    def keep(self, bits: Bits, requirements: Iterable[Requirement]) -> Bits:
        """Return those of `bits` that satisfy all `requirements`."""
        for requirement in requirements:
            bits &= self.left(requirement)
        return bits

    def keep_types(self, bits: Bits, wanted: Flags) -> Bits:
        """Return those of `bits` whose instance type is wanted."""
        return bits & to_bits(wanted[self.owner])

    def flags(self, bits: Bits) -> Flags:
        """Return a set of offerings as an array of flags."""
        return to_flags(bits, len(self.offerings))

    def types_of(self, bits: Bits) -> NDArray[np.int64]:
        """Return the positions of the types that have an offering in `bits`."""
        return np.unique(self.owner[self.flags(bits)])

    def cheapest(self, bits: Bits) -> float:
        """Return the lowest price in `bits`; without end when there is none."""
        return float(self.price[self.flags(bits)].min(initial=np.inf))

    def values(self, key: str, bits: Bits) -> frozenset[str]:
        """Return the values of `key` that some offering in `bits` can have."""
        return self._shelf.sayings(key).values(bits)

    def names(self, key: str) -> bool:
        """Whether any offering says anything about `key`."""
        return self._shelf.sayings(key).names

    def frontier(self, bits: Bits) -> Amounts:
        """Return the largest rooms among the types in `bits`: none is at least as large as another."""
        rooms = self.room[self.types_of(bits)]
        rooms = rooms[(rooms >= 0).all(axis=1)]
        return pareto(rooms)


def pareto(rows: Amounts) -> Amounts:
    """Return the rows that no other row equals or exceeds everywhere, largest first."""
    kept = []
    scale = np.maximum(rows.max(axis=0), 1) if len(rows) else 1
    while len(rows):
        best = rows[int((rows / scale).sum(axis=1).argmax())]
        kept.append(best)
        rows = rows[(rows > best).any(axis=1)]
    return np.array(kept, np.int64).reshape(len(kept), rows.shape[1])
