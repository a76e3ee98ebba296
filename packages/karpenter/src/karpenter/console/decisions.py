"""
Rows of the timeline: what was decided, with its reason, its price and its pods.

One row for each launch and each removal of a machine, and for each workload that has no place: what is heard
of the same thing again changes its row. :class:`DecisionLog` puts a live cluster's rows together, from the
machines that come and go and from Karpenter's Events; rows of flight records and plans are made of the
decisions in them.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.console.state import DISRUPTING, LAUNCHING, ConsoleDecision, ConsoleMachine, Snapshot

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

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
    "NoCompatibleInstanceTypes",
    "TerminatingOnInterruption",
}
"""Reasons of Events that have a row in the timeline; the others repeat decisions, or what the map shows."""

_REFUSED: Final = "FailedScheduling"
_LAUNCHES: Final = frozenset({"DisruptionLaunching"})
_REMOVALS: Final = frozenset({"ConsolidationApproved", "DisruptionTerminating", "TerminatingOnInterruption"})
LIVE_EVENTS: Final = EVENTS | _LAUNCHES | _REMOVALS | {_REFUSED}
"""Likewise of a live cluster, whose decisions are told by Events alone."""

_TRANSITION: Final = "Status condition transitioned: "
_SHOWN_PODS: Final = 50
_FILLING: Final = timedelta(minutes=3)
"""How long the pods of a new machine are counted."""


class DecisionLog:
    """The timeline of a live cluster, in the order of time."""

    def __init__(self, *, keep: int = 1000) -> None:
        self._keep = keep
        self._rows: dict[str, ConsoleDecision] = {}
        self._changed: dict[str, ConsoleDecision] = {}
        self._reasons: dict[str, str] = {}
        self._waiting: dict[str, set[str]] = {}
        self._filling: dict[str, str] = {}
        self._early: list[HeardEvent] = []

    @property
    def rows(self) -> tuple[ConsoleDecision, ...]:
        return tuple(sorted(self._rows.values(), key=lambda row: row.at))

    def take_changed(self) -> list[ConsoleDecision]:
        """Return the rows that are new or have changed since the last call."""
        found = sorted(self._changed.values(), key=lambda row: row.at)
        self._changed = {}
        return found

    def follow(self, before: Snapshot, after: Snapshot, at: datetime) -> None:
        """Take in what changed between two snapshots: machines that came, leave, or are gone."""
        for name, machine in after.machines.items():
            was = before.machines.get(name)
            # Another price list may price a machine that has long been there.
            is_new = was is None or (was.price is None and was.state == LAUNCHING)
            if machine.claim and machine.price is not None and is_new:
                self._launched(machine, at)
            if machine.state == DISRUPTING and (was is None or was.state != DISRUPTING):
                self._removed(machine, after, at)
        for name, machine in before.machines.items():
            if name not in after.machines and machine.claim:
                self._removed(machine, before, at, gone=True)
        self._count_pods(after, at)
        early, self._early = self._early, []
        for event in early:
            if event.name in after.pods:
                self._refused(event, after.pods[event.name].workload, after)

    def hear(self, event: HeardEvent, snapshot: Snapshot) -> None:
        """Take in an Event of Karpenter."""
        name = _machine_named(event, snapshot)
        if event.reason == _REFUSED and event.name not in snapshot.pods:
            self._early.append(event)  # the pod is new, or gone
        elif event.reason == _REFUSED:
            self._refused(event, snapshot.pods[event.name].workload, snapshot)
        elif event.reason in _LAUNCHES:
            self._because(f"launch/{name}", event.message)
        elif event.reason in _REMOVALS and (event.kind == "NodeClaim" or name in snapshot.machines):
            key = f"remove/{name}"
            if key not in self._rows:
                self._put(_removal(key, name, snapshot.machines.get(name), event.at))
            self._because(key, event.message)
        elif has_row(event.reason, event.message):
            # A machine's Event is published for its Node and for its NodeClaim.
            key = f"{event.reason}/{name}/{event.message}"
            row = event_row(event.at, event.reason, f"{event.kind}/{event.name}", event.message)
            self._put(msgspec.structs.replace(row, id=key))

    def _launched(self, machine: ConsoleMachine, at: datetime) -> None:
        key = f"launch/{machine.name}"
        if key in self._rows:
            return
        self._put(
            ConsoleDecision(
                id=key,
                at=at,
                kind="provision",
                title=f"launch {machine.type} in {machine.zone} ({machine.capacity_type})",
                because=self._reasons.get(key)
                or f"NodePool {machine.pool}, for pods that requested {machine.requested}",
                hourly=machine.price or 0.0,
                machines=(machine.name,),
            )
        )
        self._filling[machine.name] = key

    def _removed(
        self, machine: ConsoleMachine, snapshot: Snapshot, at: datetime, *, gone: bool = False
    ) -> None:
        key = f"remove/{machine.name}"
        row = self._rows.get(key)
        if row is None or not row.hourly:
            row = _removal(key, machine.name, machine, row.at if row is not None else at)
        on_it = (pod for pod in snapshot.pods.values() if pod.machine == machine.name and not pod.daemon)
        self._put(
            msgspec.structs.replace(
                row,
                because=self._reasons.get(key) or machine.reason or row.because,
                moved=max(row.moved, sum(1 for _ in on_it)),
                realized=gone,
            )
        )

    def _count_pods(self, snapshot: Snapshot, at: datetime) -> None:
        """Count the pods of machines that are new."""
        self._filling = {
            name: key
            for name, key in self._filling.items()
            if name in snapshot.machines and key in self._rows and at - self._rows[key].at < _FILLING
        }
        if not self._filling:
            return
        counts = Counter(pod.machine for pod in snapshot.pods.values() if not pod.daemon)
        for name, key in self._filling.items():
            row = self._rows[key]
            if counts[name] > row.moved:
                self._put(msgspec.structs.replace(row, moved=counts[name]))

    def _refused(self, event: HeardEvent, workload: str, snapshot: Snapshot) -> None:
        known = self._waiting.setdefault(workload, set())
        gone = {key for key in known if (other := snapshot.pods.get(key)) is None or other.machine}
        self._waiting[workload] = known = (known - gone) | {event.name}
        message = event.message.removeprefix("Failed to schedule pod: ")
        row = refused_row(event.at, workload, message, sorted(known))
        self._put(msgspec.structs.replace(row, id=f"refused/{workload}"))

    def _because(self, key: str, reason: str) -> None:
        if self._reasons.get(key) == reason:
            return
        self._reasons[key] = reason
        if key in self._rows:
            self._put(msgspec.structs.replace(self._rows[key], because=reason))

    def _put(self, row: ConsoleDecision) -> None:
        if self._rows.get(row.id) == row:
            return
        self._rows[row.id] = self._changed[row.id] = row
        if len(self._rows) > self._keep:
            oldest = min(self._rows.values(), key=lambda each: each.at).id
            for known in (self._rows, self._changed, self._reasons):
                known.pop(oldest, None)


class HeardEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An Event of Karpenter, as far as the timeline has it."""

    at: datetime
    reason: str
    kind: str
    name: str
    """Of a pod with its namespace."""

    message: str


def _machine_named(event: HeardEvent, snapshot: Snapshot) -> str:
    """Return the machine that an Event about a Node or a NodeClaim is about; otherwise its own name."""
    if event.kind == "Node":
        return next((name for name, each in snapshot.machines.items() if each.node == event.name), event.name)
    return event.name


def _removal(key: str, name: str, machine: ConsoleMachine | None, at: datetime) -> ConsoleDecision:
    where = f"{machine.type} in {machine.zone}" if machine is not None and machine.type else name
    price = machine.price if machine is not None else None
    return ConsoleDecision(
        id=key, at=at, kind="disrupt", title=f"delete {where}", hourly=-(price or 0.0), machines=(name,)
    )


def refused_row(at: datetime, workload: str, message: str, pods: Sequence[str]) -> ConsoleDecision:
    """Return the row of pods of one workload that have no place."""
    many = f" x {len(pods):,}" if len(pods) > 1 else ""
    return ConsoleDecision(
        at=at,
        kind="refused",
        title=f"no place for {workload if many else pods[0]}{many}",
        because=message,
        moved=len(pods),
        pods=tuple(pods[:_SHOWN_PODS]),
    )


def has_row(reason: str, message: str) -> bool:
    """Whether an Event has a row; InstanceTerminating is also a condition of every NodeClaim that ends."""
    return reason in EVENTS and not message.startswith(_TRANSITION)


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


def command_row(command: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row of the timeline for a command, of a plan or of a flight record."""
    names = command["candidates"]
    new = command["replacements"]
    before = command.get("hourlyBefore", command.get("hourly_before", 0.0))
    after = command.get("hourlyAfter", command.get("hourly_after", 0.0))
    verb = "replace" if new else "delete"
    title = f"{verb} {counted(len(names), 'machine')}" + (f" with {len(new)}" if new else "")
    return {
        "kind": "disrupt",
        "title": title,
        "because": str(command["reason"]),
        "hourly": round(after - before, 6),
        "moved": command.get("podsMoved", command.get("pods_moved", 0)),
        "machines": tuple(names),
        "details": alike(_bought(new)),
    }


def _bought(nodes: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for node in nodes:
        found = node.get("offering") or node.get("purchase") or {}
        kind = found.get("instanceType", found.get("instance_type", ""))
        way = found.get("capacityType", found.get("capacity_type", ""))
        yield f"launch {kind} in {found.get('zone', '')} ({way}), ${found.get('price', 0.0):.4f} an hour"


def alike(texts: Iterable[str]) -> tuple[str, ...]:
    """Return each text once, with how often it occurs."""
    return tuple(f"{count} x {text}" if count > 1 else text for text, count in Counter(texts).items())


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
