"""
Catalogues as lines: every instance type once, and then by its number.

Most of what is sold stays the same when something is sold out or a price changes, so a new catalogue costs a
few types and a list of numbers.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.core.model.catalog import Catalog, InstanceType
from karpenter.core.model.labels import Requirement
from karpenter.core.model.requirements import Requirements
from karpenter.telemetry.flight.lines import Sold

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_REST: Final = ("well_known", "restricted_domains", "reservation_label")


class CatalogWriter:
    """Tells which catalogue is in force, and knows which types were told before."""

    def __init__(self) -> None:
        self._catalog: Catalog | None = None
        self._catalogs = 0
        self._numbers: dict[bytes, int] = {}
        self._known: dict[int, tuple[InstanceType, int]] = {}

    @property
    def number(self) -> int:
        """The number of the catalogue in force."""
        return self._catalogs

    def line(self, catalog: Catalog) -> Sold | None:
        """Return the line that is due before a question about a catalogue; None if it is in force."""
        if catalog is self._catalog:
            return None
        self._catalog = catalog
        self._catalogs += 1
        new: list[msgspec.Raw] = []
        types = self._number_all(catalog.types, new)
        by_pool = {pool: self._number_all(kinds, new) for pool, kinds in catalog.by_pool.items()}
        # What is sold no longer need not be held for its identity's sake.
        current = {
            *map(id, catalog.types),
            *(id(kind) for kinds in catalog.by_pool.values() for kind in kinds),
        }
        self._known = {key: value for key, value in self._known.items() if key in current}
        rest = {
            name: sorted(value) if isinstance(value, frozenset) else value
            for name in _REST
            for value in (getattr(catalog, name),)
        }
        return Sold(number=self._catalogs, new=tuple(new), types=types, by_pool=by_pool, rest=rest)

    def _number_all(self, kinds: Iterable[InstanceType], new: list[msgspec.Raw]) -> tuple[int, ...]:
        return tuple(self._number(kind, new) for kind in kinds)

    def _number(self, kind: InstanceType, new: list[msgspec.Raw]) -> int:
        held = self._known.get(id(kind))
        if held is not None:
            return held[1]
        text = msgspec.json.encode(kind, enc_hook=_plain)
        digest = sha256(text).digest()
        number = self._numbers.get(digest)
        if number is None:
            number = self._numbers[digest] = len(self._numbers)
            new.append(msgspec.Raw(text))
        self._known[id(kind)] = (kind, number)
        return number


class CatalogReader:
    """Makes catalogues of lines."""

    def __init__(self) -> None:
        self._types: list[InstanceType] = []
        self._catalogs: dict[int, Catalog] = {}

    def read(self, line: Sold) -> None:
        """Take in a catalogue.

        Raises:
            msgspec.DecodeError, IndexError: it is none.
        """
        self._types += [
            msgspec.json.decode(each, type=InstanceType, dec_hook=_requirements) for each in line.new
        ]
        catalog = Catalog(
            types=tuple(self._types[number] for number in line.types),
            by_pool={pool: tuple(self._types[n] for n in numbers) for pool, numbers in line.by_pool.items()},
            well_known=frozenset(line.rest["well_known"]),
            restricted_domains=frozenset(line.rest["restricted_domains"]),
            reservation_label=line.rest["reservation_label"],
        )
        self._catalogs = {line.number: catalog}

    def __contains__(self, number: object) -> bool:
        return number in self._catalogs

    def __getitem__(self, number: int) -> Catalog:
        return self._catalogs[number]


def _plain(value: Any) -> Any:
    """Return what stands for a value that has no spelling of its own."""
    if isinstance(value, Requirements):
        return list(value)
    mapping: Mapping[Any, Any] = value
    return dict(mapping)


def _requirements(kind: type, value: Any) -> Any:
    assert kind is Requirements, kind
    return Requirements({each["key"]: msgspec.convert(each, Requirement) for each in value})
