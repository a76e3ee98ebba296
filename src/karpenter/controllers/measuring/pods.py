"""Pods as metrics show them: where each stands. How long they wait is in :mod:`.waits`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karpenter.api.labels import ARCH, CAPACITY_TYPE, INSTANCE_TYPE, NODEPOOL, ZONE
from karpenter.api.node import Node
from karpenter.api.pod import Pod
from karpenter.core.state.pods import is_ready
from karpenter.telemetry.metrics import pods as declared

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karpenter.api.meta import Resource
    from karpenter.core.state.store import Event, Store
    from karpenter.core.state.view import NodeClass
    from karpenter.telemetry.metrics import Metrics


_PODS_AT_A_TIME: Final = 20


class PodGauges:
    """Shows every pod; only what has changed since the last reading is worked out anew."""

    def __init__(self, store: Store, metrics: Metrics) -> None:
        self._store = store
        self._metrics = metrics
        self._changed: set[str] = set()
        self._changed_nodes: set[str] = set()
        metrics.before_reading(self.refresh)

    def hear(self, event: Event, before: Resource | NodeClass | None) -> None:
        """Take note of pods that have changed, or whose node has."""
        item = event.object
        if isinstance(item, Pod):
            self._changed.add(item.key)
        elif isinstance(item, Node) and (
            not isinstance(before, Node) or before.metadata.labels != item.metadata.labels
        ):
            self._changed_nodes.add(item.name)

    def refresh(self) -> Iterator[None]:
        """Bring the gauge up to date, some pods at a time."""
        view, gauge = self._store.view(), self._metrics[declared.STATE]
        for name in self._changed_nodes:
            self._changed.update(pod.key for pod in view.pods_by_node.get(name, ()))
        self._changed_nodes.clear()
        changed, self._changed = self._changed, set()
        for number, key in enumerate(changed):
            if number % _PODS_AT_A_TIME == 0:
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
    """Return the path of what a pod belongs to, on the API server."""
    for owner in pod.metadata.owner_references:
        return f"/apis/{owner.api_version}/namespaces/{pod.namespace}/{owner.kind.lower()}s/{owner.name}"
    return ""
