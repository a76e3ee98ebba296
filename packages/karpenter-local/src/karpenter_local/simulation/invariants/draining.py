"""
Invariants of leaving: nodes are emptied by evictions, and a machine ends only when nothing is left to drain.

What runs on in spite of the taint karpenter.sh/disrupted, and what a node itself owns, is not drained. A pod
that is stuck in its own termination for longer than a minute holds nothing up. See
https://karpenter.sh/docs/concepts/disruption/.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.api.labels import DISRUPTED, DO_NOT_DISRUPT, NO_SCHEDULE, TERMINATION_FINALIZER
from karpenter.api.node import Node
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.pod import Pod
from karpenter.base.duration import parse_duration
from karpenter_local.sandbox.operators import REPLICA
from karpenter_local.simulation.invariants.history import covers
from karpenter_local.simulation.invariants.invariant import (
    CloudCall,
    Invariant,
    ViolationLog,
    is_leaving,
    is_over,
    is_true,
    owner_of,
    tolerates,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karpenter.kube.transport import Request, Response
    from karpenter_local.simulation.cluster import SimulatedCluster
    from karpenter_local.simulation.mirror import ObjectWrite

_PODS: Final = "/pods/"
_CLOCK_SLACK: Final = timedelta(seconds=2)
_STUCK_AFTER: Final = timedelta(minutes=1)
_ATTACHMENTS: Final = "volumeattachments.storage.k8s.io"
_TERMINATION_SECONDS: Final = 120.0
"""Seconds after its grace period in which a machine is terminated."""

CRITICAL: Final = "system-cluster-critical"


def is_drained(pod: Pod) -> bool:
    """Say whether a drain has to remove a pod."""
    stays = tolerates(pod, DISRUPTED, NO_SCHEDULE) or owner_of(pod) == "Node"
    return not is_over(pod) and not stays


def is_healthy(pod: Pod) -> bool:
    ready = any(each.type == "Ready" and each.status == "True" for each in pod.status.conditions)
    return ready and not is_leaving(pod)


def is_critical(pod: Pod) -> bool:
    """Say whether a pod is one that a drain leaves for last."""
    return pod.spec.priority_class_name == CRITICAL


def is_kept_for_now(simulated: SimulatedCluster, pod: Pod) -> bool:
    """Say whether a pod must not be disrupted for a time after its start, which is not over yet."""
    value = pod.metadata.annotations.get(DO_NOT_DISRUPT, "true")
    if value == "true" or simulated.is_time_wrong:
        return False
    start, lasts = pod.status.start_time, parse_duration(value)
    return start is None or simulated.clock.now() < start + lasts - _CLOCK_SLACK


def termination_time(claim: NodeClaim) -> datetime | None:
    """Return when a claim's grace period is over; None if it has none, or does not leave."""
    began, grace = claim.metadata.deletion_timestamp, claim.spec.termination_grace_period
    return began + parse_duration(grace) if began is not None and grace is not None else None


class DrainInvariant(Invariant):
    """A machine ends only when it holds no pod that has to be drained, or its grace period is over."""

    name = "drain"

    def on_cloud(self, call: CloudCall) -> None:
        claim = self.mirror.claim_of(call.subject) if call.method == "terminate" else None
        if claim is None or not is_true(claim, "Registered"):
            return  # it never was a node, or is an orphan
        node = next((n for n in self.mirror.nodes.values() if n.spec.provider_id == call.subject), None)
        there = any(each.provider_id == call.subject for each in self.simulated.cloud.machines())
        if node is None or not there or call.subject in self.simulated.taken or self._is_overdue(claim):
            return
        if not any(taint.key == DISRUPTED for taint in node.spec.taints):
            self.violated(f"machine {call.subject} ends, and its node was never closed to pods")
        now = self.simulated.clock.now()
        for pod in self.mirror.pods_on(node.name):
            ends = pod.metadata.deletion_timestamp
            stuck = ends is not None and (
                self.simulated.is_time_wrong or now > ends + _STUCK_AFTER - _CLOCK_SLACK
            )
            bound = self.history.since("bound", pod.key)
            if is_drained(pod) and not stuck and self.history.is_readable(call.by, bound):
                self.violated(f"machine {call.subject} ends while pod {pod.key} is on it")
        for volume in self._attached(node.name):
            self.violated(f"machine {call.subject} ends while volume {volume} is attached to it")

    def on_tick(self) -> None:
        """Look for machines whose grace period was over a while ago."""
        going = {each.provider_id for each in self.simulated.cloud.machines() if each.deleting}
        there = {each.provider_id for each in self.simulated.cloud.machines()} - going
        for name, claim in self.mirror.claims.items():
            due = termination_time(claim)
            if due is None or claim.status.provider_id not in there:
                continue
            late = min((self.simulated.clock.now() - due).total_seconds(), self.simulated.calm_for)
            if late > _TERMINATION_SECONDS:
                self.violated(f"the grace period of claim {name} is over for {late:.0f} s, and it drains")

    def _is_overdue(self, claim: NodeClaim) -> bool:
        due = termination_time(claim)
        if due is None or self.simulated.is_time_wrong:
            return due is not None
        return self.simulated.clock.now() >= due - _CLOCK_SLACK

    def _attached(self, node: str) -> Iterator[str]:
        table = self.simulated.sandbox.cluster.server.store.table(_ATTACHMENTS)
        for entry in table.entries.values():
            item: dict[str, Any] = msgspec.json.decode(entry.raw)
            volume = item["spec"]["source"].get("persistentVolumeName")
            if item["spec"]["nodeName"] == node and volume:
                yield volume


class FinalizerOrderInvariant(Invariant):
    """The finalizer of a claim or of a node goes only after the machine."""

    name = "finalizers"

    def on_write(self, write: ObjectWrite) -> None:
        before, after = write.before, write.after
        if before is None or TERMINATION_FINALIZER not in before.metadata.finalizers:
            return
        if after is not None and TERMINATION_FINALIZER in after.metadata.finalizers:
            return
        if isinstance(before, NodeClaim):
            provider_id = before.status.provider_id
        elif isinstance(before, Node):
            provider_id = before.spec.provider_id
        else:
            return
        # What EC2 does not show yet is not there for the operator either; garbage collection finds it.
        launched, shown = self.simulated.hidden(provider_id.rpartition("/")[2])
        if shown > launched and self.now < shown + _STUCK_AFTER.total_seconds():
            return
        if provider_id and any(each.provider_id == provider_id for each in self.simulated.cloud.machines()):
            self.violated(f"{before.kind} {before.name} loses its finalizer, and {provider_id} is there")


class ProtectionInvariant(Invariant):
    """No disruption budget is violated, and what must not be disrupted is not, unless time forces it."""

    name = "protection"

    def __init__(self, simulated: SimulatedCluster, violations: ViolationLog) -> None:
        super().__init__(simulated, violations)
        self._last: dict[str, Pod] = {}
        """Pods as they were before their deletion was asked for."""

    def on_write(self, write: ObjectWrite) -> None:
        """Remember how pods were before their deletion was asked for."""
        before = write.before
        if isinstance(before, Pod) and not is_leaving(before):
            after = write.after
            if after is None or is_leaving(after):
                self._last[before.key] = before

    def on_call(self, request: Request, response: Response) -> None:
        if not response.ok or _PODS not in request.path:
            return
        evicted = request.method == "POST" and request.path.endswith("/eviction")
        if not evicted and request.method != "DELETE":
            return
        namespace, _, rest = request.path.partition("/namespaces/")[2].partition(_PODS)
        pod = self._last.get(f"{namespace}/{rest.removesuffix('/eviction')}")
        if pod is None or self._is_forced(pod):
            return
        by = REPLICA.get()
        bound = self.history.since("bound", pod.key)
        for_now = is_kept_for_now(self.simulated, pod) and self.history.is_readable(by, bound)
        if for_now or self.history.is_readable(by, self.history.since("pod kept", pod.key)):
            self.violated(f"pod {pod.key} must not be disrupted, and was")
        if not evicted:
            self.violated(f"pod {pod.key} was deleted instead of evicted")
        elif is_healthy(pod):
            self._check_budgets(pod)
        node = self.mirror.nodes.get(pod.spec.node_name)
        if node is not None and not any(taint.key == DISRUPTED for taint in node.spec.taints):
            self.violated(f"pod {pod.key} was evicted from node {node.name}, which is not closed to pods")
        if node is not None and is_critical(pod):
            self._check_order(pod, by)

    def _check_order(self, pod: Pod, by: str) -> None:
        """Critical pods go last; a pod that is stuck in its termination holds nothing up."""
        now = self.simulated.clock.now()
        for other in self.mirror.pods_on(pod.spec.node_name):
            ends = other.metadata.deletion_timestamp
            stuck = ends is not None and (
                self.simulated.is_time_wrong or now > ends + _STUCK_AFTER - _CLOCK_SLACK
            )
            known = self.history.is_known(by, "pods", self.history.since("bound", other.key))
            if known and is_drained(other) and not is_critical(other) and not stuck:
                self.violated(f"critical pod {pod.key} was evicted before pod {other.key}, which is not")

    def _check_budgets(self, pod: Pod) -> None:
        for budget in self.mirror.budgets.values():
            least = budget.spec.min_available
            if not isinstance(least, int) or not covers(budget, pod):
                continue
            left = sum(1 for each in self.mirror.pods.values() if covers(budget, each) and is_healthy(each))
            if left < least:
                self.violated(
                    f"evicting pod {pod.key} left {left} healthy pods where {budget.name} wants {least}"
                )

    def _is_forced(self, pod: Pod) -> bool:
        """Whether the pod's machine is gone or broken, or its time to drain is over, or nearly."""
        node = self.mirror.nodes.get(pod.spec.node_name)
        if (node is None and pod.spec.node_name) or (
            node is not None and node.spec.provider_id in self.simulated.broken
        ):
            return True
        claim = self.mirror.claim_of(node.spec.provider_id) if node is not None else None
        due = termination_time(claim) if claim is not None else None
        if due is None or self.simulated.is_time_wrong:
            return due is not None
        grace = timedelta(seconds=pod.spec.termination_grace_period_seconds or 0)
        return self.simulated.clock.now() >= due - grace - _CLOCK_SLACK
