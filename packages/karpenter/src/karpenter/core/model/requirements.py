"""
Sets of requirements: which labels a node must have, key by key.

One side of a comparison describes a node (its labels, or what is still possible for it), the other comes in
with a pod. A key that the node side does not define is acceptable only when the incoming side tolerates its
absence, or when it is a well-known key that every launched node will have (`undefined_ok`).

The algebra of one key is in :mod:`.requirement`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import msgspec

from karpenter.api.labels import HOSTNAME
from karpenter.core.model.requirement import Requirement, RequirementTerm, requirement

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet


D = TypeVar("D")


class RequirementEntry(Protocol):
    """Any API struct that states one requirement."""

    @property
    def key(self) -> str: ...

    @property
    def operator(self) -> str: ...

    @property
    def values(self) -> Sequence[str]: ...


class Incompatible(msgspec.Struct, frozen=True):
    """Why two sets of requirements are incompatible: the key, and what both sides allow."""

    key: str
    wants: str
    has: str
    hint: str = ""

    def __str__(self) -> str:
        if not self.has:
            text = f"label {self.key} has no known values (pod wants {self.wants})"
            return f'{text}; did you mean "{self.hint}"?' if self.hint else text
        return f"pod wants {self.wants}, node has {self.has}"


def read_entries(entries: Iterable[RequirementEntry]) -> list[Requirement]:
    """
    Return API entries one by one; `minValues` is read where an entry has it.

    Raises:
        RequirementError: naming the key, what it says and what is allowed.
    """
    return [requirement(e.key, e.operator, e.values, getattr(e, "min_values", None)) for e in entries]


@lru_cache(maxsize=16384)
def _labelled(key: str, value: str) -> Requirement:
    """Return the requirement of one label; most labels are on many nodes, so the results are kept."""
    return requirement(key, "In", (value,))


class Requirements:
    """An immutable map of label key to `Requirement`; a missing key allows everything."""

    __slots__ = ("_by_key", "_hash")

    def __init__(self, by_key: dict[str, Requirement]) -> None:
        self._by_key = by_key
        self._hash: int | None = None

    @classmethod
    def of(cls, requirements: Iterable[Requirement]) -> Requirements:
        by_key: dict[str, Requirement] = {}
        for entry in requirements:
            held = by_key.get(entry.key)
            by_key[entry.key] = entry if held is None else held.intersect(entry)
        return cls(by_key)

    @classmethod
    def from_labels(cls, labels: Mapping[str, str]) -> Requirements:
        return cls.of([_labelled(key, value) for key, value in labels.items()])

    @classmethod
    def from_entries(cls, entries: Iterable[RequirementEntry]) -> Requirements:
        """
        Return the conjunction of API entries; `minValues` is read where an entry has it.

        Raises:
            RequirementError: naming the key, what it says and what is allowed.
        """
        return cls.of(read_entries(entries))

    def __getitem__(self, key: str) -> Requirement:
        return self._by_key.get(key) or Requirement(key, complement=True)

    def get(self, key: str, default: D) -> Requirement | D:
        """Return the requirement on `key`, or `default` when there is none."""
        return self._by_key.get(key, default)

    def __contains__(self, key: object) -> bool:
        return key in self._by_key

    def __iter__(self) -> Iterator[Requirement]:
        return iter(self._by_key.values())

    def __len__(self) -> int:
        return len(self._by_key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Requirements) and self._by_key == other._by_key

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self._by_key.values()))
        return self._hash

    def __repr__(self) -> str:
        return f"Requirements({self})"

    def __str__(self) -> str:
        return ", ".join(sorted(str(r) for r in self if r.key != HOSTNAME))

    def keys(self) -> AbstractSet[str]:
        return self._by_key.keys()

    def without(self, *keys: str) -> Requirements:
        """Return the set without the requirements on `keys`."""
        return Requirements({k: r for k, r in self._by_key.items() if k not in keys})

    def intersect(self, other: Requirements) -> Requirements:
        if not other._by_key:
            return self
        if not self._by_key:
            return other
        merged = self._by_key.copy()
        for key, incoming in other._by_key.items():
            held = merged.get(key)
            merged[key] = incoming if held is None else held.intersect(incoming)
        return Requirements(merged)

    @staticmethod
    def only(key: str, values: frozenset[str]) -> Requirements:
        """Return the requirement that `key` has one of `values`."""
        return Requirements({key: Requirement(key, values)})

    def conflict(self, other: Requirements) -> Incompatible | None:
        """Return the first shared key on which no value satisfies both, if there is one."""
        small, large = (
            (self._by_key, other._by_key) if len(self) <= len(other) else (other._by_key, self._by_key)
        )
        for key in small:
            if key not in large:
                continue
            mine, theirs = self._by_key[key], other._by_key[key]
            # NotIn and DoesNotExist hold on a node without the label, so two of them never conflict.
            if mine.tolerates_absence and theirs.tolerates_absence:
                continue
            if not mine.intersects(theirs):
                return Incompatible(key, str(theirs), str(mine))
        return None

    def refuses(
        self, incoming: Requirements, undefined_ok: AbstractSet[str] = frozenset()
    ) -> Incompatible | None:
        """Return why a node like this cannot satisfy `incoming`; None when it can."""
        for key, wanted in incoming._by_key.items():
            if key in self._by_key or key in undefined_ok or wanted.tolerates_absence:
                continue
            return Incompatible(key, str(wanted), "", self._closest(key, undefined_ok))
        return self.conflict(incoming)

    def _lacks(self, incoming: Requirements, undefined_ok: AbstractSet[str]) -> bool:
        """Return whether `incoming` needs a label that nodes like this do not have."""
        return any(
            not (key in self._by_key or key in undefined_ok or wanted.tolerates_absence)
            for key, wanted in incoming._by_key.items()
        )

    def accepts(self, incoming: Requirements, undefined_ok: AbstractSet[str] = frozenset()) -> bool:
        """Return whether a node like this satisfies `incoming`."""
        # It is asked far more often than why not, which costs a look at every known label.
        return not self._lacks(incoming, undefined_ok) and self.conflict(incoming) is None

    def labels(self) -> dict[str, str]:
        """Return the labels that have exactly one allowed value."""
        return {r.key: next(iter(r.values)) for r in self if not r.complement and len(r.values) == 1}

    def terms(self) -> tuple[RequirementTerm, ...]:
        """Return the set in API form, ordered by key."""
        return tuple(term for key in sorted(self._by_key) for term in self._by_key[key].terms())

    def _closest(self, key: str, undefined_ok: AbstractSet[str]) -> str:
        """Return a known key that contains `key` or ends like it, as a hint for a typo."""
        tail = key.rpartition("/")[2]
        if not tail:
            return ""
        for known in (*sorted(undefined_ok), *sorted(self._by_key)):
            if key in known or known.endswith(tail):
                return known
        return ""


NOTHING_REQUIRED: Final = Requirements({})
