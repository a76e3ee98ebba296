"""
Invariants of workloads and writes: pods run and are sent where they can, buffers have capacity, overlays have
a status, writes are few, and only the leader's.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.api.labels import HOSTNAME, ZONE
from karpenter.api.pod import Pod
from karpenter_local.sandbox.operators import LEASE, LEASE_NAMESPACE, LEASE_TERMS, REPLICA
from karpenter_local.simulation.invariants.invariant import (
    CloudCall,
    Invariant,
    ViolationLog,
    cores,
    cores_of_pod,
    cores_of_pool,
    is_leaving,
    is_over,
    is_ready,
    is_true,
    nomination,
    owner_of,
    tolerates,
)
from karpenter_local.simulation.network import LEASES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from karpenter.api.node import Node
    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.kube.transport import Request, Response
    from karpenter_local.simulation.cluster import SimulatedCluster
    from karpenter_local.simulation.mirror import ObjectWrite

_OVER: Final = frozenset({"Succeeded", "Failed"})
_REQUEST_SECONDS: Final = 0.1
"""Seconds that a request is under way."""

PATIENCE_SECONDS: Final = 600.0
"""Seconds that a pod may wait for a node where nothing goes wrong."""

LAUNCH_PATIENCE_SECONDS: Final = 1800.0
"""The same after launches that went wrong: a machine that never joins is given up after 15 minutes."""

_NOMINATION_SECONDS: Final = 30.0
"""Seconds for which a nomination is remembered."""

_DECISION_SECONDS: Final = 1.0
"""Seconds within which the nominations of one decision are told; the next one is a batch later."""

NOMINATOR: Final = "karpenter-nomination"
"""The field manager of the operator's nominations."""

NOMINATED_SECONDS: Final = 30.0
"""Seconds that a pod may stay nominated for a node that is gone."""

_WINDOW_SECONDS: Final = 10.0
_MAX_WRITES: Final = 300
"""Writes to one object within the window that nothing sensible needs."""


class ServiceInvariant(Invariant):
    """Every workload has the pods that it asks for, and they run."""

    name = "service"

    def unsettled(self) -> Iterable[str]:
        excused: set[str] = set()
        for key, pod in self.mirror.pods.items():
            if pod.metadata.deletion_timestamp is not None or pod.status.phase in {
                "Running",
                "Succeeded",
                "Failed",
            }:
                continue
            if is_over_limit(self.simulated, pod):
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


def is_over_limit(simulated: SimulatedCluster, pod: Pod) -> bool:
    """Whether the pool that a pod insists on has no room for the smallest machine that would do."""
    pool = simulated.mirror.pools.get(pod.spec.node_selector.get("pool", ""))
    if pool is None or "cpu" not in pool.spec.limits:
        return False
    wanted = cores_of_pod(pod)
    sizes = [kind.capacity["cpu"] for kind in simulated.catalog.types if kind.allocatable["cpu"] >= wanted]
    return cores_of_pool(simulated, pool.name) + min(sizes) > cores(pool.spec.limits)


class WaitingInvariant(Invariant):
    """No pod waits for longer than some minutes while a NodePool could serve it."""

    name = "waiting"

    def __init__(self, simulated: SimulatedCluster, violations: ViolationLog) -> None:
        super().__init__(simulated, violations)
        self._since: dict[str, float] = {}

    def on_tick(self) -> None:
        waiting = {
            key
            for key, pod in self.mirror.pods.items()
            if not pod.spec.node_name
            and not is_leaving(pod)
            and owner_of(pod) != "DaemonSet"
            and not is_over_limit(self.simulated, pod)
        }
        self._since = {key: self._since.get(key, self.now) for key in sorted(waiting)}
        most = LAUNCH_PATIENCE_SECONDS if self.simulated.launches_failed else PATIENCE_SECONDS
        for key, since in self._since.items():
            waits = min(self.now - since, self.simulated.calm_for)
            if waits > most:
                self.violated(f"pod {key} waits for {waits / 60:.0f} minutes, and a NodePool could serve it")


class PlacementInvariant(Invariant):
    """A pod is told to go only where its selector, its tolerations, its spread and its likes let it run."""

    name = "placement"

    def __init__(self, simulated: SimulatedCluster, violations: ViolationLog) -> None:
        super().__init__(simulated, violations)
        self._nominated: dict[str, dict[str, tuple[float, str]]] = {}
        """When each pod was told to go to which claims, and by which replica, by key."""

    def on_call(self, request: Request, response: Response) -> None:
        found = nomination(request, response)
        pod = self.mirror.pods.get(found.pod) if found is not None else None
        if found is None or pod is None or pod.spec.node_name:
            return
        node = self.mirror.nodes.get(found.node)
        claim = self.mirror.claims.get(found.claim)
        if claim is None and node is not None:
            claim = self.mirror.claim_of(node.spec.provider_id)
        if claim is None:
            return
        key, place = found.pod, f"nodeclaim/{found.claim}" if found.claim else f"node/{found.node}"
        for problem in self._problems(pod, claim, node, REPLICA.get()):
            self.violated(f"pod {key} is nominated for {place}, and {problem}")
        self._nominated.setdefault(key, {})[claim.name] = (self.now, REPLICA.get())

    def _problems(self, pod: Pod, claim: NodeClaim, node: Node | None, by: str) -> Iterator[str]:
        offered = {each.key: set(each.values) for each in claim.spec.requirements if each.operator == "In"}
        labels = {**claim.metadata.labels, **(node.metadata.labels if node is not None else {})}
        offered |= {key: {value} for key, value in labels.items()}
        for key, value in pod.spec.node_selector.items():
            if offered.get(key) != {value}:
                yield f"it selects {key}={value}, where there is {sorted(offered.get(key, ()))}"
        for taint in claim.spec.taints:
            if taint.effect != "PreferNoSchedule" and not tolerates(pod, taint.key, taint.effect):
                yield f"it does not tolerate the taint {taint.key}"
        for spread in pod.spec.topology_spread_constraints:
            if spread.topology_key == ZONE and len(offered.get(ZONE, ())) != 1:
                yield f"it is spread over zones, and the zone may be any of {sorted(offered.get(ZONE, ()))}"
        if _stays_apart(pod):
            yield from (f"pod {each} of its kind is there" for each in self._beside(pod, claim, node, by))

    def _beside(self, pod: Pod, claim: NodeClaim, node: Node | None, by: str) -> Iterator[str]:
        """Yield the pods of the same app that are on a machine, or were told a moment ago to go there."""
        app = pod.metadata.labels.get("app", "")
        for key, other in self.mirror.pods.items():
            if key == pod.key or other.metadata.labels.get("app", "") != app or is_leaving(other):
                continue
            # Events that wait for a connection come together, and one that repeats does not come again for
            # minutes: a pod that was ever told of several claims may be meant for any of them.
            told = self._nominated.get(key, {})
            if other.spec.node_name:
                known = self.history.is_known(by, "pods", self.history.since("bound", key))
                if node is not None and other.spec.node_name == node.name and known and not is_over(other):
                    yield key
            elif told.keys() == {claim.name}:
                at, teller = told[claim.name]
                # A replica that leads since then knows nothing of nominations, and decides again. On a node
                # that is initialized kube-scheduler decides, so that the next decision may be another.
                together = _DECISION_SECONDS if is_true(claim, "Initialized") else _NOMINATION_SECONDS
                if teller == by and self.now - at < together:
                    yield key


def _stays_apart(pod: Pod) -> bool:
    affinity = pod.spec.affinity.pod_anti_affinity if pod.spec.affinity is not None else None
    return affinity is not None and any(
        each.topology_key == HOSTNAME for each in affinity.required_during_scheduling_ignored_during_execution
    )


class NominationInvariant(Invariant):
    """Nominations of kube-scheduler are left alone, and no pod stays nominated for a node that is gone."""

    name = "nomination"

    def __init__(self, simulated: SimulatedCluster, violations: ViolationLog) -> None:
        super().__init__(simulated, violations)
        self._since: dict[str, float] = {}

    def on_write(self, write: ObjectWrite) -> None:
        """Look at what an operator has written of ``status.nominatedNodeName``."""
        before, after = write.before, write.after
        if not write.by or not isinstance(before, Pod) or not isinstance(after, Pod):
            return
        was, became = before.status.nominated_node_name, after.status.nominated_node_name
        if was == became:
            return
        if was and not _is_nominated_by_operator(before):
            self.violated(
                f"pod {before.key} is nominated for {became!r}, and another client had nominated it"
            )
        if became and (after.spec.node_name or after.spec.scheduling_gates or owner_of(after) == "DaemonSet"):
            self.violated(f"pod {before.key} is nominated for {became}, and kube-scheduler does not place it")

    def on_tick(self) -> None:
        """Look at the pods that wait for a node that is gone."""
        waiting = {
            key
            for key, pod in self.mirror.pods.items()
            if not pod.spec.node_name
            and not is_leaving(pod)
            and _is_nominated_by_operator(pod)
            and pod.status.nominated_node_name not in self.mirror.nodes
        }
        self._since = {key: self._since.get(key, self.now) for key in sorted(waiting)}
        for key, since in self._since.items():
            if min(self.now - since, self.simulated.calm_for) > NOMINATED_SECONDS:
                self.violated(f"pod {key} is nominated for a node that is gone for {self.now - since:.0f} s")


def _is_nominated_by_operator(pod: Pod) -> bool:
    managers = {each.manager for each in pod.metadata.managed_fields}
    return bool(pod.status.nominated_node_name) and managers == {NOMINATOR}


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
        if now - self._since > _WINDOW_SECONDS:
            self._since = now
            self._writes.clear()
        which = f"{request.method} {request.path}"
        self._writes[which] += 1
        if self._writes[which] == _MAX_WRITES:
            self.violated(f"{which} was sent {_MAX_WRITES} times within {now - self._since:.1f} s")


class LeaseInvariant(Invariant):
    """Nothing is written, launched or terminated by a replica without the Lease."""

    name = "lease"

    def on_call(self, request: Request, response: Response) -> None:
        """Look at a write to the API server; those of the Lease itself decide who holds it."""
        del response
        if LEASES not in request.path:
            self._check(REPLICA.get(), f"{request.method} {request.path}")

    def on_cloud(self, call: CloudCall) -> None:
        self._check(call.by, f"{call.method} {call.subject}")

    def _check(self, replica: str, what: str) -> None:
        if not self.simulated.sandbox.elects:
            return
        lease: dict[str, Any] = self.mirror.leases.get(f"{LEASE_NAMESPACE}/{LEASE}", {})
        holder = lease.get("holderIdentity", "")
        if holder != replica:
            self.violated(f"{replica} asks for {what} while {holder or 'no replica'} holds the lease")
        elif self.now - self.mirror.renewed_at > LEASE_TERMS.duration + _REQUEST_SECONDS:
            late = self.now - self.mirror.renewed_at
            self.violated(f"{replica} asks for {what} {late:.0f} s after it renewed the lease")


def _takes_pods(node: Node) -> bool:
    closed = node.spec.unschedulable or any(taint.effect != "PreferNoSchedule" for taint in node.spec.taints)
    return is_ready(node) and not closed and node.metadata.deletion_timestamp is None
