"""
Replica sets: as many pods of one template as asked for.

Pods that finished or are being deleted do not count. Too few: more are made. Too many: the least wanted go.
A pod that the API server refuses (a quota, a missing namespace) is reported in an Event and in a condition.
"""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from karpenter.api.pod import Pod
from karpenter.base.clock import Clock
from karpenter.base.queue import WorkQueue
from karpenter.kube.errors import StatusError
from karpenter.kube.rest import Plain
from karpenter_local.controllers import conditions, plain, pods
from karpenter_local.controllers.informers import BY_NAMESPACE, BY_OWNER, REPLICA_SETS, Informers, unowned
from karpenter_local.controllers.loop import batch_delay, wake
from karpenter_local.controllers.ownership import ControllerRefManager, sort_pods
from karpenter_local.controllers.status import write_status
from karpenter_local.controllers.writer import Writer

# BurstReplicas of the ReplicaSet controller, so that a refusal is noticed early.
BURST = 500
"""Pods made or deleted at most in one go."""

FAILURE = "ReplicaFailure"


class ReplicaChange(msgspec.Struct, frozen=True):
    """What it takes to get to the wanted count."""

    create: int = 0
    delete: tuple[Pod, ...] = ()


def wanted(owner: Plain) -> int:
    """Return how many replicas are asked for."""
    return int(plain.spec_of(owner).get("replicas", 1))


def change(count: int, mine: Sequence[Pod], related: Sequence[Pod]) -> ReplicaChange:
    """Return how many pods to make and which to delete; `related` are pods of sibling sets."""
    active = [pod for pod in mine if pods.is_active(pod)]
    missing = count - len(active)
    if missing >= 0:
        return ReplicaChange(create=min(missing, BURST))
    victims = pods.least_wanted_first(active, [*active, *related])[: min(-missing, BURST)]
    return ReplicaChange(delete=tuple(victims))


def status(owner: Plain, mine: Sequence[Pod], *, failure: str, now: datetime) -> Plain:
    """Return the status that the set's pods amount to."""
    active = [pod for pod in mine if pods.is_active(pod)]
    ready = [pod for pod in active if pods.is_ready(pod)]
    template = ((plain.spec_of(owner).get("template") or {}).get("metadata") or {}).get("labels") or {}
    least = int(plain.spec_of(owner).get("minReadySeconds", 0))
    known = plain.status_of(owner).get("conditions") or []
    if failure and not conditions.holds(known, FAILURE):
        # Reported once: the message may differ with every try, and each new status would queue another try.
        known = conditions.with_condition(
            known, FAILURE, "True", now=now, reason="FailedCreate", message=failure
        )
    elif not failure:
        known = conditions.without(known, FAILURE)
    result: Plain = {
        "replicas": len(active),
        "fullyLabeledReplicas": sum(template.items() <= pod.metadata.labels.items() for pod in active),
        "readyReplicas": len(ready),
        "availableReplicas": sum(pods.is_available(pod, least, now) for pod in ready)
        if least
        else len(ready),
        "terminatingReplicas": sum(pods.is_leaving(pod) and not pods.is_finished(pod) for pod in mine),
        "observedGeneration": plain.generation_of(owner),
    }
    if known:
        result["conditions"] = known
    # Counts of zero are left out, as the API server's own types leave them out, but for two.
    always = {"replicas", "terminatingReplicas"}
    return {key: value for key, value in result.items() if value or key in always}


class ReplicaSetController:
    """Keeps replica sets at their size."""

    name = "replicaset"

    def __init__(self, informers: Informers, writer: Writer, clock: Clock) -> None:
        self._sets = informers.replica_sets
        self._pods = informers.pods
        self._predicate = informers.pod_predicate
        self._writer = writer
        self._custody = ControllerRefManager(writer)
        self._clock = clock

    def watch(self, queue: WorkQueue[str]) -> None:
        """Look at a set when it or one of its pods changes, or a pod without owner that it might adopt."""
        wake(self._sets, queue, lambda value: [plain.key_of(value)])
        wake(self._pods, queue, self._interested, after=self._batch_delay, predicate=self._predicate)

    def _batch_delay(self, key: str) -> float:
        owner = self._sets.store.get(key)
        return batch_delay(wanted(owner) if owner is not None else 0)

    def _interested(self, pod: Pod) -> list[str]:
        owner = plain.managing_owner(pod.metadata.owner_references)
        if owner is not None:
            return [f"{pod.namespace}/{owner.name}"] if owner.kind == "ReplicaSet" else []
        return [
            plain.key_of(each)
            for each in self._sets.store.find(BY_NAMESPACE, pod.namespace)
            if plain.selector_of(each).matches(pod.metadata.labels)
        ]

    async def reconcile(self, key: str) -> float | None:
        """Make or delete pods, then write the status."""
        owner = self._sets.store.get(key)
        if owner is None:
            return None
        candidates = self._pods.store.find(BY_OWNER, plain.uid_of(owner))
        orphans = self._pods.store.find(BY_OWNER, unowned(plain.namespace_of(owner)))
        found = sort_pods(owner, plain.selector_of(owner), [*candidates, *orphans])
        mine = await self._custody.settle_pods(owner, Pod, found)
        failure = ""
        if not plain.is_leaving(owner):
            failure = await self._perform(owner, change(wanted(owner), mine, self._related(owner)))
        now = self._clock.now()
        mine = list(self._pods.store.find(BY_OWNER, plain.uid_of(owner)))
        await write_status(self._writer, REPLICA_SETS, owner, status(owner, mine, failure=failure, now=now))
        if failure:
            return 5.0
        return pods.seconds_to_available(mine, int(plain.spec_of(owner).get("minReadySeconds", 0)), now)

    def _related(self, owner: Plain) -> list[Pod]:
        manager = plain.controller_uid(owner)
        siblings = self._sets.store.find(BY_OWNER, manager) if manager else ()
        return [
            pod
            for each in siblings
            if plain.uid_of(each) != plain.uid_of(owner)
            for pod in self._pods.store.find(BY_OWNER, plain.uid_of(each))
            if pods.is_active(pod)
        ]

    async def _perform(self, owner: Plain, todo: ReplicaChange) -> str:
        """Carry out the change; return what the API server had against it, if anything."""
        namespace = plain.namespace_of(owner)
        template = plain.spec_of(owner).get("template") or {}
        try:
            for _ in range(todo.create):
                made = await self._writer.create(
                    Pod, pods.from_template(template, owner), namespace=namespace
                )
                self._writer.record_event(owner, "Normal", "SuccessfulCreate", f"Created pod: {made.name}")
        except StatusError as error:
            self._writer.record_event(owner, "Warning", "FailedCreate", f"Error creating: {error.message}")
            return error.message
        for pod in todo.delete:
            if await self._writer.delete(Pod, pod.name, namespace=namespace, uid=pod.metadata.uid):
                self._writer.record_event(owner, "Normal", "SuccessfulDelete", f"Deleted pod: {pod.name}")
        return ""
