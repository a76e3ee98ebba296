"""
What an informer holds: the newest version of each object, found by key or by index.

Plain bookkeeping: it is told what to hold and what to drop. What is news is :mod:`.cache`'s to decide.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")

Indexer = Callable[[T], Iterable[str]]
"""Says under which values an object is found."""


class Stamp(NamedTuple):
    """Which life of an object, and which version of it."""

    uid: str
    version: str


class Store(Generic[T]):
    """Objects by key, with their versions and their indexes."""

    def __init__(self, indexers: Mapping[str, Indexer[T]] | None = None) -> None:
        self._indexers = dict(indexers or {})
        self._objects: dict[str, T] = {}
        self._stamps: dict[str, Stamp] = {}
        # Keys in dictionaries and not in sets: the order of iteration is the order of arrival, on every run.
        self._indexes: dict[str, dict[str, dict[str, None]]] = {name: {} for name in self._indexers}

    def __len__(self) -> int:
        return len(self._objects)

    def __contains__(self, key: object) -> bool:
        return key in self._objects

    def __iter__(self) -> Iterator[T]:
        return iter(self._objects.values())

    def items(self) -> tuple[tuple[str, T], ...]:
        """Return every key with its object."""
        return tuple(self._objects.items())

    def stamps(self) -> tuple[tuple[str, Stamp], ...]:
        """Return every key with the uid and resourceVersion of its object."""
        return tuple(self._stamps.items())

    def get(self, key: str) -> T | None:
        """Return the object under `key`, if it is there."""
        return self._objects.get(key)

    def stamp(self, key: str) -> Stamp | None:
        """Return uid and resourceVersion of the object under `key`, if it is there."""
        return self._stamps.get(key)

    def find(self, index: str, value: str) -> tuple[T, ...]:
        """Return the objects that `index` puts under `value`."""
        return tuple(self._objects[key] for key in self._indexes[index].get(value, ()))

    def values(self, index: str) -> tuple[str, ...]:
        """Return every value under which `index` has an object."""
        return tuple(self._indexes[index])

    def put(self, key: str, item: T, stamp: Stamp) -> T | None:
        """Hold `item` and return what was held before."""
        before = self._objects.get(key)
        if before is not None:
            self._unindex(key, before)
        self._objects[key] = item
        self._stamps[key] = stamp
        for name, indexer in self._indexers.items():
            for value in indexer(item):
                self._indexes[name].setdefault(value, {})[key] = None
        return before

    def remove(self, key: str) -> T | None:
        """Let go of the object under `key` and return it."""
        before = self._objects.pop(key, None)
        self._stamps.pop(key, None)
        if before is not None:
            self._unindex(key, before)
        return before

    def _unindex(self, key: str, item: T) -> None:
        for name, indexer in self._indexers.items():
            index = self._indexes[name]
            for value in indexer(item):
                keys = index.get(value, {})
                keys.pop(key, None)
                if not keys:
                    index.pop(value, None)
