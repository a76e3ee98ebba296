"""
Replica sets: as many pods of one template as asked for.

Pods that finished or are being deleted do not count. Too few: more are made. Too many: the least wanted go.
A pod that the API server refuses (a quota, a missing namespace) is reported in an Event and in a condition.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from karpenter.api.pod import Pod
from karpenter.base.clock import Clock
from karpenter.base.queue import WorkQueue
from karpenter.core.model.selectors import Selector
from karpenter.kube.errors import StatusError
from karpenter.kube.informer import Informer, InformerEvent, InformerUpdate
from karpenter.kube.targets import Plain
from karpenter_local.controllers import conditions, plain, pods
from karpenter_local.controllers.informers import (
    BY_NAMESPACE,
    BY_OWNER,
    REPLICA_SETS,
    Informers,
    owner_key,
    unowned,
)
from karpenter_local.controllers.loop import batch_delay, wake
from karpenter_local.controllers.ownership import ControllerRefManager, sort_pods
from karpenter_local.controllers.pods import PodPredicate
from karpenter_local.controllers.status import write_status
from karpenter_local.controllers.writer import Writer

# BurstReplicas of the ReplicaSet controller, so that a refusal is noticed early.
BURST = 500
"""Pods made or deleted at most in one go."""

FAILURE = "ReplicaFailure"


class ReplicaChange(msgspec.Struct, frozen=True):
    """Pods to create and to delete to get to the wanted count."""

    create: int = 0
    delete: tuple[Pod, ...] = ()


class ReplicaState(NamedTuple):
    """State of a pod that a replica set reads."""

    labels: frozenset[tuple[str, str]]
    finished: bool
    leaving: bool
    ready: bool

    @property
    def active(self) -> bool:
        """Whether the pod counts towards what is wanted."""
        return not self.finished and not self.leaving


def replica_state(pod: Pod) -> ReplicaState:
    return ReplicaState(
        frozenset(pod.metadata.labels.items()),
        pods.is_finished(pod),
        pods.is_leaving(pod),
        pods.is_ready(pod),
    )


class ReplicaCounts:
    """
    Counts of the pods of each owner, by state.

    Each event is counted once, so that a look at a set of thousands does not read all of its pods.
    """

    def __init__(self, informer: Informer[Pod], predicate: PodPredicate) -> None:
        self._counts: dict[str, Counter[ReplicaState]] = {}
        self._predicate = predicate
        informer.subscribe(self._hear)

    def of(self, owner: str) -> Mapping[ReplicaState, int]:
        """Return the states of the pods that the index by owner has under a value, each with its number."""
        return self._counts.get(owner, {})

    def _hear(self, event: InformerEvent[Pod]) -> None:
        if not self._predicate(event):
            return
        new = event.object if isinstance(event, InformerUpdate) else None
        old = event.before if isinstance(event, InformerUpdate) else event.object
        before = None if old is None else (owner_key(old), replica_state(old))
        after = None if new is None else (owner_key(new), replica_state(new))
        if after is not None:
            self._counts.setdefault(after[0], Counter())[after[1]] += 1
        if before is not None:
            self._forget(*before)

    def _forget(self, owner: str, state: ReplicaState) -> None:
        counts = self._counts[owner]
        counts[state] -= 1
        if not counts[state]:
            del counts[state]
        if not counts:
            del self._counts[owner]


def wanted(owner: Plain) -> int:
    return int(plain.spec_of(owner).get("replicas", 1))


def change(count: int, mine: Sequence[Pod], related: Sequence[Pod]) -> ReplicaChange:
    """Return how many pods to make and which to delete; `related` are pods of sibling sets."""
    active = [pod for pod in mine if pods.is_active(pod)]
    missing = count - len(active)
    if missing >= 0:
        return ReplicaChange(create=min(missing, BURST))
    victims = pods.least_wanted_first(active, [*active, *related])[: min(-missing, BURST)]
    return ReplicaChange(delete=tuple(victims))


def min_ready_seconds(owner: Plain) -> int:
    """Return for how long a pod must be ready to be available."""
    return int(plain.spec_of(owner).get("minReadySeconds", 0))


def status(
    owner: Plain, counts: Mapping[ReplicaState, int], mine: Iterable[Pod], *, failure: str, now: datetime
) -> Plain:
    """Return the status that the set's pods amount to; `mine` is read only if they must be ready for long."""
    active = {state: number for state, number in counts.items() if state.active}
    ready = sum(number for state, number in active.items() if state.ready)
    template = ((plain.spec_of(owner).get("template") or {}).get("metadata") or {}).get("labels") or {}
    least = min_ready_seconds(owner)
    known = plain.status_of(owner).get("conditions") or []
    if failure and not conditions.holds(known, FAILURE):
        # Reported once: the message may differ with every try, and each new status would queue another try.
        known = conditions.with_condition(
            known, FAILURE, "True", now=now, reason="FailedCreate", message=failure
        )
    elif not failure:
        known = conditions.without(known, FAILURE)
    result: Plain = {
        "replicas": sum(active.values()),
        "fullyLabeledReplicas": sum(
            number for state, number in active.items() if template.items() <= state.labels
        ),
        "readyReplicas": ready,
        "availableReplicas": sum(pods.is_active(pod) and pods.is_available(pod, least, now) for pod in mine)
        if least
        else ready,
        "terminatingReplicas": sum(
            number for state, number in counts.items() if state.leaving and not state.finished
        ),
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
        self._counts = ReplicaCounts(informers.pods, self._predicate)
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
        uid, selector = plain.uid_of(owner), plain.selector_of(owner)
        await self._settle(owner, selector)
        failure = ""
        if not plain.is_leaving(owner):
            failure = await self._perform(owner, self._change(owner, selector))
        now, least = self._clock.now(), min_ready_seconds(owner)
        mine = self._pods.store.find(BY_OWNER, uid) if least else ()
        new = status(owner, self._counts.of(uid), mine, failure=failure, now=now)
        await write_status(self._writer, REPLICA_SETS, owner, new)
        if failure:
            return 5.0
        return pods.seconds_to_available(mine, least, now)

    async def _settle(self, owner: Plain, selector: Selector) -> None:
        """Adopt and release pods; all of them are read only if the states say that there are such."""
        uid, orphaned = plain.uid_of(owner), unowned(plain.namespace_of(owner))
        settled = all(_matches(selector, state) for state in self._counts.of(uid)) and not any(
            _matches(selector, state) for state in self._counts.of(orphaned)
        )
        if not settled:
            candidates = (*self._pods.store.find(BY_OWNER, uid), *self._pods.store.find(BY_OWNER, orphaned))
            await self._custody.settle_pods(owner, Pod, sort_pods(owner, selector, candidates))

    def _change(self, owner: Plain, selector: Selector) -> ReplicaChange:
        uid, count = plain.uid_of(owner), wanted(owner)
        active = sum(
            number
            for state, number in self._counts.of(uid).items()
            if state.active and _matches(selector, state)
        )
        if active == count:
            return ReplicaChange()
        found = sort_pods(owner, selector, self._pods.store.find(BY_OWNER, uid))
        return change(count, found.mine, self._related(owner))

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


def _matches(selector: Selector, state: ReplicaState) -> bool:
    return selector.matches(dict(state.labels))
