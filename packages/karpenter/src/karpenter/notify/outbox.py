"""
Which Events become messages, when, and in what form.

A message about the same object and reason is not repeated for a while, and there are so many messages a
minute and no more; what was left out is counted. Pure: the time is an argument.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from datetime import datetime

    from karpenter.api.cluster import Event

COMPONENT: Final = "karpenter"

# The reasons are those of Karpenter: https://karpenter.sh/docs/reference/metrics/ has them as labels.
REASONS: Final = (
    "CapacityReservationInstanceInterrupted",
    "DisruptionBlocked",
    "DisruptionLaunching",
    "DisruptionTerminating",
    "FailedConsistencyCheck",
    "FailedDraining",
    "InstanceStopping",
    "InstanceTerminating",
    "InstanceUnhealthy",
    "InsufficientCapacityError",
    "NodeClassNotReady",
    "NodeRepairBlocked",
    "SpotInterrupted",
    "SpotRebalanceRecommendation",
    "TerminatingOnInterruption",
    "TerminationGracePeriodExpiring",
    "UnregisteredTaintMissing",
)
"""The reasons that are told of where none are asked for: nodes that come and go, and what goes wrong."""

_MINUTE: Final = 60.0
_MOST_WAITING: Final = 1000


class Notification(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened."""

    reason: str
    type: str
    kind: str
    namespace: str
    name: str
    message: str
    time: str

    @property
    def place(self) -> str:
        """What it is about, as kubectl names it."""
        return "/".join(filter(None, (self.kind.lower(), self.namespace, self.name)))


class NotificationBatch(msgspec.Struct, frozen=True, kw_only=True):
    """What is sent together."""

    cluster: str
    notifications: tuple[Notification, ...]
    more: dict[str, int] = {}
    """How many others there were, by their reasons."""


def happened_at(event: Event) -> datetime | None:
    """Return when an Event was last seen."""
    times = (event.last_timestamp, event.event_time, event.first_timestamp)
    return next((each for each in times if each is not None), event.metadata.creation_timestamp)


def is_told(event: Event, reasons: Collection[str]) -> bool:
    """Whether an Event has one of some reasons; with none, of REASONS, but for what every machine has."""
    if reasons:
        return event.reason in reasons
    # A new machine is blocked until it has joined: what a NodePool's budgets hold is worth telling.
    blocked = event.reason == "DisruptionBlocked" and event.involved_object.kind != "NodePool"
    return event.reason in REASONS and not blocked


def notification_of(event: Event) -> Notification:
    about, when = event.involved_object, happened_at(event)
    return Notification(
        reason=event.reason,
        type=event.type,
        kind=about.kind,
        namespace=about.namespace,
        name=about.name,
        message=event.message,
        time=when.isoformat() if when is not None else "",
    )


class Outbox:
    """Holds notifications until they may be sent."""

    def __init__(self, *, cluster: str, quiet_for: float, per_minute: int) -> None:
        self._cluster = cluster
        self._quiet_for = quiet_for
        self._per_minute = per_minute
        self._told: dict[tuple[str, ...], float] = {}
        self._waiting: list[Notification] = []
        self._more: Counter[str] = Counter()
        self._sent: deque[float] = deque()

    def add(self, notification: Notification, *, now: float) -> None:
        """Take a notification, unless the same was told of lately."""
        key = (notification.reason, notification.kind, notification.namespace, notification.name)
        for old in [each for each, then in self._told.items() if now - then >= self._quiet_for]:
            del self._told[old]
        if key in self._told:
            return
        self._told[key] = now
        if len(self._waiting) < _MOST_WAITING:
            self._waiting.append(notification)
        else:
            self._more[notification.reason] += 1

    def take(self, *, now: float) -> NotificationBatch | None:
        """Return what may be sent now, with a count of what is left out; None while there is nothing."""
        while self._sent and now - self._sent[0] >= _MINUTE:
            self._sent.popleft()
        room = self._per_minute - len(self._sent)
        if room <= 0 or not self._waiting:
            return None
        first, rest = self._waiting[:room], self._waiting[room:]
        more = self._more + Counter(each.reason for each in rest)
        self._waiting, self._more = [], Counter()
        self._sent.extend(now for _ in first)
        return NotificationBatch(cluster=self._cluster, notifications=tuple(first), more=dict(more))


def as_json(batch: NotificationBatch) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(batch)
    return found


def as_slack(batch: NotificationBatch) -> dict[str, Any]:
    """Return a batch as a message of Slack, or of a program that takes its webhooks."""
    lines = list(_lines(batch.notifications))
    if batch.more:
        counted = ", ".join(f"{count} {reason}" for reason, count in sorted(batch.more.items()))
        lines.append(f"and more: {counted}")
    head = f"Karpenter, cluster {batch.cluster}\n" if batch.cluster else ""
    # https://docs.slack.dev/messaging/formatting-message-text/#escaping
    text = (head + "\n".join(lines)).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return {"text": text}


def _lines(notifications: Iterable[Notification]) -> Iterator[str]:
    """Yield a line for each reason and message, with all that it was said of."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for each in notifications:
        groups.setdefault((each.type, each.reason, each.message), []).append(each.place)
    for (kind, reason, message), places in groups.items():
        rest = f" and {len(places) - _MOST_PLACES} more" if len(places) > _MOST_PLACES else ""
        yield f"{_SIGNS.get(kind, '')}{reason} {', '.join(places[:_MOST_PLACES])}{rest}: {message}"


_MOST_PLACES: Final = 5
_SIGNS: Final = {"Warning": ":warning: "}
FORMS: Final = {"json": as_json, "slack": as_slack}
"""How a batch is written, by the name of the form."""
