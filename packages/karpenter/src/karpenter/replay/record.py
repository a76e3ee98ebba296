"""
The lines of a flight record, and how objects and catalogs are written.

    begun      a record begins here, with nothing known
    seen       an object is there, as it is now           lost      and is there no longer
    classified the same for a node class                  unclassified
    sold       the catalog, from here on; instance types are written once and then named by number
    asked      a question to the core, with everything that it depends on and the state does not hold
    answered   what came out of it
    done       an effect that was carried out

A decision has two lines because others come between them: it takes its time in a thread. Objects are
written as the operator holds them, which is what decisions read and little more. Of annotations only those
of Kubernetes and Karpenter are written: others may hold anything, and ``kubectl apply`` stores a copy of
the whole object in one. Most of a catalog stays the same when an offering is sold out or a price changes,
so a new catalog costs a few types and a list of numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from hashlib import sha256
from typing import Any, Final, TypeAlias

import msgspec

from karpenter.api.kinds import ALL_KINDS
from karpenter.api.meta import Resource, explain
from karpenter.core.model.catalog import Catalog, InstanceType, VolumePrice
from karpenter.core.model.requirement import Requirement
from karpenter.core.model.requirements import Requirements
from karpenter.core.state.cluster import (
    ClusterState,
    ClusterView,
    NodeClass,
    ObjectDeleted,
    ObjectUpdated,
    StateEvent,
)

FORMAT: Final = 3
"""Rises when a record of today could not be read any more."""


class RecordBegun(msgspec.Struct, frozen=True, kw_only=True, tag="begun", tag_field="line"):
    """A record begins."""

    format: int = FORMAT
    version: str

    at: datetime
    serves: tuple[tuple[str, str], ...]
    """Group and kind of the node classes that are the operator's."""


class Seen(msgspec.Struct, frozen=True, kw_only=True, tag="seen", tag_field="line"):
    """An object is there."""

    kind: str
    object: msgspec.Raw


class Lost(msgspec.Struct, frozen=True, kw_only=True, tag="lost", tag_field="line"):
    """An object is there no longer; this is what was known of it last."""

    kind: str
    object: msgspec.Raw


class Classified(msgspec.Struct, frozen=True, kw_only=True, tag="classified", tag_field="line"):
    """A node class is there."""

    node_class: NodeClass


class Unclassified(msgspec.Struct, frozen=True, kw_only=True, tag="unclassified", tag_field="line"):
    """A node class is there no longer."""

    node_class: NodeClass


class Sold(msgspec.Struct, frozen=True, kw_only=True, tag="sold", tag_field="line"):
    """Instance types and offerings that can be bought."""

    number: int
    new: tuple[msgspec.Raw, ...] = ()
    """Instance types that no line before has named; they are counted from the beginning of the record."""

    types: tuple[int, ...]
    by_pool: dict[str, tuple[int, ...]] = {}
    rest: dict[str, Any] = {}
    """The fields of the catalogue that are not types."""


class Asked(msgspec.Struct, frozen=True, kw_only=True, tag="asked", tag_field="line"):
    """A question."""

    number: int
    question: str
    """The name of the function."""

    now: datetime
    catalog: int
    marked: tuple[str, ...] = ()
    """Claims that were about to go."""

    given: dict[str, Any]
    """Every other argument."""


class Answered(msgspec.Struct, frozen=True, kw_only=True, tag="answered", tag_field="line"):
    """The answer to a question."""

    number: int
    cut: bool = False
    """Whether the time ran out: how far it came then cannot be repeated."""

    outcome: msgspec.Raw


class Done(msgspec.Struct, frozen=True, kw_only=True, tag="done", tag_field="line"):
    """An effect that was carried out, as far as it tells people something."""

    at: datetime
    effect: str
    about: str
    because: str


INJECTED_FAULT: Final = "InjectedFault"
"""The effect under which a simulated run records what it made go wrong; it may stand out of order."""

Line: TypeAlias = RecordBegun | Seen | Lost | Classified | Unclassified | Sold | Asked | Answered | Done

DECODER: Final = msgspec.json.Decoder(Line)


KINDS: Final = {kind.name: kind.struct for kind in ALL_KINDS}
"""What objects are read as, by kind."""

_KEPT: Final = ("kubernetes.io", "karpenter.sh", "k8s.aws", "kwok.sh", "x-k8s.io")
# https://kubernetes.io/docs/reference/labels-annotations-taints/#kubectl-kubernetes-io-last-applied-configuration
_COPIES: Final = "kubectl.kubernetes.io"

_encode = msgspec.json.Encoder().encode


def line_of(event: StateEvent) -> Seen | Lost | Classified | Unclassified:
    item, there = event.object, isinstance(event, ObjectUpdated)
    if isinstance(item, NodeClass):
        return Classified(node_class=item) if there else Unclassified(node_class=item)
    raw = msgspec.Raw(_encode(_without_private(item)))
    return Seen(kind=item.kind, object=raw) if there else Lost(kind=item.kind, object=raw)


def event_of(line: Seen | Lost | Classified | Unclassified) -> StateEvent:
    """Return the event that a line tells of.

    Raises:
        KeyError: there is no such kind.
        msgspec.DecodeError: it is no such object.
    """
    match line:
        case Classified(node_class=found):
            return ObjectUpdated(found)
        case Unclassified(node_class=found):
            return ObjectDeleted(found)
        case _:
            item = msgspec.json.decode(line.object, type=KINDS[line.kind])
            return ObjectUpdated(item) if isinstance(line, Seen) else ObjectDeleted(item)


def _without_private(item: Resource) -> Resource:
    notes = item.metadata.annotations
    kept = {key: value for key, value in notes.items() if _is_kept(key)}
    if len(kept) == len(notes):
        return item
    return msgspec.structs.replace(item, metadata=msgspec.structs.replace(item.metadata, annotations=kept))


def _is_kept(key: str) -> bool:
    domain = key.partition("/")[0]
    return domain != _COPIES and any(domain == each or domain.endswith(f".{each}") for each in _KEPT)


_REST: Final = (
    "well_known",
    "restricted_domains",
    "reservation_label",
    "zones",
    "volume_prices",
    "public_ipv4_price",
)


class CatalogWriter:
    """Tells which catalogue is in force, and knows which types were told before."""

    def __init__(self) -> None:
        self._catalog: Catalog | None = None
        self._catalogs = 0
        self._numbers: dict[bytes, int] = {}
        self._known: dict[int, tuple[InstanceType, int]] = {}

    @property
    def number(self) -> int:
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
            # Records of older versions have none of these.
            zones=frozenset(line.rest.get("zones", ())),
            volume_prices=msgspec.convert(line.rest.get("volume_prices", {}), dict[str, VolumePrice]),
            public_ipv4_price=line.rest.get("public_ipv4_price", 0.0),
        )
        self._catalogs = {line.number: catalog}

    def __contains__(self, number: object) -> bool:
        return number in self._catalogs

    def __getitem__(self, number: int) -> Catalog:
        return self._catalogs[number]


class Unreadable(ValueError):  # noqa: N818  says what is wrong
    """A line that does not belong in a record."""

    def __init__(self, number: int, problem: str) -> None:
        super().__init__(f"line {number}: {problem}")
        self.number = number


@contextmanager
def reading(number: int) -> Iterator[None]:
    """Name the line, where something is wrong with it."""
    try:
        yield
    except Unreadable:
        raise
    except msgspec.ValidationError as error:
        place, problem = explain(str(error))
        where = place or "this is no line of a flight record"
        raise Unreadable(number, f"{where}: {problem}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unreadable(number, "this is not JSON") from error
    except RecursionError as error:
        raise Unreadable(number, "this is nested too deep") from error
    except (KeyError, IndexError) as error:
        raise Unreadable(number, f"something is missing that it refers to ({error})") from error
    except ValueError as error:
        raise Unreadable(number, str(error)) from error


class RecordedCluster:
    """The cluster and the catalogue that a record tells of, up to the line that was read last."""

    def __init__(self) -> None:
        self._store: ClusterState | None = None
        self._catalogs = CatalogReader()
        self.version = ""
        """The version that wrote the record."""

    @property
    def store(self) -> ClusterState:
        assert self._store is not None, "a line was read"
        return self._store

    def catalog(self, line: Asked) -> Catalog:
        return self._catalogs[line.catalog]

    def read(self, line: Line) -> None:
        """
        Take in a line.

        Raises:
            ValueError: it does not belong here; one sentence.
        """
        if isinstance(line, RecordBegun):
            self._begin(line)
            return
        if self._store is None:
            raise ValueError("a record begins with what it is, and this does not")
        match line:
            case Sold():
                self._catalogs.read(line)
            case Asked(catalog=catalog) if catalog not in self._catalogs:
                raise ValueError(f"the catalog {catalog} that it refers to is not in the record")
            case Asked(marked=marked):
                self._store.unmark_for_deletion(self._store.marked)
                self._store.mark_for_deletion(marked)
            case Seen(kind=kind) | Lost(kind=kind) if kind not in KINDS:
                raise ValueError(f"there is no kind {kind}")
            case Seen() | Lost() | Classified() | Unclassified():
                self._store.apply(event_of(line))
            case Answered() | Done():
                pass

    def _begin(self, line: RecordBegun) -> None:
        if line.format != FORMAT:
            raise ValueError(
                f"the record has format {line.format}, and this version reads format {FORMAT}: "
                f"replay it with karpenter {line.version}, which wrote it"
            )
        self.version = line.version
        self._store, self._catalogs = ClusterState(serves=line.serves), CatalogReader()


def _plain(value: Any) -> Any:
    """Return what stands for a value that has no spelling of its own."""
    if isinstance(value, Requirements):
        return list(value)
    mapping: Mapping[Any, Any] = value
    return dict(mapping)


def _requirements(kind: type, value: Any) -> Any:
    assert kind is Requirements, kind
    return Requirements({each["key"]: msgspec.convert(each, Requirement) for each in value})


class RecordedMoment(msgspec.Struct, frozen=True, kw_only=True):
    """State that the operator had seen at a decision, and its effects until then; no decision is repeated."""

    view: ClusterView
    catalog: Catalog
    now: datetime
    done: tuple[Done, ...] = ()
    given: Mapping[str, Any] = {}
    """Arguments of the questions until then, by name, the last of each."""


def moment_at(lines: Iterable[bytes], at: datetime | None) -> RecordedMoment | None:
    """
    Return the cluster at the last decision no later than `at`, or at the last of all; None before the first.

    Raises:
        Unreadable: naming the line.
    """
    cluster, done, given = RecordedCluster(), list[Done](), dict[str, Any]()
    found: RecordedMoment | None = None
    for number, text in enumerate(lines, start=1):
        if not text.endswith(b"\n"):
            break  # the operator ended while it wrote
        with reading(number):
            line = DECODER.decode(text)
            if isinstance(line, Asked) and at is not None and line.now > at:
                break
            cluster.read(line)
            if isinstance(line, Done):
                done.append(line)
            elif isinstance(line, Asked):
                given |= line.given
                found = RecordedMoment(
                    view=cluster.store.view(),
                    catalog=cluster.catalog(line),
                    now=line.now,
                    done=tuple(done),
                    given=dict(given),
                )
    return found
