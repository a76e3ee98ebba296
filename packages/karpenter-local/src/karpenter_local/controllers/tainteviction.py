"""
The taint eviction controller: deletes pods that do not tolerate a NoExecute taint of their node.

A pod with ``tolerationSeconds`` stays that long, counted from when the taint was added, or, where the taint
has no time, from when both were first seen together. A pod that tolerates the taint without a limit stays.
If the taint is removed in time, the pod stays. See
https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from karpenter.api.node import Taint
from karpenter.api.pod import Pod, Toleration
from karpenter.base.clock import Clock
from karpenter.base.queue import WorkQueue
from karpenter.core.model.taints import tolerates_taint
from karpenter_local.controllers import pods
from karpenter_local.controllers.informers import BY_NODE, Informers
from karpenter_local.controllers.loop import wake
from karpenter_local.controllers.plain import render_time
from karpenter_local.controllers.writer import Writer


def must_leave_at(
    taints: Sequence[Taint], tolerations: Sequence[Toleration], since: datetime
) -> datetime | None:
    """Return when a pod that has been under these taints `since` has to leave; None if it may stay."""
    driving = [taint for taint in taints if taint.effect == "NoExecute"]
    if not driving:
        return None
    limits: list[datetime] = []
    for taint in driving:
        covering = [each for each in tolerations if tolerates_taint(each, taint)]
        if not covering:
            return since
        seconds = [each.toleration_seconds for each in covering if each.toleration_seconds is not None]
        if seconds:
            limits.append((taint.time_added or since) + timedelta(seconds=max(0, min(seconds))))
    return min(limits, default=None)


class TaintEviction:
    """Deletes pods that may not stay."""

    name = "taint-eviction"

    def __init__(self, informers: Informers, writer: Writer, clock: Clock) -> None:
        self._nodes = informers.nodes
        self._pods = informers.pods
        self._predicate = informers.pod_predicate
        self._writer = writer
        self._clock = clock
        self._since: dict[str, dict[str, datetime]] = {}
        """By node and uid: when a pod was first seen under a taint that drives."""

    def watch(self, queue: WorkQueue[str]) -> None:
        """Look at a node when it or a pod on it changes."""
        wake(self._nodes, queue, lambda node: [node.name])
        wake(self._pods, queue, self._if_tainted, predicate=self._predicate)

    def _if_tainted(self, pod: Pod) -> list[str]:
        node = self._nodes.store.get(pod.spec.node_name)
        drives = node is not None and any(taint.effect == "NoExecute" for taint in node.spec.taints)
        return [pod.spec.node_name] if drives else []

    async def reconcile(self, key: str) -> float | None:
        """Delete the pods of a node whose time is up; return when the next one's is."""
        node = self._nodes.store.get(key)
        known = self._since.pop(key, {})
        if node is None or not any(taint.effect == "NoExecute" for taint in node.spec.taints):
            return None
        now = self._clock.now()
        here = [pod for pod in self._pods.store.find(BY_NODE, key) if pods.is_active(pod)]
        since = {pod.metadata.uid: known.get(pod.metadata.uid, now) for pod in here}
        self._since[key] = since
        upcoming: list[datetime] = []
        for pod in here:
            when = must_leave_at(node.spec.taints, pod.spec.tolerations, since[pod.metadata.uid])
            if when is None:
                continue
            if when <= now:
                await self._evict(pod)
            else:
                upcoming.append(when)
        return (min(upcoming) - now).total_seconds() if upcoming else None

    async def _evict(self, pod: Pod) -> None:
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByTaintManager",
            "message": "Taint manager: deleting due to NoExecute taint",
            "lastTransitionTime": render_time(self._clock.now()),
        }
        await self._writer.set_status(
            Pod, pod.name, {"conditions": [condition]}, namespace=pod.namespace, strategic=True
        )
        self._writer.record_event(
            pod, "Normal", "TaintManagerEviction", f"Marking for deletion Pod {pod.key}"
        )
        await self._writer.delete(Pod, pod.name, namespace=pod.namespace, uid=pod.metadata.uid)
