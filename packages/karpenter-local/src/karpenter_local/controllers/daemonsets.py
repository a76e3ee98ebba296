"""Daemon sets: one pod on every node that fits. What to do is decided in :mod:`.daemon_plan`."""

from karpenter.api.node import Node
from karpenter.api.pod import Pod
from karpenter.base.clock import Clock
from karpenter.base.queue import WorkQueue
from karpenter.kube.informer import InformerDelete, InformerEvent
from karpenter.kube.targets import Plain
from karpenter_local.controllers import plain, pods
from karpenter_local.controllers.daemon_plan import (
    Daemon,
    DaemonPlan,
    by_node,
    plan,
    pod_for,
    rollout_of,
    status,
)
from karpenter_local.controllers.history import HASH, ControllerHistory
from karpenter_local.controllers.informers import BY_NAMESPACE, BY_OWNER, DAEMON_SETS, Informers, unowned
from karpenter_local.controllers.loop import batch_delay, wake
from karpenter_local.controllers.ownership import ControllerRefManager, sort_pods
from karpenter_local.controllers.status import write_status
from karpenter_local.controllers.writer import Writer

# BurstReplicas of the DaemonSet controller, so that a refusal is noticed early.
BURST = 250


class DaemonSetController:
    """Keeps daemon sets on their nodes."""

    name = "daemonset"

    def __init__(self, informers: Informers, writer: Writer, clock: Clock) -> None:
        self._sets = informers.daemon_sets
        self._pods = informers.pods
        self._predicate = informers.pod_predicate
        self._nodes = informers.nodes
        self._writer = writer
        self._custody = ControllerRefManager(writer)
        self._history = ControllerHistory(informers, writer)
        self._clock = clock

    def watch(self, queue: WorkQueue[str]) -> None:
        """
        Look at a set when it or one of its pods changes; at all when nodes come, go, or change in what
        counts.
        """
        wake(self._sets, queue, lambda value: [plain.key_of(value)])
        wake(
            self._pods,
            queue,
            self._interested,
            after=lambda _: batch_delay(len(self._nodes.store)),
            predicate=self._predicate,
        )

        def node_changed(event: InformerEvent[Node]) -> None:
            before = None if isinstance(event, InformerDelete) else event.before
            node = event.object
            same = before is not None and (
                before.metadata.labels == node.metadata.labels and before.spec.taints == node.spec.taints
            )
            if not same:
                for each in self._sets.store:
                    queue.add_after(plain.key_of(each), batch_delay(len(self._nodes.store)))

        self._nodes.subscribe(node_changed)

    def _interested(self, pod: Pod) -> list[str]:
        owner = plain.managing_owner(pod.metadata.owner_references)
        if owner is not None:
            return [f"{pod.namespace}/{owner.name}"] if owner.kind == "DaemonSet" else []
        return [
            plain.key_of(each)
            for each in self._sets.store.find(BY_NAMESPACE, pod.namespace)
            if plain.selector_of(each).matches(pod.metadata.labels)
        ]

    async def reconcile(self, key: str) -> float | None:
        """Make and delete pods, then write the status."""
        owner = self._sets.store.get(key)
        if owner is None or plain.is_leaving(owner):
            return None
        uid = plain.uid_of(owner)
        orphans = self._pods.store.find(BY_OWNER, unowned(plain.namespace_of(owner)))
        found = sort_pods(owner, plain.selector_of(owner), [*self._pods.store.find(BY_OWNER, uid), *orphans])
        mine = await self._custody.settle_pods(owner, Pod, found)
        collisions = int(plain.status_of(owner).get("collisionCount", 0))
        revisions = await self._history.sync(owner, collisions=collisions)
        present = plain.labels_of(revisions.present)[HASH]
        daemon = Daemon(owner)
        fits = {node.name: daemon.fit(node) for node in self._nodes.store}
        limits = rollout_of(owner, sum(fit.should_run for fit in fits.values()))
        now = self._clock.now()
        await self._perform(owner, plan(fits, by_node(mine), present, limits, now), present)
        mine = list(self._pods.store.find(BY_OWNER, uid))
        await write_status(
            self._writer, DAEMON_SETS, owner, status(owner, fits, by_node(mine), present, now=now)
        )
        in_use = {pod.metadata.labels.get(HASH, "") for pod in mine}
        await self._history.trim(owner, revisions, in_use)
        return pods.seconds_to_available(mine, limits.min_ready, now)

    async def _perform(self, owner: Plain, todo: DaemonPlan, present: str) -> None:
        namespace = plain.namespace_of(owner)
        for pod in todo.failed:
            message = f"Found failed daemon pod {pod.key} on node {pod.spec.node_name}, will try to kill it"
            self._writer.record_event(owner, "Warning", "FailedDaemonPod", message)
        for pod in todo.delete[:BURST]:
            if await self._writer.delete(Pod, pod.name, namespace=namespace, uid=pod.metadata.uid):
                self._writer.record_event(owner, "Normal", "SuccessfulDelete", f"Deleted pod: {pod.name}")
        for node in todo.create[:BURST]:
            made = await self._writer.create(Pod, pod_for(owner, node, present), namespace=namespace)
            self._writer.record_event(owner, "Normal", "SuccessfulCreate", f"Created pod: {made.name}")
