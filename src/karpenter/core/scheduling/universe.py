"""
The offerings of one pool as arrays, and which of them a requirement leaves.

Offerings that can be bought are numbered once; a set of them is a Python integer
with one bit per offering, so that narrowing a claim is a single ``&``. For every
label key the offerings are sorted by what they say about it, and a requirement is
asked once per different saying, never once per offering.

Knows labels, sizes and prices; knows nothing of pods, claims or topology.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from karpenter.core.model.labels import Requirement

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from numpy.typing import NDArray

    from karpenter.core.model.catalog import InstanceType, Offering

Amounts: TypeAlias = "NDArray[np.int64]"
Flags: TypeAlias = "NDArray[np.bool_]"
Bits: TypeAlias = int

_FEW: Final = 32
"""Up to so many different sayings, an array pass for each is quicker than a walk over positions."""


class Universe:
    """Every offering that one pool may buy now."""

    def __init__(
        self,
        types: Sequence[InstanceType],
        axis: Sequence[str],
        well_known: AbstractSet[str],
    ) -> None:
        """
        Number the offerings of `types`.

        `axis` names the resources that anyone asks for; a well-known key that a type does
        not name is a label it lacks.
        """
        self.types = tuple(types)
        self.axis = tuple(axis)
        self.offerings: list[Offering] = []
        starts, owner = [], []
        for position, kind in enumerate(self.types):
            starts.append(len(self.offerings))
            self.offerings.extend(kind.available)
            owner.extend([position] * len(kind.available))
        self.owner = np.array(owner, np.int64)
        self.price = np.array([o.price for o in self.offerings], np.float64)
        self.everything: Bits = (1 << len(self.offerings)) - 1
        self.room = amounts_of([kind.allocatable for kind in self.types], self.axis)
        self.capacity = amounts_of([kind.capacity for kind in self.types], self.axis)
        self._starts = np.array(starts, np.int64)
        self._well_known = well_known
        self._sayings: dict[str, _Sayings] = {}
        self._left: dict[Requirement, Bits] = {}

    def reserve(self, daemons: Sequence[Mapping[str, int]]) -> None:
        """Take what daemons need, type by type, off the room; an overdrawn type has none at all."""
        room = amounts_of([kind.allocatable for kind in self.types], self.axis) - amounts_of(
            daemons, self.axis
        )
        overdrawn = np.array([any(v < 0 for v in kind.allocatable.values()) for kind in self.types], bool)
        room[overdrawn | (room < 0).any(axis=1)] = -1
        self.room = room

    def left(self, requirement: Requirement) -> Bits:
        """Return the offerings that satisfy `requirement`."""
        found = self._left.get(requirement)
        if found is None:
            found = self._left[requirement] = self._sayings_of(requirement.key).left(requirement)
        return found

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
        return self._sayings_of(key).values(bits)

    def names(self, key: str) -> bool:
        """Whether any offering says anything about `key`."""
        return self._sayings_of(key).names

    def frontier(self, bits: Bits) -> Amounts:
        """Return the largest rooms among the types in `bits`: none is at least as large as another."""
        rooms = self.room[self.types_of(bits)]
        rooms = rooms[(rooms >= 0).all(axis=1)]
        return pareto(rooms)

    def _sayings_of(self, key: str) -> _Sayings:
        found = self._sayings.get(key)
        if found is None:
            found = self._sayings[key] = _Sayings(key, self, key in self._well_known)
        return found


class _Sayings:
    """What the offerings say about one label key: the different sayings, and who says which."""

    def __init__(self, key: str, universe: Universe, well_known: bool) -> None:
        numbers: dict[Requirement | None, int] = {}
        said = np.empty(len(universe.offerings), np.int64)
        position = 0
        absent = Requirement(key) if well_known else None
        for kind in universe.types:
            general = kind.requirements.get(key, absent)
            for offering in kind.available:
                value = offering.requirements.get(key, general)
                said[position] = numbers.setdefault(value, len(numbers))
                position += 1
        self._sets = list(numbers)
        self.names = any(each is not None and each.values for each in self._sets)
        self._bits = _bits_by_number(said, len(numbers))
        self._by_value: dict[str, list[int]] = {}
        self._vague: list[int] = []
        for number, each in enumerate(self._sets):
            if each is None or each.complement or not each.values:
                self._vague.append(number)
            else:
                for text in each.values:
                    self._by_value.setdefault(text, []).append(number)

    def left(self, requirement: Requirement) -> Bits:
        asked: Iterable[int]
        if requirement.complement or not requirement.values:
            asked = range(len(self._sets))
        else:
            asked = {n for value in requirement.values for n in self._by_value.get(value, ())}.union(
                self._vague
            )
        bits = 0
        for number in asked:
            if satisfies(self._sets[number], requirement):
                bits |= self._bits[number]
        return bits

    def values(self, bits: Bits) -> frozenset[str]:
        found: set[str] = set()
        for held, theirs in zip(self._sets, self._bits, strict=True):
            if held is not None and not held.complement and theirs & bits:
                found |= held.values
        return frozenset(found)


def _bits_by_number(said: NDArray[np.int64], count: int) -> list[Bits]:
    """Return, for each number, the positions that say it."""
    found = [0] * count
    order = np.argsort(said, kind="stable")
    edges = np.searchsorted(said[order], np.arange(count + 1))
    for number in range(count):
        for position in order[edges[number] : edges[number + 1]].tolist() if count > _FEW else ():
            found[number] |= 1 << position
        if count <= _FEW:
            found[number] = to_bits(said == number)
    return found


def satisfies(said: Requirement | None, requirement: Requirement) -> bool:
    """Whether an offering that says `said` (None: nothing at all) can satisfy `requirement`."""
    if said is None or (said.tolerates_absence and requirement.tolerates_absence):
        return True
    return said.intersects(requirement)


def amounts_of(lists: Sequence[Mapping[str, int]], axis: Sequence[str]) -> Amounts:
    """Return resource lists as rows over `axis`; a missing resource is zero."""
    rows = [[each.get(name, 0) for name in axis] for each in lists]
    return np.array(rows, np.int64).reshape(len(lists), len(axis))


def to_bits(flags: Flags) -> Bits:
    """Return flags as an integer, the first flag in the lowest bit."""
    return int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little")


def to_flags(bits: Bits, length: int) -> Flags:
    """Return the lowest `length` bits as flags."""
    raw = np.frombuffer(bits.to_bytes((length + 7) // 8, "little"), np.uint8)
    return np.unpackbits(raw, count=length, bitorder="little").astype(bool)


def pareto(rows: Amounts) -> Amounts:
    """Return the rows that no other row equals or exceeds everywhere, largest first."""
    kept = []
    scale = np.maximum(rows.max(axis=0), 1) if len(rows) else 1
    while len(rows):
        best = rows[int((rows / scale).sum(axis=1).argmax())]
        kept.append(best)
        rows = rows[(rows > best).any(axis=1)]
    return np.array(kept, np.int64).reshape(len(kept), rows.shape[1])
