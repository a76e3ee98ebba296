"""
Metrics of pods: their state, and how long they times for a scheduling decision, for a node and for their
start.

A pod is timed from when it is first seen Pending; a pod that is first seen running is not timed. Times are
those of the pod's status, and our clock's where the status has none. A pod is dropped once it is ready,
terminal or deleted.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.labels import ARCH, CAPACITY_TYPE, INSTANCE_TYPE, NODEPOOL, ZONE
from karpenter.api.meta import Resource, is_status_condition_true
from karpenter.api.node import Node
from karpenter.api.pod import Pod
from karpenter.core.state.cluster import ClusterState, NodeClass, ObjectUpdated, StateEvent
from karpenter.core.state.pod import is_ready, is_terminal
from karpenter.telemetry.metrics import AgeMetric, Metrics, MetricSpec
from karpenter.telemetry.metrics import pods as declared

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karpenter.base.clock import Clock
    from karpenter.core.provisioning.provisioner import ProvisioningDecision


# 20,000 pods may have changed between two scrapes, and other tasks must get a turn meanwhile.
_PODS_PER_TURN: Final = 20


class PodMetrics:
    """Shows every pod; only pods that changed since the last scrape are computed again."""

    def __init__(self, store: ClusterState, metrics: Metrics) -> None:
        self._store = store
        self._metrics = metrics
        self._changed: set[str] = set()
        self._changed_nodes: set[str] = set()
        metrics.before_reading(self.refresh)

    def hear(self, event: StateEvent, before: Resource | NodeClass | None) -> None:
        """Note the pods that have changed, or whose node's labels have."""
        item, gone = event.object, not isinstance(event, ObjectUpdated)
        if isinstance(item, Pod):
            self._changed.add(item.key)
            # Where nothing scrapes, the names of all pods that ever were would be kept.
            if gone and not self._metrics[declared.STATE].owns(item.key):
                self._changed.discard(item.key)
        elif isinstance(item, Node) and gone:
            self._changed_nodes.discard(item.name)
        elif isinstance(item, Node) and (
            not isinstance(before, Node) or before.metadata.labels != item.metadata.labels
        ):
            self._changed_nodes.add(item.name)

    def refresh(self) -> Iterator[None]:
        """Update the gauge, some pods at a time."""
        view, gauge = self._store.view(), self._metrics[declared.STATE]
        for name in self._changed_nodes:
            self._changed.update(pod.key for pod in view.pods_by_node.get(name, ()))
        self._changed_nodes.clear()
        changed, self._changed = self._changed, set()
        for number, key in enumerate(changed):
            if number % _PODS_PER_TURN == 0:
                yield
            pod = view.pods.get(key)
            if pod is None:
                gauge.retract(key)
            else:
                gauge.publish(key, [(1.0, _labels(pod, view.nodes.get(pod.spec.node_name)))])


def _labels(pod: Pod, node: Node | None) -> dict[str, str]:
    labels = node.metadata.labels if node is not None else {}
    return {
        "name": pod.name,
        "namespace": pod.namespace,
        "owner": _owner(pod),
        "node": pod.spec.node_name,
        "scheduled": "true" if pod.spec.node_name else "false",
        "nodepool": labels.get(NODEPOOL, ""),
        "zone": labels.get(ZONE, ""),
        "arch": labels.get(ARCH, ""),
        "capacity_type": labels.get(CAPACITY_TYPE, ""),
        "instance_type": labels.get(INSTANCE_TYPE, ""),
        "phase": pod.status.phase,
        "ready": "true" if is_ready(pod) else "false",
        "managed": "true" if NODEPOOL in labels else "false",
    }


def _owner(pod: Pod) -> str:
    for owner in pod.metadata.owner_references:
        return f"/apis/{owner.api_version}/namespaces/{pod.namespace}/{owner.kind.lower()}s/{owner.name}"
    return ""


_GAUGES: tuple[MetricSpec[AgeMetric], ...] = (
    declared.UNSTARTED_TIME,
    declared.UNBOUND_TIME,
    declared.PROVISIONING_UNSTARTED_TIME,
    declared.PROVISIONING_UNBOUND_TIME,
    declared.UNDECIDED_TIME,
)


class PodTimes(msgspec.Struct):
    """The times of one pod that is not ready."""

    born: datetime
    bound: bool = False
    asked: datetime | None = None
    """When the provisioner first considered it."""

    decided: bool = False
    placed: datetime | None = None
    """When it was first found schedulable, on a NodePool with healthy registrations."""


class PodLatencyMetrics:
    """Times pods that are not ready."""

    def __init__(self, store: ClusterState, metrics: Metrics, clock: Clock) -> None:
        self._store = store
        self._metrics = metrics
        self._clock = clock
        self._times: dict[str, PodTimes] = {}
        self._shown: set[str] = set()
        metrics.before_reading(self.refresh)

    def hear(self, event: StateEvent, before: Resource | NodeClass | None) -> None:
        """Time one pod from when it is first seen until it is ready."""
        del before
        pod = event.object
        if not isinstance(pod, Pod):
            return
        if not isinstance(event, ObjectUpdated) or is_terminal(pod):
            self._times.pop(pod.key, None)
            return
        times = self._times.get(pod.key)
        if times is None:
            if pod.status.phase != "Pending" or is_ready(pod):
                return
            born = pod.metadata.creation_timestamp or self._clock.now()
            times = self._times[pod.key] = PodTimes(born, bound=bool(pod.spec.node_name))
        times.asked = times.asked or self._store.first_seen(pod.key)
        if pod.spec.node_name and not times.bound:
            times.bound = True
            self._bound(times, _since(pod, "PodScheduled") or self._clock.now())
        if is_ready(pod):
            self._started(times, _since(pod, "Ready") or self._clock.now())
            del self._times[pod.key]

    def decided(self, decision: ProvisioningDecision) -> None:
        """Note which pods a scheduling run has decided about."""
        now = self._clock.now()
        for key in (*decision.places, *decision.refused):
            times = self._times.get(key)
            if times is None or times.bound:
                continue
            if not times.decided:
                times.decided = True
                self._metrics[declared.DECISION_DURATION].observe(_seconds(times.asked or now, now))
            if key in decision.refused:
                times.placed = None
            elif times.placed is None and self._is_healthy(decision.places[key]):
                times.placed = now

    def refresh(self) -> None:
        """Show how long pods have waited so far."""
        for key in self._shown - self._times.keys():
            for gauge in _GAUGES:
                self._metrics[gauge].retract(key)
        self._shown = set(self._times)
        for key, times in self._times.items():
            undecided = times.asked if not times.decided and not times.bound else None
            unbound, placed_unbound = (None, None) if times.bound else (times.born, times.placed)
            starts = (times.born, unbound, times.placed, placed_unbound, undecided)
            namespace, _, name = key.rpartition("/")
            labels = {"name": name, "namespace": namespace}
            for gauge, start in zip(_GAUGES, starts, strict=True):
                rows = [(start.timestamp(), labels)] if start is not None else []
                self._metrics[gauge].publish(key, rows)

    def _is_healthy(self, pool: str) -> bool:
        found = self._store.pool(pool)
        return found is None or is_status_condition_true(found.status.conditions, "NodeRegistrationHealthy")

    def _bound(self, times: PodTimes, when: datetime) -> None:
        self._metrics[declared.BOUND_DURATION].observe(_seconds(times.born, when))
        if times.placed is not None:
            self._metrics[declared.PROVISIONING_BOUND_DURATION].observe(_seconds(times.placed, when))

    def _started(self, times: PodTimes, when: datetime) -> None:
        self._metrics[declared.STARTUP_DURATION].observe(_seconds(times.born, when))
        if times.placed is not None:
            self._metrics[declared.PROVISIONING_STARTUP_DURATION].observe(_seconds(times.placed, when))


def _seconds(start: datetime, end: datetime) -> float:
    return max(0.0, (end - start).total_seconds())


def _since(pod: Pod, kind: str) -> datetime | None:
    return next((c.last_transition_time for c in pod.status.conditions if c.type == kind), None)
