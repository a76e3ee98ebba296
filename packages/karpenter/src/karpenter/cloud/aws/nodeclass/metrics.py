"""
Conditions of node classes as metrics and Events tell of them: how they stand, since when, and each change.

The operator itself sees only whether a class is ready; what else its conditions say is known here. A change
counts when both its sides were seen; what a class says when it is first seen, after a start of ours, is no
news.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.cloud.aws.metrics import CLASS_CONDITIONS
from karpenter.core.events import condition_changed
from karpenter.telemetry.metrics.table.conditions import EVERY_KIND

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from karpenter.base.clock import Clock
    from karpenter.cloud.aws.metrics import ProviderMetrics
    from karpenter.core.effects import Announce
    from karpenter.telemetry.metrics.table.conditions import ConditionMetrics


_BOTH: Final[tuple[tuple[ConditionMetrics, dict[str, str]], ...]] = (
    (CLASS_CONDITIONS, {}),
    (EVERY_KIND, {"kind": EC2NodeClass.kind, "group": EC2NodeClass.api_version.rpartition("/")[0]}),
)
"""The metrics of node classes, and the older ones of all kinds, with what tells kinds apart there."""


class NodeClassConditionMetrics:
    """Shows the conditions of every class, and tells when they change."""

    def __init__(self, meters: ProviderMetrics, clock: Clock) -> None:
        self._meters = meters
        self._clock = clock
        self._there: dict[str, EC2NodeClass] = {}

    def seen(self, node_class: EC2NodeClass) -> tuple[Announce, ...]:
        """Note how a class stands now, count what has changed, and return what there is to tell of it."""
        before = self._there.get(node_class.name)
        self._there[node_class.name] = node_class
        self._show(node_class)
        return tuple(self._changes(before, node_class)) if before is not None else ()

    def gone(self, name: str) -> None:
        """Show nothing of a class any longer, and note how long its deletion took."""
        held = self._there.pop(name, None)
        asked = held.metadata.deletion_timestamp if held is not None else None
        if asked is not None:
            took = (self._clock.now() - asked).total_seconds()
            for metrics, more in _BOTH:
                self._meters.observe(metrics.termination_duration, max(0.0, took), **more)
        self._publish("count", name, ())
        self._publish("current_status", name, ())
        self._publish("termination_current_time", name, ())

    def _show(self, node_class: EC2NodeClass) -> None:
        name, place = node_class.name, {"namespace": "", "name": node_class.name}
        said = [
            (each, {**place, "type": each.type, "status": each.status, "reason": each.reason})
            for each in node_class.status.conditions
        ]
        self._publish("count", name, [(1.0, labels) for _, labels in said])
        since = [
            (each.last_transition_time.timestamp(), labels)
            for each, labels in said
            if each.last_transition_time is not None
        ]
        self._publish("current_status", name, since)
        asked = node_class.metadata.deletion_timestamp
        leaving = [(asked.timestamp(), place)] if asked is not None else []
        self._publish("termination_current_time", name, leaving)

    def _publish(self, which: str, name: str, rows: Sequence[tuple[float, Mapping[str, str]]]) -> None:
        """Show rows of a class, in place of those that were shown of it before."""
        for metrics, more in _BOTH:
            told = [(value, {**labels, **more}) for value, labels in rows]
            self._meters.show(getattr(metrics, which), (EC2NodeClass.kind, name), told)

    def _changes(self, before: EC2NodeClass, after: EC2NodeClass) -> Iterator[Announce]:
        held = {each.type: each for each in before.status.conditions}
        for each in after.status.conditions:
            old = held.get(each.type)
            if old is not None and old.status == each.status:
                continue
            for metrics, more in _BOTH:
                self._meters.count(
                    metrics.transitions, type=each.type, status=each.status, reason=each.reason, **more
                )
                if old is not None and old.last_transition_time and each.last_transition_time:
                    took = (each.last_transition_time - old.last_transition_time).total_seconds()
                    self._meters.observe(
                        metrics.transition, max(0.0, took), type=each.type, status=old.status, **more
                    )
            if old is not None or each.status == "True":  # that something does not hold at birth is no news
                yield condition_changed(after, old.status if old is not None else "", each)
