"""
The cluster at one moment of a flight record: what the operator had seen when it decided last before it.

Decisions are not made again; that is for :mod:`karpenter.replay.replay`.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from karpenter.core.model.catalog import Catalog
from karpenter.core.state.cluster import ClusterState, ClusterView
from karpenter.replay.record import (
    DECODER,
    FORMAT,
    KINDS,
    Answered,
    Asked,
    CatalogReader,
    Done,
    Lost,
    RecordBegun,
    Seen,
    Sold,
    event_of,
)
from karpenter.replay.replay import Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterable


class RecordedMoment(msgspec.Struct, frozen=True, kw_only=True):
    """What the operator had seen at a decision, and what it had done until then."""

    view: ClusterView
    catalog: Catalog
    now: datetime
    done: tuple[Done, ...] = ()


def moment_at(lines: Iterable[bytes], at: datetime | None) -> RecordedMoment | None:
    """
    Return the cluster at the last decision no later than `at`, or at the last of all; None before the first.

    Raises:
        Unreadable: naming the line.
    """
    reader = _MomentReader(at)
    for number, text in enumerate(lines, start=1):
        if not text.endswith(b"\n"):
            break  # the operator ended while it wrote
        try:
            if not reader.take(text):
                break
        except (msgspec.DecodeError, UnicodeDecodeError, KeyError, IndexError) as error:
            raise Unreadable(number, f"this is no line of a flight record ({error})") from error
        except ValueError as error:
            raise Unreadable(number, str(error)) from error
    return reader.found


class _MomentReader:
    def __init__(self, at: datetime | None) -> None:
        self._at = at
        self._store: ClusterState | None = None
        self._catalogs = CatalogReader()
        self._done: list[Done] = []
        self.found: RecordedMoment | None = None

    def take(self, text: bytes) -> bool:
        """Take in a line; False once it is later than the moment."""
        line = DECODER.decode(text)
        match line:
            case RecordBegun():
                if line.format != FORMAT:
                    raise ValueError(
                        f"the record has format {line.format}, and this version reads format {FORMAT}"
                    )
                self._store = ClusterState(serves=line.serves)
                self._catalogs = CatalogReader()
            case _ if self._store is None:
                raise ValueError("a record begins with what it is, and this does not")
            case Sold():
                self._catalogs.read(line)
            case Asked():
                return self._ask(line, self._store)
            case Done():
                self._done.append(line)
            case Seen(kind=kind) | Lost(kind=kind) if kind not in KINDS:
                raise ValueError(f"there is no kind {kind}")
            case Answered():
                pass
            case _:
                self._store.apply(event_of(line))
        return True

    def _ask(self, line: Asked, store: ClusterState) -> bool:
        if self._at is not None and line.now > self._at:
            return False
        store.unmark_for_deletion(store.marked)
        store.mark_for_deletion(line.marked)
        self.found = RecordedMoment(
            view=store.view(),
            catalog=self._catalogs[line.catalog],
            now=line.now,
            done=tuple(self._done),
        )
        return True
