"""Stateful sets: pods with names and claims of their own. What to do is decided in :mod:`.stateful_plan`."""

from karpenter.api.pod import Pod
from karpenter.api.storage import PersistentVolumeClaim
from karpenter.base.clock import Clock
from karpenter.base.queue import WorkQueue
from karpenter.kube.errors import AlreadyExists
from karpenter.kube.targets import Plain
from karpenter_local.controllers import plain, pods, stateful_plan
from karpenter_local.controllers.history import HASH, ControllerHistory, Revisions
from karpenter_local.controllers.informers import BY_NAMESPACE, BY_OWNER, STATEFUL_SETS, Informers, unowned
from karpenter_local.controllers.loop import batch_delay, wake
from karpenter_local.controllers.ownership import ControllerRefManager, sort_pods
from karpenter_local.controllers.stateful_plan import (
    StatefulSetRequest,
    StatefulSetStep,
    by_ordinal,
    next_step,
    request_of,
)
from karpenter_local.controllers.status import write_status
from karpenter_local.controllers.writer import Writer


class StatefulSetController:
    """Takes stateful sets forward one step at a time."""

    name = "statefulset"

    def __init__(self, informers: Informers, writer: Writer, clock: Clock) -> None:
        self._sets = informers.stateful_sets
        self._pods = informers.pods
        self._predicate = informers.pod_predicate
        self._claims = informers.claims
        self._writer = writer
        self._custody = ControllerRefManager(writer)
        self._history = ControllerHistory(informers, writer)
        self._clock = clock

    def watch(self, queue: WorkQueue[str]) -> None:
        wake(self._sets, queue, lambda value: [plain.key_of(value)])
        wake(self._pods, queue, self._interested, after=self._batch_delay, predicate=self._predicate)

    def _batch_delay(self, key: str) -> float:
        found = self._sets.store.get(key)
        return batch_delay(request_of(found).replicas if found is not None else 0)

    def _interested(self, pod: Pod) -> list[str]:
        owner = plain.managing_owner(pod.metadata.owner_references)
        if owner is not None:
            return [f"{pod.namespace}/{owner.name}"] if owner.kind == "StatefulSet" else []
        return [
            plain.key_of(each)
            for each in self._sets.store.find(BY_NAMESPACE, pod.namespace)
            if plain.selector_of(each).matches(pod.metadata.labels)
        ]

    async def reconcile(self, key: str) -> float | None:
        """Take one step, then write the status."""
        owner = self._sets.store.get(key)
        if owner is None or plain.is_leaving(owner):
            return None
        uid, request = plain.uid_of(owner), request_of(owner)
        orphans = self._pods.store.find(BY_OWNER, unowned(plain.namespace_of(owner)))
        named = [pod for pod in orphans if stateful_plan.ordinal_of(request, pod) is not None]
        found = sort_pods(owner, plain.selector_of(owner), [*self._pods.store.find(BY_OWNER, uid), *named])
        mine = await self._custody.settle_pods(owner, Pod, found)
        collisions = int(plain.status_of(owner).get("collisionCount", 0))
        revisions = await self._history.sync(owner, collisions=collisions)
        update = plain.name_of(revisions.present)
        current = str(plain.status_of(owner).get("currentRevision", "")) or update
        now = self._clock.now()
        step = next_step(request, by_ordinal(request, mine), current=current, update=update, now=now)
        await self._perform(owner, request, step, revisions)
        mine = list(self._pods.store.find(BY_OWNER, uid))
        placed = by_ordinal(request, mine)
        new = stateful_plan.status(owner, request, placed, current=current, update=update, now=now)
        await write_status(self._writer, STATEFUL_SETS, owner, new)
        in_use = {pod.metadata.labels.get(HASH, "") for pod in mine} | {str(new["currentRevision"])}
        await self._history.trim(owner, revisions, in_use)
        return pods.seconds_to_available(mine, request.min_ready, now)

    async def _perform(
        self, owner: Plain, request: StatefulSetRequest, step: StatefulSetStep, revisions: Revisions
    ) -> None:
        by_name = {plain.name_of(each): each for each in revisions.all}
        for ordinal, revision in step.create:
            await self._make(owner, ordinal, by_name.get(revision, revisions.present))
        for pod in step.delete:
            number = stateful_plan.ordinal_of(request, pod)
            if number is not None and number not in request.ordinals:
                await self._let_claims_go_with(owner, pod, number)
            if await self._writer.delete(Pod, pod.name, namespace=pod.namespace, uid=pod.metadata.uid):
                message = f"Delete Pod {pod.name} in StatefulSet {request.name} successful"
                self._writer.record_event(owner, "Normal", "SuccessfulDelete", message)

    async def _make(self, owner: Plain, ordinal: int, revision: Plain) -> None:
        namespace = plain.namespace_of(owner)
        for claim in stateful_plan.claims_for(owner, ordinal):
            name = claim["metadata"]["name"]
            if self._claims.store.get(f"{namespace}/{name}") is None and await self._writer.ensure(
                PersistentVolumeClaim, claim, namespace=namespace
            ):
                message = (
                    f"Create Claim {name} Pod {plain.name_of(owner)}-{ordinal} in StatefulSet "
                    f"{plain.name_of(owner)} success"
                )
                self._writer.record_event(owner, "Normal", "SuccessfulCreate", message)
        body = stateful_plan.pod_for(owner, ordinal, revision)
        try:
            made = await self._writer.create(Pod, body, namespace=namespace)
        except AlreadyExists:
            return  # another owner's pod has the name: queued again when that pod is deleted
        message = f"Create Pod {made.name} in StatefulSet {plain.name_of(owner)} successful"
        self._writer.record_event(owner, "Normal", "SuccessfulCreate", message)

    async def _let_claims_go_with(self, owner: Plain, pod: Pod, ordinal: int) -> None:
        if not stateful_plan.deletes_when(owner, "whenScaled"):
            return
        reference = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.metadata.uid}
        for name in stateful_plan.claim_names(owner, ordinal):
            await self._writer.merge(
                PersistentVolumeClaim,
                name,
                {"metadata": {"ownerReferences": [reference]}},
                namespace=pod.namespace,
            )
