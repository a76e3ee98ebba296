"""Invariants of workloads: pods run, buffers have capacity, overlays have a status, writes are few."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter_local.simulation.invariants.invariant import Invariant, cores, cores_of_pod, cores_of_pool
from karpenter_local.simulation.invariants.machines import is_ready

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from karpenter.api.node import Node
    from karpenter.api.pod import Pod
    from karpenter.kube.rest import Request, Response
    from karpenter_local.simulation.cluster import SimulatedCluster
    from karpenter_local.simulation.invariants.invariant import ViolationLog

_OVER: Final = frozenset({"Succeeded", "Failed"})
_WINDOW: Final = 10.0
_MANY: Final = 300
"""Writes to one object within the window that nothing sensible needs."""


class ServiceInvariant(Invariant):
    """Every workload has the pods that it asks for, and they run."""

    name = "service"

    def unsettled(self) -> Iterable[str]:
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
        for entry in self.simulated.sandbox.cluster.server.store.table(table).entries.values():
            item = msgspec.json.decode(entry.raw)
            yield entry.name, {"status": {}, **item}

    def _is_over_limit(self, pod: Pod) -> bool:
        """Whether the pool that a pod insists on has no room for the smallest machine that would do."""
        pool = self.mirror.pools.get(pod.spec.node_selector.get("pool", ""))
        if pool is None or "cpu" not in pool.spec.limits:
            return False
        wanted = cores_of_pod(pod)
        sizes = [
            kind.capacity["cpu"] for kind in self.simulated.catalog.types if kind.allocatable["cpu"] >= wanted
        ]
        return cores_of_pool(self.simulated, pool.name) + min(sizes) > cores(pool.spec.limits)


class BufferInvariant(Invariant):
    """In the end there is room for what buffers ask for."""

    name = "buffers"

    def unsettled(self) -> Iterable[str]:
        """Return the buffers without enough room; each alone, for there is seldom more than one."""
        for key, buffer in self.mirror.buffers.items():
            template = buffer.spec.pod_template_ref
            wanted = buffer.spec.replicas or 0
            milli = self._asked(template.name) if template is not None else 0
            if milli and (there := sum(free // milli for free in self._free())) < wanted:
                yield f"buffer {key} has room for {there} pods of {wanted}"

    def _asked(self, template: str) -> int:
        """Return the cores that one pod of a buffer asks for."""
        entry = self.simulated.sandbox.cluster.server.store.get("podtemplates", f"default/{template}")
        containers = entry.object()["template"]["spec"]["containers"] if entry is not None else ()
        return sum(cores(each["resources"]["requests"]) for each in containers)

    def _free(self) -> Iterator[int]:
        """Yield the cores that are free on each node that takes pods."""
        for name, node in self.mirror.nodes.items():
            if _takes_pods(node):
                pods = [pod for pod in self.mirror.pods_on(name) if pod.status.phase not in _OVER]
                yield max(0, cores(node.status.allocatable) - sum(map(cores_of_pod, pods)))


class OverlayInvariant(Invariant):
    """In the end every overlay says whether it holds, and of the heaviest one does."""

    name = "overlays"

    def unsettled(self) -> Iterable[str]:
        """Return the overlays that are silent, or all in vain."""
        overlays = self.mirror.overlays.values()
        said = {
            each.name: [held.status for held in each.status.conditions if held.type == "ValidationSucceeded"]
            for each in overlays
        }
        yield from (f"overlay {name} does not say if it holds" for name, found in said.items() if not found)
        heaviest = max((each.spec.weight or 0 for each in overlays), default=0)
        best = [said[each.name] for each in overlays if (each.spec.weight or 0) == heaviest]
        if best and not any("True" in found for found in best):
            yield "no overlay holds"


class WriteRateInvariant(Invariant):
    """The operator does not write to the same object over and over."""

    name = "write rate"

    def __init__(self, simulated: SimulatedCluster, violations: ViolationLog) -> None:
        super().__init__(simulated, violations)
        self._since = 0.0
        self._writes: Counter[str] = Counter()

    def on_call(self, request: Request, response: Response) -> None:
        """Count what the operator writes; what is new each time, such as events, does not count."""
        del response
        if request.method == "POST" or self.simulated.is_contested:
            return
        now = self.simulated.clock.monotonic()
        if now - self._since > _WINDOW:
            self._since = now
            self._writes.clear()
        which = f"{request.method} {request.path}"
        self._writes[which] += 1
        if self._writes[which] == _MANY:
            self.violated(f"{which} was sent {_MANY} times within {now - self._since:.1f} s")


def _takes_pods(node: Node) -> bool:
    closed = node.spec.unschedulable or any(taint.effect != "PreferNoSchedule" for taint in node.spec.taints)
    return is_ready(node) and not closed and node.metadata.deletion_timestamp is None
