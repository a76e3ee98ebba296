"""No pod is lost, and none waits that could be placed, once everything has come to rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from karpenter_local.simulation.invariants.resources import cores, cores_of_pod, cores_of_pool
from karpenter_local.simulation.invariants.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from karpenter.api.pod import Pod


class Service(Rule):
    """Every workload has the pods that it asks for, and they run."""

    name = "service"

    def unrest(self) -> Iterable[str]:
        """Return what is missing."""
        excused: set[str] = set()
        for key, pod in self.mirror.pods.items():
            if pod.metadata.deletion_timestamp is not None or pod.status.phase in {
                "Running",
                "Succeeded",
                "Failed",
            }:
                continue
            if self._is_over_limit(pod):
                excused.add(pod.metadata.labels.get("app", ""))
            else:
                yield f"pod {key} is {pod.status.phase}, {'on' if pod.spec.node_name else 'without'} a node"
        for kind, wanted, ready, name in self._workloads():
            if ready < wanted and name not in excused:
                yield f"{kind} {name} has {ready} pods of {wanted}"

    def _workloads(self) -> Iterator[tuple[str, int, int, str]]:
        for name, item in self._items("deployments.apps"):
            yield "deployment", item["spec"].get("replicas", 1), item["status"].get("readyReplicas", 0), name
        for name, item in self._items("statefulsets.apps"):
            yield "statefulset", item["spec"].get("replicas", 1), item["status"].get("readyReplicas", 0), name
        for name, item in self._items("jobs.batch"):
            yield "job", item["spec"].get("completions", 1), item["status"].get("succeeded", 0), name

    def _items(self, table: str) -> Iterator[tuple[str, dict[str, Any]]]:
        for entry in self.world.cluster.server.store.table(table).entries.values():
            item = msgspec.json.decode(entry.raw)
            yield entry.name, {"status": {}, **item}

    def _is_over_limit(self, pod: Pod) -> bool:
        """Whether the pool that a pod insists on has no room for the smallest machine that would do."""
        pool = self.mirror.pools.get(pod.spec.node_selector.get("pool", ""))
        if pool is None or "cpu" not in pool.spec.limits:
            return False
        wanted = cores_of_pod(pod)
        sizes = [
            kind.capacity["cpu"] for kind in self.world.catalog.types if kind.allocatable["cpu"] >= wanted
        ]
        return cores_of_pool(self.world, pool.name) + min(sizes) > cores(pool.spec.limits)
