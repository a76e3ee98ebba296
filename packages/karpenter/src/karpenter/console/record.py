"""
A flight record as the console's document: one frame per moment, and every decision, event and fault.

Decisions are those that were recorded and are not made again. Changes of objects have no time of their own in
a record; they count for the next decision or effect, which has one. The record of a simulated run has the
faults that were injected, and one beginning for each operator.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.console.decisions import alike, command_row, event_row, has_row, refused_row
from karpenter.console.state import (
    ConsoleDecision,
    ConsoleDocument,
    Frame,
    PlanSummary,
    Snapshot,
    SnapshotBuilder,
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
from karpenter.why.costs import DEFAULT_TEAM_LABEL

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from karpenter.why.answer import Inquiry

MOST_FRAMES: Final = 5000
_LEAST: Final = timedelta(seconds=1)
_TIMED: Final = (b'{"line":"asked"', b'{"line":"done"')
_SHOWN_PODS: Final = 50
_AT: Final = msgspec.json.Decoder(dict[str, Any])


def read_record(
    lines: Iterable[bytes],
    *,
    title: str,
    interval: timedelta = _LEAST,
    team_label: str = DEFAULT_TEAM_LABEL,
) -> ConsoleDocument:
    """
    Return a flight record as a document; frames are at least `interval` apart.

    Raises:
        Unreadable: naming the line.
    """
    reader = _RecordReader(interval, SnapshotBuilder(team_label=team_label))
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
        team_label=team_label,
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
    def __init__(self, interval: timedelta, builder: SnapshotBuilder) -> None:
        self._interval = interval
        self._cluster = RecordedCluster()
        self._catalog: Catalog = EMPTY
        self._builder = builder
        self._snapshot: Snapshot | None = None
        self._last: datetime | None = None
        self._newest: datetime | None = None
        self._asked: dict[int, Asked] = {}
        self._refused: dict[str, str] = {}
        self._decided: dict[tuple[str, ...], int] = {}
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
        match asked.question, outcome:
            case "provision", _:
                self._provisioned(asked.now, outcome)
            case "disrupt", {"commands": commands}:
                for command in commands:
                    self._disrupt(asked.now, command)
            case _, {"valid": command}:
                self._disrupt(asked.now, command, valid=True)
            case _, {"invalid": refusal}:
                title, reason = "the decision does not hold any longer", refusal["message"]
                row = ConsoleDecision(at=asked.now, kind="disrupt", title=title, because=reason)
                self.decisions.append(row)

    def _provisioned(self, at: datetime, outcome: dict[str, Any]) -> None:
        """Add what is launched, and pods without a place, once for each reason."""
        self.decisions += [ConsoleDecision(at=at, **row) for row in _provision_rows(outcome)]
        now = {each["pod"]: each["message"] for each in outcome.get("refusals", ())}
        groups: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        for pod, message in now.items():
            if self._refused.get(pod) != message:
                groups[self._workload(pod), message].append(pod)
        self._refused = now
        self.decisions += [
            refused_row(at, workload, message, pods) for (workload, message), pods in groups.items()
        ]

    def _workload(self, pod: str) -> str:
        known = self._snapshot.pods.get(pod) if self._snapshot is not None else None
        return known.workload if known is not None else pod

    def _disrupt(self, at: datetime, command: dict[str, Any], *, valid: bool = False) -> None:
        """Add a command; one that was decided before, and is valid now, changes its row."""
        row = ConsoleDecision(at=at, **command_row(command))
        place = self._decided.get(row.machines)
        if valid:
            row = msgspec.structs.replace(row, realized=row.hourly < 0)
            self._decided.pop(row.machines, None)
        else:
            row = msgspec.structs.replace(row, title=f"decided to {row.title}")
            self._decided[row.machines] = len(self.decisions) if place is None else place
        if place is None:
            self.decisions.append(row)
        else:
            self.decisions[place] = row

    def _done(self, line: Done) -> None:
        if line.effect == INJECTED_FAULT:
            row = ConsoleDecision(at=line.at, kind="fault", title=line.because, because="injected")
            self.decisions.append(row)
            return
        self._look(line.at)
        about, _, reason = line.about.rpartition(" ")
        if line.effect == Announce.__name__ and has_row(reason, line.because):
            self.decisions.append(event_row(line.at, reason, about, line.because))


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
        "moved": len(pods),
        "pods": tuple(pods[:_SHOWN_PODS]),
        "details": alike(_asks(each["claim"]) for each in claims),
    }


def _asks(claim: dict[str, Any]) -> str:
    requests = claim["spec"].get("resources", {}).get("requests", {})
    text = ", ".join(f"{name} {amount}" for name, amount in sorted(requests.items()))
    types = next(
        (each["values"] for each in claim["spec"]["requirements"] if each["key"].endswith("/instance-type")),
        (),
    )
    return f"for {text}; one of {len(types)} instance types"
