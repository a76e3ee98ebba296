"""
What is on sale: the offerings of some instance types, and what they say about each label.

Offerings that can be bought are numbered once; a set of them is a Python integer with one
bit per offering, so that narrowing a claim is a single ``&``. For every label key the
offerings are sorted by what they say about it, and a requirement is asked once per different
saying, never once per offering.

A shelf depends on nothing but its types, so one shelf serves every problem that has them;
the last few are kept.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

import numpy as np

from karpenter.api.labels import RESERVED
from karpenter.core.model.labels import Requirement
from karpenter.core.scheduling.bits import to_bits

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from karpenter.core.model.catalog import InstanceType, Offering
    from karpenter.core.scheduling.bits import Bits

_FEW: Final = 32
"""Up to so many different sayings, an array pass for each is quicker than a walk over positions."""

_KEPT: Final = 16
_shelves: OrderedDict[tuple[int, frozenset[str]], Shelf] = OrderedDict()


class Shelf:
    """The offerings of some instance types, numbered."""

    def __init__(self, types: tuple[InstanceType, ...], absent: frozenset[str]) -> None:
        """Number the offerings of `types`, which lack a label in `absent` unless they name it."""
        self.types = types
        self.offerings: list[Offering] = []
        owner: list[int] = []
        for position, kind in enumerate(types):
            self.offerings.extend(kind.available)
            owner.extend([position] * len(kind.available))
        self.owner = np.array(owner, np.int64)
        self.price = np.array([o.price for o in self.offerings], np.float64)
        self.ways = tuple(o.capacity_type for o in self.offerings)
        """How each offering is bought."""

        self.reserved = tuple(o for o, way in zip(self.offerings, self.ways, strict=True) if way == RESERVED)
        self.everything: Bits = (1 << len(self.offerings)) - 1
        self.overdrawn = np.array([any(v < 0 for v in kind.allocatable.values()) for kind in types], bool)
        """Types that have less than nothing of something."""

        self._bought: dict[str, NDArray[np.bool_]] = {}
        self._room: dict[tuple[str, ...], NDArray[np.int64]] = {}
        self._absent = absent
        self._sayings: dict[str, _Sayings] = {}
        self._left: dict[Requirement, Bits] = {}

    def left(self, requirement: Requirement) -> Bits:
        """Return the offerings that satisfy `requirement`."""
        found = self._left.get(requirement)
        if found is None:
            found = self._left[requirement] = self.sayings(requirement.key).left(requirement)
        return found

    def bought(self, way: str) -> NDArray[np.bool_]:
        """Return which offerings are bought in one way."""
        found = self._bought.get(way)
        if found is None:
            found = self._bought[way] = np.array([each == way for each in self.ways], bool)
            found.setflags(write=False)
        return found

    def room(self, axis: tuple[str, ...]) -> NDArray[np.int64]:
        """Return what pods may use of each type, over some resources."""
        found = self._room.get(axis)
        if found is None:
            found = self._room[axis] = amounts_of([kind.allocatable for kind in self.types], axis)
            found.setflags(write=False)
        return found

    def sayings(self, key: str) -> _Sayings:
        """Return what the offerings say about a key."""
        found = self._sayings.get(key)
        if found is None:
            found = _Sayings(key, self.types, len(self.offerings), key in self._absent)
            self._sayings[key] = found
        return found


def amounts_of(lists: Sequence[Mapping[str, int]], axis: Sequence[str]) -> NDArray[np.int64]:
    """Return resource lists as rows over `axis`; a missing resource is zero."""
    rows = [[each.get(name, 0) for name in axis] for each in lists]
    return np.array(rows, np.int64).reshape(len(lists), len(axis))


def shelf_of(types: tuple[InstanceType, ...], absent: frozenset[str]) -> Shelf:
    """Return the shelf of some types, the same one as before when they are the same objects."""
    key = (id(types), absent)
    found = _shelves.get(key)
    if found is None:  # a shelf holds its types, so nothing else can have their id
        found = _shelves[key] = Shelf(types, absent)
        if len(_shelves) > _KEPT:
            _shelves.popitem(last=False)
    _shelves.move_to_end(key)
    return found


class _Sayings:
    """What the offerings say about one label key: the different sayings, and who says which."""

    def __init__(self, key: str, types: Sequence[InstanceType], count: int, well_known: bool) -> None:
        numbers: dict[Requirement | None, int] = {}
        said = np.empty(count, np.int64)
        position = 0
        absent = Requirement(key) if well_known else None
        for kind in types:
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
    if count <= _FEW:
        return [to_bits(said == number) for number in range(count)]
    found = [0] * count
    for position, number in enumerate(said.tolist()):
        found[number] |= 1 << position
    return found


def satisfies(said: Requirement | None, requirement: Requirement) -> bool:
    """Whether an offering that says `said` (None: nothing at all) can satisfy `requirement`."""
    if said is None or (said.tolerates_absence and requirement.tolerates_absence):
        return True
    return said.intersects(requirement)
