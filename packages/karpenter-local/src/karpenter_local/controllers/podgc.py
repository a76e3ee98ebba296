"""
The pod garbage collector: deletes pods of nodes that are gone, unscheduled pods that are being deleted, and
finished pods beyond a limit.
"""

from datetime import datetime, timedelta

from karpenter.api.node import Node
from karpenter.api.pod import Pod
from karpenter.base.clock import Clock
from karpenter.kube.informer import InformerDelete, InformerEvent
from karpenter_local.controllers import pods
from karpenter_local.controllers.informers import Informers
from karpenter_local.controllers.plain import render_time
from karpenter_local.controllers.writer import Writer

# kube-controller-manager waits 40 s before it takes a Node for gone.
QUARANTINE = timedelta(seconds=40)
"""How long a node must have been gone before its pods go too: it may only be on its way."""
# --terminated-pod-gc-threshold: https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/
MAX_FINISHED_PODS = 12_500
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"


class PodCollector:
    """Clears away pods that were left behind."""

    name = "pod-collector"
    period = 20.0

    def __init__(self, informers: Informers, writer: Writer, clock: Clock) -> None:
        self._pods = informers.pods
        self._nodes = informers.nodes
        self._writer = writer
        self._clock = clock
        self._missing: dict[str, datetime] = {}
        self._stirred = True
        self._pods.subscribe(self._pod_changed)
        self._nodes.subscribe(self._node_changed)

    def _pod_changed(self, event: InformerEvent[Pod]) -> None:
        pod = event.object
        stray = pod.spec.node_name not in self._nodes.store
        self._stirred = self._stirred or pods.is_finished(pod) or stray or pods.is_leaving(pod)

    def _node_changed(self, event: InformerEvent[Node]) -> None:
        gone = isinstance(event, InformerDelete)
        self._stirred = (
            self._stirred or gone or any(t.key == OUT_OF_SERVICE for t in event.object.spec.taints)
        )

    async def look(self) -> None:
        """Go over all pods, if anything happened that could have left one behind."""
        if not self._stirred and not self._missing:
            return
        self._stirred = False
        now = self._clock.now()
        gone = self._gone_for_good(now)
        finished: list[Pod] = []
        for pod in list(self._pods.store):
            if not pod.spec.node_name:
                if pods.is_leaving(pod):
                    self._stirred = True  # finalizers may hold it: look again
                    await self._remove(pod)
            elif pod.spec.node_name in gone or self._is_written_off(pod):
                await self._abandon(pod, now)
            elif pods.is_finished(pod):
                finished.append(pod)
        finished.sort(key=lambda pod: (pods.created_at(pod), pod.key))
        for pod in finished[: max(0, len(finished) - MAX_FINISHED_PODS)]:
            await self._remove(pod)

    def _gone_for_good(self, now: datetime) -> frozenset[str]:
        missing: dict[str, datetime] = {}
        for pod in self._pods.store:
            name = pod.spec.node_name
            if name and name not in self._nodes.store:
                missing[name] = self._missing.get(name, now)
        self._missing = missing
        return frozenset(name for name, since in missing.items() if since + QUARANTINE <= now)

    def _is_written_off(self, pod: Pod) -> bool:
        node = self._nodes.store.get(pod.spec.node_name)
        if node is None or not pods.is_leaving(pod):
            return False
        ready = any(each.type == "Ready" and each.status == "True" for each in node.status.conditions)
        return not ready and any(taint.key == OUT_OF_SERVICE for taint in node.spec.taints)

    async def _abandon(self, pod: Pod, now: datetime) -> None:
        """Mark the pod as failed, so that its workload counts it, and delete it."""
        if not pods.is_finished(pod):
            condition = {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "DeletionByPodGC",
                "message": "PodGC: node no longer exists",
                "lastTransitionTime": render_time(now),
            }
            await self._writer.set_status(
                Pod,
                pod.name,
                {"phase": "Failed", "conditions": [condition]},
                namespace=pod.namespace,
                strategic=True,
            )
        await self._remove(pod)

    async def _remove(self, pod: Pod) -> None:
        await self._writer.delete(Pod, pod.name, namespace=pod.namespace, uid=pod.metadata.uid, grace=0)
