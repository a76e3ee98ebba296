"""
Metrics and Events of status conditions: their status, since when, and each transition.

A transition counts when the states before and after it were seen; the state of an object that is first
seen, as after a restart, is not a transition. The metrics are those of operatorpkg, which upstream uses:
https://github.com/awslabs/operatorpkg.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from karpenter.api.capacitybuffer import CapacityBuffer
from karpenter.api.labels import INITIALIZED, NODEPOOL, TERMINATION_FINALIZER
from karpenter.api.node import Node
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodepool import NodePool
from karpenter.core.events import condition_changed, finalized
from karpenter.core.state.cluster import NodeClass, ObjectUpdated, StateEvent
from karpenter.telemetry.metrics import Metrics
from karpenter.telemetry.metrics import conditions as declared
from karpenter.telemetry.metrics.instruments import full_label

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from karpenter.api.meta import Resource
    from karpenter.base.clock import Clock
    from karpenter.core.effects import Announce
    from karpenter.telemetry.metrics.table.conditions import ConditionMetrics

_METRICS: Final[Mapping[type[Resource], ConditionMetrics]] = {
    NodeClaim: declared.NODECLAIM,
    NodePool: declared.NODEPOOL,
    Node: declared.NODE,
    CapacityBuffer: declared.CAPACITYBUFFER,
}
_KINDS: Final = {kind.kind: kind for kind in _METRICS}
_FROM_LABELS: Final[Mapping[type[Resource], tuple[str, ...]]] = {
    NodeClaim: (NODEPOOL,),
    Node: (NODEPOOL, INITIALIZED),
}
"""Labels of an object that its metrics have, beside those of its node class."""

Row: TypeAlias = "tuple[float, dict[str, str]]"


class StatusConditionMetrics:
    """Shows the conditions of NodeClaims, NodePools, Nodes and CapacityBuffers, and publishes transitions."""

    def __init__(
        self,
        metrics: Metrics,
        clock: Clock,
        *,
        class_labels: Iterable[str],
        announce: Callable[[Announce], object],
    ) -> None:
        """`class_labels` are the node class labels of NodeClaims and Nodes."""
        self._metrics = metrics
        self._clock = clock
        self._class_labels = tuple(class_labels)
        self._announce = announce
        self._objects: dict[tuple[str, str], Any] = {}
        self._changed: set[tuple[str, str]] = set()
        metrics.before_reading(self.refresh)

    def hear(self, event: StateEvent, before: Resource | NodeClass | None) -> None:
        """Note an object, and record its transitions."""
        item: Any = event.object
        if type(item) not in _METRICS:
            return
        key = (item.kind, item.key)
        self._changed.add(key)
        if isinstance(event, ObjectUpdated):
            self._objects[key] = item
            if before is not None:
                self._compare(before, item)
        else:
            self._objects.pop(key, None)
            self._deleted(item)
            # Where nothing scrapes, the names of all objects that ever were would be kept.
            if not self._is_shown(key):
                self._changed.discard(key)

    def refresh(self) -> Iterator[None]:
        changed, self._changed = self._changed, set()
        for key in changed:
            item = self._objects.get(key)
            self._publish(key, item, "count", _counts)
            self._publish(key, item, "current_status", _since)
            self._publish(key, item, "termination_current_time", _deleting_since)
            yield

    def _compare(self, before: Any, item: Any) -> None:
        held = {each.type: each for each in before.status.conditions}
        for each in item.status.conditions:
            old = held.get(each.type)
            if old is not None and old.status == each.status:
                continue
            for metrics, extra in self._metrics_of(item):
                self._metrics[metrics.transitions].add(
                    type=each.type, status=each.status, reason=each.reason, **extra
                )
                if old is not None and old.last_transition_time and each.last_transition_time:
                    took = (each.last_transition_time - old.last_transition_time).total_seconds()
                    self._metrics[metrics.transition].observe(
                        max(0.0, took), type=each.type, status=old.status, **extra
                    )
            if old is not None or each.status == "True":  # a new condition that is not True is no transition
                self._announce(condition_changed(item, old.status if old is not None else "", each))
        if _is_finalizing(before) and not _is_finalizing(item):
            self._announce(finalized(item, TERMINATION_FINALIZER))

    def _deleted(self, item: Any) -> None:
        asked = item.metadata.deletion_timestamp
        if asked is None:
            return
        if _is_finalizing(item):
            self._announce(finalized(item, TERMINATION_FINALIZER))
        took = max(0.0, (self._clock.now() - asked).total_seconds())
        for metrics, extra in self._metrics_of(item):
            self._metrics[metrics.termination_duration].observe(took, **extra)

    def _publish(
        self,
        key: tuple[str, str],
        item: Any,
        which: str,
        rows: Callable[[Any], list[Row]],
    ) -> None:
        found = rows(item) if item is not None else []
        for metrics, extra in self._metrics_of(item, _KINDS[key[0]]):
            self._metrics[getattr(metrics, which)].publish(key, [(v, {**k, **extra}) for v, k in found])

    def _is_shown(self, key: tuple[str, str]) -> bool:
        shown = declared.EVERY_KIND
        return any(
            self._metrics[each].owns(key)
            for each in (shown.count, shown.current_status, shown.termination_current_time)
        )

    def _metrics_of(
        self, item: Any, kind: type[Resource] | None = None
    ) -> tuple[tuple[ConditionMetrics, dict[str, str]], ...]:
        """Return the metrics of an object's kind and those of every kind, with the labels of each."""
        kind = kind or type(item)
        group = kind.api_version.rpartition("/")[0]
        own: dict[str, str] = {}
        if item is not None and kind in _FROM_LABELS:
            labels = item.metadata.labels
            own = {full_label(key): labels.get(key, "") for key in (*self._class_labels, *_FROM_LABELS[kind])}
        return (_METRICS[kind], own), (declared.EVERY_KIND, {"kind": kind.kind, "group": group})


def _name_labels(item: Any) -> dict[str, str]:
    return {"namespace": item.namespace, "name": item.name}


def _condition_labels(item: Any, each: Any) -> dict[str, str]:
    return {**_name_labels(item), "type": each.type, "status": each.status, "reason": each.reason}


def _counts(item: Any) -> list[Row]:
    return [(1.0, _condition_labels(item, each)) for each in item.status.conditions]


def _since(item: Any) -> list[Row]:
    return [
        (each.last_transition_time.timestamp(), _condition_labels(item, each))
        for each in item.status.conditions
        if each.last_transition_time is not None
    ]


def _deleting_since(item: Any) -> list[Row]:
    asked = item.metadata.deletion_timestamp
    return [(asked.timestamp(), _name_labels(item))] if asked is not None else []


def _is_finalizing(item: Any) -> bool:
    """Whether an object is being deleted and has the termination finalizer."""
    leaving = item.metadata.deletion_timestamp is not None
    return leaving and TERMINATION_FINALIZER in item.metadata.finalizers
