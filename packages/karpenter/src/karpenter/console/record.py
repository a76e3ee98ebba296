"""
A flight record as the console's document: one frame per moment, and every decision, event and fault.

Decisions are those that were recorded and are not made again. Changes of objects have no time of their own in
a record; they count for the next decision or effect, which has one. The record of a simulated run has the
faults that were injected, and one beginning for each operator.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.console.state import (
    ConsoleDecision,
    ConsoleDocument,
    Frame,
    PlanSummary,
    Snapshot,
    SnapshotBuilder,
    command_row,
    frame_between,
    plan_summary,
)
from karpenter.core.effects import Announce
from karpenter.core.model.catalog import EMPTY, Catalog
from karpenter.replay.record import (
    DECODER,
    INJECTED_FAULT,
    Answered,
    Asked,
    Done,
    Line,
    RecordBegun,
    RecordedCluster,
    Unreadable,
    reading,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from karpenter.why.answer import Inquiry

MOST_FRAMES: Final = 5000
_LEAST: Final = timedelta(seconds=1)
_TIMED: Final = (b'{"line":"asked"', b'{"line":"done"')
_SHOWN_PODS: Final = 50
_AT: Final = msgspec.json.Decoder(dict[str, Any])

FAULTS: Final = frozenset(
    {
        "InsufficientCapacityError",
        "InstanceStopping",
        "InstanceTerminating",
        "NodeRepairBlocked",
        "RebalanceRecommendation",
        "RegistrationFailed",
        "ScheduledChange",
        "SpotInterrupted",
        "SpotRebalanceRecommendation",
        "UnregisteredTaintMissing",
    }
)
"""Reasons of Events that tell of something that went wrong with a machine or with the cloud."""

EVENTS: Final = FAULTS | {
    "ConsolidationRejected",
    "FailedConsistencyCheck",
    "FailedScheduling",
    "NoCompatibleInstanceTypes",
    "TerminatingOnInterruption",
}
"""Reasons of Events that have a row in the timeline; the others repeat decisions, or what the map shows."""


def read_record(lines: Iterable[bytes], *, title: str, interval: timedelta = _LEAST) -> ConsoleDocument:
    """
    Return a flight record as a document; frames are at least `interval` apart.

    Raises:
        Unreadable: naming the line.
    """
    reader = _RecordReader(interval)
    for number, text in enumerate(lines, start=1):
        if not text.endswith(b"\n"):
            break  # the operator ended while it wrote
        with reading(number):
            reader.take(DECODER.decode(text))
    reader.close()
    if reader.first is None or reader.began is None:
        raise Unreadable(1, "there is no decision in the record")
    return ConsoleDocument(
        mode="record",
        title=title,
        at=reader.began,
        snapshot=reader.first,
        frames=tuple(reader.frames),
        decisions=tuple(sorted(reader.decisions, key=lambda each: each.at)),
    )


def fitting_interval(lines: Iterable[bytes]) -> timedelta:
    """Return the least time between frames with which a record has no more than :data:`MOST_FRAMES`."""
    first = last = None
    for text in lines:
        if text.startswith(_TIMED) and text.endswith(b"\n"):
            plain = _AT.decode(text)
            at = datetime.fromisoformat(plain.get("now") or plain["at"])
            first, last = first or at, max(last or at, at)
    span = last - first if first is not None and last is not None else timedelta()
    return max(_LEAST, span / MOST_FRAMES)


def sampled_moments(document: ConsoleDocument, count: int) -> list[datetime]:
    """Return moments of a record that are spread over its frames, the last one included."""
    times = [document.at, *(frame.at for frame in document.frames)]
    step = max(1.0, len(times) / count)
    chosen = {times[min(round((number + 1) * step) - 1, len(times) - 1)] for number in range(count)}
    return sorted({times[-1], *chosen})


def plan_at(inquiry: Inquiry) -> PlanSummary:
    """Return what the operator would do with the cluster of an inquiry."""
    snapshot = SnapshotBuilder().build(inquiry.view, inquiry.catalog)
    return plan_summary(inquiry.disrupt(inquiry.view), snapshot, inquiry.now)


class _RecordReader:
    def __init__(self, interval: timedelta) -> None:
        self._interval = interval
        self._cluster = RecordedCluster()
        self._catalog: Catalog = EMPTY
        self._builder = SnapshotBuilder()
        self._snapshot: Snapshot | None = None
        self._last: datetime | None = None
        self._newest: datetime | None = None
        self._asked: dict[int, Asked] = {}
        self._refused: dict[str, str] = {}
        self.first: Snapshot | None = None
        self.began: datetime | None = None
        self.frames: list[Frame] = []
        self.decisions: list[ConsoleDecision] = []

    def take(self, line: Line) -> None:
        self._cluster.read(line)
        match line:
            case RecordBegun():
                self._asked.clear()
                self._catalog = EMPTY  # until its first decision an operator has not seen the whole cluster
                if self.began is not None:
                    row = ConsoleDecision(at=line.at, kind="fault", title="an operator starts anew")
                    self.decisions.append(row)
            case Asked():
                self._catalog = self._cluster.catalog(line)
                self._asked[line.number] = line
                self._look(line.now)
            case Answered():
                self._answer(line)
            case Done():
                self._done(line)

    def close(self) -> None:
        if self._newest is not None:
            self._look(self._newest, always=True)

    def _look(self, at: datetime, *, always: bool = False) -> None:
        """Add a frame, if there is something new in it and the last one is not too near."""
        self._newest = max(self._newest or at, at)
        if self._last is not None and not always and at - self._last < self._interval:
            return
        if self._catalog is EMPTY:
            return  # nothing has a price before the first decision
        snapshot = self._builder.build(self._cluster.store.view(), self._catalog)
        if self._snapshot is None:
            self.first, self.began = snapshot, at
        else:
            frame = frame_between(self._snapshot, snapshot, at)
            if frame.is_empty:
                return
            self.frames.append(frame)
        self._snapshot, self._last = snapshot, at

    def _answer(self, line: Answered) -> None:
        asked = self._asked.pop(line.number, None)
        if asked is None:
            raise ValueError(f"it answers decision {line.number}, which was not asked for")
        outcome = msgspec.json.decode(line.outcome)
        self.decisions += [
            ConsoleDecision(at=asked.now, **row) for row in _rows(asked.question, outcome, self._refused)
        ]

    def _done(self, line: Done) -> None:
        if line.effect == INJECTED_FAULT:
            row = ConsoleDecision(at=line.at, kind="fault", title=line.because, because="injected")
            self.decisions.append(row)
            return
        self._look(line.at)
        about, _, reason = line.about.rpartition(" ")
        if line.effect == Announce.__name__ and reason in EVENTS:
            self.decisions.append(event_row(line.at, reason, about, line.because))


def event_row(at: datetime, reason: str, about: str, message: str) -> ConsoleDecision:
    """Return the row of the timeline for an Event about an object, as ``Kind/name``."""
    kind, _, name = about.partition("/")
    return ConsoleDecision(
        at=at,
        kind="fault" if reason in FAULTS else "event",
        title=f"{reason}: {about}",
        because=message,
        machines=(name,) if kind in {"Node", "NodeClaim"} else (),
        pods=(name,) if kind == "Pod" else (),
    )


def _rows(question: str, outcome: dict[str, Any], refused: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Yield the rows of one recorded decision; pods are told as refused once for each reason."""
    if question == "provision":
        yield from _provision_rows(outcome)
        now = {each["pod"]: each["message"] for each in outcome.get("refusals", ())}
        for pod, message in now.items():
            if refused.get(pod) != message:
                yield {
                    "kind": "provision",
                    "title": f"no place for {pod}",
                    "because": message,
                    "pods": (pod,),
                }
        refused.clear()
        refused.update(now)
    elif question == "disrupt":
        for command in outcome.get("commands", ()):
            row = command_row(command)
            yield {**row, "title": f"decided to {row['title']}"}
    elif "valid" in outcome:
        row = command_row(outcome["valid"])
        yield {**row, "realized": row["hourly"] < 0}
    elif "invalid" in outcome:
        yield {
            "kind": "disrupt",
            "title": "the decision does not hold any longer",
            "because": outcome["invalid"]["message"],
        }


def _provision_rows(outcome: dict[str, Any]) -> Iterator[dict[str, Any]]:
    claims = outcome.get("claims", ())
    if not claims:
        return
    pods = [pod for each in claims for pod in each.get("pods", ())]
    pools = sorted({each["claim"]["metadata"]["labels"].get("karpenter.sh/nodepool", "") for each in claims})
    count = f"{len(claims)} machine{'s' if len(claims) > 1 else ''}"
    yield {
        "kind": "provision",
        "title": f"launch {count} of NodePool {', '.join(pools)}",
        "because": f"{len(pods)} pods wait" if len(pods) != 1 else "1 pod waits",
        "hourly": round(outcome.get("cost", {}).get("hourly", 0.0), 6),
        "pods": tuple(pods[:_SHOWN_PODS]),
        "details": tuple(_asks(each["claim"]) for each in claims),
    }


def _asks(claim: dict[str, Any]) -> str:
    requests = claim["spec"].get("resources", {}).get("requests", {})
    text = ", ".join(f"{name} {amount}" for name, amount in sorted(requests.items()))
    types = next(
        (each["values"] for each in claim["spec"]["requirements"] if each["key"].endswith("/instance-type")),
        (),
    )
    return f"for {text}; one of {len(types)} instance types"
