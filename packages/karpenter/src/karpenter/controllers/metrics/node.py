"""Metrics of Nodes: allocatable, requests and limits of pods, system overhead, lifetime, utilization."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.base.quantity import QuantityError
from karpenter.core.model.resources import CPU, Resources, merge, pod_limits, pod_requests, subtract
from karpenter.core.state.pod import is_owned_by_daemonset
from karpenter.core.state.statenode import StateNode, state_nodes
from karpenter.telemetry.metrics import GaugeMetric, Metrics, MetricSpec
from karpenter.telemetry.metrics import nodes as declared

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from karpenter.base.clock import Clock
    from karpenter.core.state.cluster import ClusterState

_RESOURCES: tuple[MetricSpec[GaugeMetric], ...] = (
    declared.ALLOCATABLE,
    declared.TOTAL_POD_REQUESTS,
    declared.TOTAL_POD_LIMITS,
    declared.TOTAL_DAEMON_REQUESTS,
    declared.TOTAL_DAEMON_LIMITS,
    declared.SYSTEM_OVERHEAD,
)


class NodeMetrics:
    """Shows every Node; only Nodes that changed since the last scrape are computed again."""

    def __init__(self, store: ClusterState, metrics: Metrics, clock: Clock) -> None:
        self._store = store
        self._metrics = metrics
        self._clock = clock
        self._shown: dict[str, StateNode] = {}
        self._sums: dict[str, tuple[Resources, Resources]] = {}  # what is asked for, and what there is
        metrics.before_reading(self.refresh)

    def refresh(self) -> Iterator[None]:
        there = {node.name: node for node in state_nodes(self._store.view()) if node.node is not None}
        for name in self._shown.keys() - there.keys():
            self._retract(name)
        for name, node in there.items():
            if self._shown.get(name) is not node:
                self._show(node)
                yield
        self._show_utilization()

    def _show(self, node: StateNode) -> None:
        labels = self._labels(node)
        try:
            values = tuple(_amounts(node))
        except QuantityError:  # the scheduler skips such a Node, too, and logs it
            self._retract(node.name)
            values = ()
        self._shown[node.name] = node
        assert node.node is not None
        born = node.node.metadata.creation_timestamp or self._clock.now()
        self._metrics[declared.CURRENT_LIFETIME].publish(node.name, [(born.timestamp(), labels)])
        if not values:
            return
        for gauge, amounts in zip(_RESOURCES, values, strict=True):
            self._metrics[gauge].publish(
                node.name,
                [
                    (unit(key, each), {**labels, "resource_type": resource_label(key)})
                    for key, each in amounts.items()
                ],
            )
        allocatable, requests, *_ = values
        self._sums[node.name] = (requests, allocatable)

    def _retract(self, name: str) -> None:
        for gauge in (*_RESOURCES, declared.CURRENT_LIFETIME):
            self._metrics[gauge].retract(name)
        self._shown.pop(name, None)
        self._sums.pop(name, None)

    def _show_utilization(self) -> None:
        asked = merge(asked for asked, _ in self._sums.values())
        room = merge(room for _, room in self._sums.values())
        rows = [
            (100.0 * asked.get(name, 0) / amount, {"resource_type": resource_label(name)})
            for name, amount in room.items()
            if amount > 0
        ]
        self._metrics[declared.UTILIZATION].publish("cluster", rows)

    def _labels(self, node: StateNode) -> Mapping[str, str]:
        assert node.node is not None
        return {
            **self._metrics.labels.of_node(node.node.metadata.labels),
            "node_name": node.name,
            "phase": node.node.status.phase,
            "managed": "true" if node.is_managed else "false",
        }


def unit(name: str, amount: int) -> float:
    """Return an amount in the unit of metrics: cores for cpu, bytes or counts otherwise."""
    return amount / 1000 if name == CPU else float(amount)


def resource_label(name: str) -> str:
    """Return a resource's name as upstream's metrics spell it, such as ephemeral_storage."""
    return name.lower().replace("-", "_")


def _amounts(node: StateNode) -> Iterator[Resources]:
    """Yield the value of each resource gauge of a Node, in their order."""
    daemons = [pod for pod in node.pods if is_owned_by_daemonset(pod)]
    yield node.allocatable
    # As upstream, with those of DaemonSets: who adds the next two counts them twice.
    yield merge(map(pod_requests, node.pods))
    yield merge(map(pod_limits, node.pods))
    yield merge(map(pod_requests, daemons))
    yield merge(map(pod_limits, daemons))
    yield subtract(
        {name: each for name, each in node.capacity.items() if name in node.allocatable}, node.allocatable
    )
