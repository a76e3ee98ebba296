"""
Offerings as arrays and bit sets: which offerings a requirement leaves, and how much room their types have.

The available offerings of a catalog are numbered once; a set of them is a Python integer with one bit per
offering, so that narrowing a claim is a single ``&``. For every label key the offerings are grouped by the
values that they have, and a requirement is compared once per different value, never once per offering.

:class:`OfferingTable` depends on nothing but the instance types, so one table serves every problem that has
them; the last few are kept. :class:`PoolOfferingTable` adds what daemons leave of each type in one
NodePool. No table knows pods, claims or topology.
"""

from __future__ import annotations

from collections import OrderedDict
from functools import cached_property
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from karpenter.api.labels import RESERVED
from karpenter.core.model.requirement import Requirement

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from karpenter.core.model.catalog import InstanceType, Offering


Bits: TypeAlias = int
"""A set of offerings, one bit each."""

Flags: TypeAlias = "NDArray[np.bool_]"
"""The same set as an array."""

Amounts: TypeAlias = "NDArray[np.int64]"
"""Amounts of resources as an array."""

_FEW: Final = 32
"""Up to this many different label values, an array pass for each is faster than a walk over positions."""

_KEPT: Final = 16
"""How many offering tables are kept for later problems."""

_REMEMBERED: Final = 8192
"""For how many requirements a table remembers the offerings; pods can state any number of them."""


class PoolOfferingTable:
    """The offerings of one NodePool, and the room of each type after daemons."""

    def __init__(
        self,
        types: tuple[InstanceType, ...],
        axis: Sequence[str],
        well_known: frozenset[str],
    ) -> None:
        """
        Number the offerings of `types`.

        `axis` names the resources that pods or daemons request; a well-known key that a type does
        not name is a label that it lacks.
        """
        self._shared = offering_table(types, well_known)
        self.types = self._shared.types
        self.offerings = self._shared.offerings
        self.owner = self._shared.owner
        self.price = self._shared.price
        self.everything = self._shared.everything
        self.axis = tuple(axis)
        self.room = self._shared.room(self.axis)
        self.has_capacity_type = self._shared.has_capacity_type
        self.reserved = self._shared.reserved

    def reserve(self, daemons: Sequence[Mapping[str, int]]) -> None:
        """Subtract what daemons request from the room of each type; a negative room counts as none."""
        room = self._shared.room(self.axis) - amounts_of(daemons, self.axis)
        room[self._shared.overdrawn | (room < 0).any(axis=1)] = -1
        self.room = room

    def matching(self, requirement: Requirement) -> Bits:
        """Return the offerings that satisfy `requirement`."""
        return self._shared.matching(requirement)

    def keep(self, bits: Bits, requirements: Iterable[Requirement]) -> Bits:
        """Return those of `bits` that satisfy all `requirements`."""
        for each in requirements:
            bits &= self.matching(each)
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
        """Return the lowest price in `bits`; infinity when it is empty."""
        return float(self.price[self.flags(bits)].min(initial=np.inf))

    def values(self, key: str, bits: Bits) -> frozenset[str]:
        """Return the values of `key` that some offering in `bits` can have."""
        return self._shared.label_values(key).values(bits)

    def names(self, key: str) -> bool:
        """Whether any offering names a value of `key`."""
        return self._shared.label_values(key).names

    def frontier(self, bits: Bits) -> Amounts:
        """Return the largest rooms among the types in `bits`, of which none covers another."""
        rooms = self.room[self.types_of(bits)]
        rooms = rooms[(rooms >= 0).all(axis=1)]
        return pareto(rooms)


def pareto(rows: Amounts) -> Amounts:
    """Return the rows that no other row equals or exceeds everywhere, largest first."""
    kept = []
    scale = rows.max(axis=0, initial=1)
    while len(rows):
        best = rows[int((rows / scale).sum(axis=1).argmax())]
        kept.append(best)
        rows = rows[(rows > best).any(axis=1)]
    return np.array(kept, np.int64).reshape(len(kept), rows.shape[1])


_tables: OrderedDict[tuple[int, frozenset[str]], OfferingTable] = OrderedDict()


def offering_table(types: tuple[InstanceType, ...], absent: frozenset[str]) -> OfferingTable:
    """Return the table of some types, the same object for the same types."""
    key = (id(types), absent)
    found = _tables.get(key)
    if found is None:  # a table holds its types, so no other object can have their id
        found = _tables[key] = OfferingTable(types, absent)
        if len(_tables) > _KEPT:
            _tables.popitem(last=False)
    _tables.move_to_end(key)
    return found


class OfferingTable:
    """The available offerings of some instance types, numbered; depends on nothing but the types."""

    def __init__(self, types: tuple[InstanceType, ...], absent: frozenset[str]) -> None:
        """Number the offerings of `types`; they lack the labels in `absent` that they do not name."""
        self.types = types
        self.offerings: list[Offering] = []
        owner: list[int] = []
        for position, kind in enumerate(types):
            self.offerings.extend(kind.available)
            owner.extend([position] * len(kind.available))
        self.owner = np.array(owner, np.int64)
        self.price = np.array([o.price for o in self.offerings], np.float64)
        self.capacity_types = tuple(o.capacity_type for o in self.offerings)
        """The capacity type of each offering."""

        self.reserved = tuple(
            o
            for o, capacity_type in zip(self.offerings, self.capacity_types, strict=True)
            if capacity_type == RESERVED
        )
        self.everything: Bits = (1 << len(self.offerings)) - 1
        self.overdrawn = np.array([any(v < 0 for v in kind.allocatable.values()) for kind in types], bool)
        """Types whose overhead exceeds their capacity of some resource."""

        self._by_capacity_type: dict[str, NDArray[np.bool_]] = {}
        self._room: dict[tuple[str, ...], NDArray[np.int64]] = {}
        self._absent = absent
        self._named = frozenset(_label_keys(types))
        self._label_values: dict[str, _LabelValues] = {}
        self._matching: OrderedDict[Requirement, Bits] = OrderedDict()

    def matching(self, requirement: Requirement) -> Bits:
        """Return the offerings that satisfy `requirement`."""
        found = self._matching.get(requirement)
        if found is None:
            found = self._matching[requirement] = self.label_values(requirement.key).matching(requirement)
            if len(self._matching) > _REMEMBERED:
                self._matching.popitem(last=False)
        return found

    def has_capacity_type(self, capacity_type: str) -> NDArray[np.bool_]:
        found = self._by_capacity_type.get(capacity_type)
        if found is None:
            found = self._by_capacity_type[capacity_type] = np.array(
                [each == capacity_type for each in self.capacity_types], bool
            )
            found.setflags(write=False)
        return found

    def room(self, axis: tuple[str, ...]) -> NDArray[np.int64]:
        """Return the allocatable of each type over some resources."""
        found = self._room.get(axis)
        if found is None:
            found = self._room[axis] = amounts_of([kind.allocatable for kind in self.types], axis)
            found.setflags(write=False)
        return found

    def label_values(self, key: str) -> _LabelValues:
        if key not in self._named and key not in self._absent:
            return self._open
        found = self._label_values.get(key)
        if found is None:
            found = _LabelValues(key, self.types, len(self.offerings), key in self._absent)
            self._label_values[key] = found
        return found

    @cached_property
    def _open(self) -> _LabelValues:
        """Of every key that no type and no offering names: pods can state any number of them."""
        return _LabelValues("", self.types, len(self.offerings), well_known=False)


def _label_keys(types: Iterable[InstanceType]) -> Iterator[str]:
    for kind in types:
        yield from kind.requirements.keys()
        for offering in kind.available:
            yield from offering.requirements.keys()


def to_bits(flags: Flags) -> Bits:
    """Return flags as an integer, the first flag in the lowest bit."""
    return int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little")


def to_flags(bits: Bits, length: int) -> Flags:
    """Return the lowest `length` bits as flags."""
    raw = np.frombuffer(bits.to_bytes((length + 7) // 8, "little"), np.uint8)
    return np.unpackbits(raw, count=length, bitorder="little").astype(bool)


def packed(flags: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """Return rows of flags packed into 64-bit words."""
    width = -(-flags.shape[1] // 64) * 64
    wide = np.zeros((len(flags), width), bool)
    wide[:, : flags.shape[1]] = flags
    return np.packbits(wide, axis=1).view(np.uint64)


def amounts_of(lists: Sequence[Mapping[str, int]], axis: Sequence[str]) -> NDArray[np.int64]:
    """Return resource lists as rows over `axis`; a missing resource is zero."""
    rows = [[each.get(name, 0) for name in axis] for each in lists]
    return np.array(rows, np.int64).reshape(len(lists), len(axis))


class _LabelValues:
    """The different values of one label key, and which offerings have which."""

    def __init__(self, key: str, types: Sequence[InstanceType], count: int, well_known: bool) -> None:
        numbers: dict[Requirement | None, int] = {}
        stated = np.empty(count, np.int64)
        position = 0
        absent = Requirement(key) if well_known else None
        for kind in types:
            general = kind.requirements.get(key, absent)
            for offering in kind.available:
                value = offering.requirements.get(key, general)
                stated[position] = numbers.setdefault(value, len(numbers))
                position += 1
        self._sets = list(numbers)
        self.names = any(each is not None and each.values for each in self._sets)
        self._bits = _bits_by_number(stated, len(numbers))
        self._by_value: dict[str, list[int]] = {}
        self._unlisted: list[int] = []
        for number, each in enumerate(self._sets):
            if each is None or each.complement or not each.values:
                self._unlisted.append(number)
            else:
                for text in each.values:
                    self._by_value.setdefault(text, []).append(number)

    def matching(self, requirement: Requirement) -> Bits:
        asked: Iterable[int]
        if requirement.complement or not requirement.values:
            asked = range(len(self._sets))
        else:
            asked = {n for value in requirement.values for n in self._by_value.get(value, ())}.union(
                self._unlisted
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


def _bits_by_number(stated: NDArray[np.int64], count: int) -> list[Bits]:
    if count <= _FEW:
        return [to_bits(stated == number) for number in range(count)]
    found = [0] * count
    for position, number in enumerate(stated.tolist()):
        found[number] |= 1 << position
    return found


def satisfies(stated: Requirement | None, requirement: Requirement) -> bool:
    """Whether an offering with the value `stated` (None: the label is open) can satisfy `requirement`."""
    # A label that neither the type nor the offering names is open: the node may get it from the NodePool
    # template.
    if stated is None or (stated.tolerates_absence and requirement.tolerates_absence):
        return True
    return stated.intersects(requirement)
