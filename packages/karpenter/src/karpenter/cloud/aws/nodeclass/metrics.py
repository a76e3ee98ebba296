"""
The conditions of EC2NodeClasses as metrics and Events: their status, since when, and each transition.

The operator itself only sees whether a class is ready; its other conditions are known here. A transition
counts when both its sides were seen: the conditions of a class that is seen for the first time, after a
start, are no transition.
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
"""The metrics of node classes, and the deprecated ones of all kinds with the labels that tell kinds apart."""


class NodeClassConditionMetrics:
    """Publishes the conditions of every class, and returns an Event for each transition."""

    def __init__(self, metrics: ProviderMetrics, clock: Clock) -> None:
        self._metrics = metrics
        self._clock = clock
        self._seen: dict[str, EC2NodeClass] = {}

    def seen(self, node_class: EC2NodeClass) -> tuple[Announce, ...]:
        """Publish the conditions of a class, count its transitions, and return the Events about them."""
        before = self._seen.get(node_class.name)
        self._seen[node_class.name] = node_class
        self._show(node_class)
        return tuple(self._changes(before, node_class)) if before is not None else ()

    def gone(self, name: str) -> None:
        """Remove the series of a deleted class, and observe how long its deletion took."""
        held = self._seen.pop(name, None)
        asked = held.metadata.deletion_timestamp if held is not None else None
        if asked is not None:
            took = (self._clock.now() - asked).total_seconds()
            for metrics, more in _BOTH:
                self._metrics.observe(metrics.termination_duration, max(0.0, took), **more)
        self._publish("count", name, ())
        self._publish("current_status", name, ())
        self._publish("termination_current_time", name, ())

    def _show(self, node_class: EC2NodeClass) -> None:
        name, place = node_class.name, {"namespace": "", "name": node_class.name}
        conditions = [
            (each, {**place, "type": each.type, "status": each.status, "reason": each.reason})
            for each in node_class.status.conditions
        ]
        self._publish("count", name, [(1.0, labels) for _, labels in conditions])
        since = [
            (each.last_transition_time.timestamp(), labels)
            for each, labels in conditions
            if each.last_transition_time is not None
        ]
        self._publish("current_status", name, since)
        asked = node_class.metadata.deletion_timestamp
        leaving = [(asked.timestamp(), place)] if asked is not None else []
        self._publish("termination_current_time", name, leaving)

    def _publish(self, which: str, name: str, rows: Sequence[tuple[float, Mapping[str, str]]]) -> None:
        """Publish rows of a class, in place of those that were published of it before."""
        for metrics, more in _BOTH:
            labelled = [(value, {**labels, **more}) for value, labels in rows]
            self._metrics.show(getattr(metrics, which), (EC2NodeClass.kind, name), labelled)

    def _changes(self, before: EC2NodeClass, after: EC2NodeClass) -> Iterator[Announce]:
        held = {each.type: each for each in before.status.conditions}
        for each in after.status.conditions:
            old = held.get(each.type)
            if old is not None and old.status == each.status:
                continue
            for metrics, more in _BOTH:
                self._metrics.count(
                    metrics.transitions, type=each.type, status=each.status, reason=each.reason, **more
                )
                if old is not None and old.last_transition_time and each.last_transition_time:
                    took = (each.last_transition_time - old.last_transition_time).total_seconds()
                    self._metrics.observe(
                        metrics.transition, max(0.0, took), type=each.type, status=old.status, **more
                    )
            if (
                old is not None or each.status == "True"
            ):  # a new class whose conditions are not True yet is no transition
                yield condition_changed(after, old.status if old is not None else "", each)
