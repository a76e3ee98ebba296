"""
Writes a flight record.

The newest lines are in the file that was named. When it has grown to its limit it is kept beside it with
``.1`` at its end, in place of the one before, and a new file begins with all that is known. So there are
never more than two, and each can be read by itself. A failure here ends the recording, not the operator.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec
import structlog

from karpenter import __version__
from karpenter.base.files import make_private_folder, private
from karpenter.core.disruption.disrupt import DisruptionDecision, disrupt
from karpenter.core.effects import Announce, Count, Effect, Measure, Nominate, RegistrationOutcome
from karpenter.core.state.cluster import ClusterState, ClusterView, NodeClass, ObjectUpdated, StateEvent
from karpenter.replay.record import Answered, Asked, CatalogWriter, Done, Line, RecordBegun, line_of
from karpenter.replay.replay import QUESTIONS, Origin, commands_of, given, outcome_of, view_and_catalog

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from functools import partial
    from pathlib import Path
    from types import TracebackType

    from karpenter.api.meta import Resource
    from karpenter.base.clock import Clock
    from karpenter.core.disruption.command import Command

log = structlog.stdlib.get_logger(__name__)

_FIELDS_FIRST = ("node_classes", "pools", "claims", "nodes")
_SILENT = (Count, Measure, Nominate, RegistrationOutcome)
"""Effects that change no object of the cluster or the cloud."""

_encode = msgspec.json.Encoder().encode


class FlightRecorder:
    """Writes one record."""

    def __init__(
        self, path: Path, *, limit: int, store: ClusterState, serves: Iterable[tuple[str, str]], clock: Clock
    ) -> None:
        self._path = path
        self._limit = limit
        self._store = store
        self._serves = tuple(serves)
        self._clock = clock
        self._file: BinaryIO | None = None
        self._size = 0
        self._least = 0
        """Bytes that even a new file would have at once."""

        self._catalogs = CatalogWriter()
        self._decisions = 0
        self._pending: set[int] = set()
        self._commands: dict[int, tuple[Command, Origin]] = {}

    def open(self) -> None:
        """
        Begin; a record that is there already is kept as the older one.

        Raises:
            OSError: the file cannot be written.
        """
        self._begin()
        self._store.subscribe(self._hear)

    def close(self) -> None:
        if self._file is not None:
            with _Harmless(self):
                self._file.close()
            self._file = None

    def asked(self, call: partial[Any]) -> int:
        """Write a question; return its number, or 0 if it is none that can be replayed."""
        if self._file is None or QUESTIONS.get(getattr(call.func, "__name__", "")) is not call.func:
            return 0
        with _Harmless(self):
            # A validation names the decision that its command comes from, which must be in the same file.
            if call.func is disrupt and self._size > max(self._limit, 2 * self._least) and not self._pending:
                # Then no command waits for its validation, which names the decision that it comes from.
                self.close()
                self._begin()
            view, catalog = view_and_catalog(call)
            if (sold := self._catalogs.line(catalog)) is not None:
                before = self._size
                self._write(sold)
                self._least += self._size - before if sold.number == 1 else 0
            self._decisions += 1
            self._pending.add(self._decisions)
            self._write(
                Asked(
                    number=self._decisions,
                    question=call.func.__name__,
                    now=call.keywords["now"],
                    catalog=self._catalogs.number,
                    marked=tuple(sorted(view.marked)),
                    given=given(call, self._origin),
                )
            )
            return self._decisions
        return 0

    def answered(self, number: int, result: Any, *, cut: bool) -> None:
        if self._file is None:
            return
        with _Harmless(self):
            self._pending.discard(number)
            if isinstance(result, DisruptionDecision):
                self._commands.clear()
            for place, each in enumerate(commands_of(result)):
                self._commands[id(each)] = (each, Origin(number, place))
            self._write(Answered(number=number, cut=cut, outcome=msgspec.Raw(_encode(outcome_of(result)))))
            if self._file is not None:
                self._file.flush()

    def failed(self, number: int) -> None:
        """Note that a question will not be answered."""
        self._pending.discard(number)

    def done(self, effect: Effect) -> None:
        """Write an effect that was carried out."""
        if isinstance(effect, _SILENT) or self._file is None:
            return
        with _Harmless(self):
            self._write(
                Done(
                    at=self._clock.now(),
                    effect=type(effect).__name__,
                    about=_subject(effect),
                    because=effect.because,
                )
            )

    def _hear(self, event: StateEvent, before: Resource | NodeClass | None) -> None:
        del before
        if self._file is not None:
            with _Harmless(self):
                self._write(line_of(event))

    def _origin(self, command: Command) -> Origin:
        held = self._commands.get(id(command))
        return held[1] if held is not None else Origin(0, 0)

    def _begin(self) -> None:
        if self._path.exists():
            self._path.replace(self._path.with_name(f"{self._path.name}.1"))
        make_private_folder(self._path.parent)
        self._file = open(self._path, "wb", opener=private)  # noqa: SIM115  closed in close
        self._size = 0
        self._catalogs = CatalogWriter()
        self._write(RecordBegun(version=__version__, at=self._clock.now(), serves=self._serves))
        for event in _all_of(self._store.view()):
            self._write(line_of(event))
        self._least = self._size

    def _write(self, line: Line) -> None:
        assert self._file is not None
        text = _encode(line)
        self._file.write(text)
        self._file.write(b"\n")
        self._size += len(text) + 1

    def give_up(self, error: Exception) -> None:
        """End the recording, with one line in the log."""
        log.error("flight_record.ended", file=str(self._path), error=str(error))
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):
                file.close()


class _Harmless:
    """Lets a failure end the recording, and nothing else: a record is not worth the operator."""

    def __init__(self, flight: FlightRecorder) -> None:
        self._flight = flight

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        self._flight.give_up(error)
        return True


def _all_of(view: ClusterView) -> Iterator[StateEvent]:
    """Return everything that is known, in an order from which the same view comes out."""
    fields = [*_FIELDS_FIRST, *(each for each in view.__struct_fields__ if each not in _FIELDS_FIRST)]
    for field in fields:
        if field in {"pods", "marked"}:
            continue
        for item in getattr(view, field).values():
            yield ObjectUpdated(item)
    bound = {pod.key: pod for pods in view.pods_by_node.values() for pod in pods}
    for pod in (*bound.values(), *(pod for key, pod in view.pods.items() if key not in bound)):
        yield ObjectUpdated(pod)


def _subject(effect: Effect) -> str:
    if isinstance(effect, Announce):
        return f"{effect.about.kind}/{effect.about.name} {effect.reason}"
    for name in ("name", "pod", "provider_id"):
        if found := getattr(effect, name, ""):
            return f"{getattr(effect, 'kind', '') or name}/{found}"
    claim = getattr(effect, "claim", None)
    return f"NodeClaim/{claim.name or claim.metadata.generate_name}" if claim is not None else ""
