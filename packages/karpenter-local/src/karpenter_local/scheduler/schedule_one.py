"""
One scheduling decision per pod, with no I/O: events in, decisions out.

:mod:`.loop` feeds it the changes of the cluster and carries out its decisions. A placed pod is assumed on its
node at once, before the API server knows of it, so that the next decision counts it;
:meth:`ScheduleOne.failed` forgets the assumed pod if the server refuses the binding.
"""

from collections.abc import Callable, Iterable
from functools import partial

import msgspec

from karpenter.api.meta import LabelSelector
from karpenter.api.pod import Pod
from karpenter_local.scheduler import reasons
from karpenter_local.scheduler.filters import FitError
from karpenter_local.scheduler.nodetable import AssignedPod, NodeTable
from karpenter_local.scheduler.place import Placed, place
from karpenter_local.scheduler.podinfo import PodInfo, PodInfos
from karpenter_local.scheduler.preempt import PDBLimit, PreemptionContext, Victims, preempt
from karpenter_local.scheduler.queue import SchedulingQueue
from karpenter_local.scheduler.reasons import Filter
from karpenter_local.scheduler.storage import ClaimUse

NAME = "default-scheduler"

ROOM = frozenset({Filter.RESOURCES, Filter.PORTS, Filter.VOLUME_LIMITS, Filter.VOLUME_RESTRICTIONS})
NEIGHBOURS = frozenset({Filter.SPREAD, Filter.POD_AFFINITY})
STORAGE = frozenset({Filter.VOLUME_LIMITS, Filter.VOLUME_BINDING, Filter.VOLUME_ZONE})
ALL = frozenset(Filter)


class Unplaced(msgspec.Struct, frozen=True, kw_only=True):
    """The pod has to wait."""

    message: str
    victims: Victims | None = None
    """Whom to evict to make room for it."""
    withdrawn: bool = False
    """Whether the pod was nominated for a node, and is no longer: no eviction would help it."""


class _Answer(msgspec.Struct, frozen=True):
    """Refusal of a template, given again while nothing changes that could alter it."""

    message: str
    filters: frozenset[Filter]
    revision: int
    opened: int


class ScheduleOne:
    """The scheduler's state of the cluster, and its decision for one pod at a time."""

    def __init__(self, *, seed: int) -> None:
        self.table = NodeTable()
        self.queue = SchedulingQueue()
        self._seed = seed
        self._pod_infos = PodInfos()
        self._waiting: dict[str, Pod] = {}
        self._assumed: set[str] = set()
        self._nominated: dict[str, AssignedPod] = {}
        """Pods that wait and were nominated for a node, as if they were there already."""
        self._nominated_for: dict[str, dict[str, AssignedPod]] = {}
        """The same by node."""
        self._answers: dict[PodInfo, _Answer] = {}
        self._opened = 0
        """Grows with every change that could make room somewhere."""

    def see_pod(self, pod: Pod, own: LabelSelector | None, now: float) -> None:
        """Take in a pod that is there; `own` selects the pods of its workload."""
        if pod.spec.node_name:
            self._see_bound(pod, own, now)
        elif not _is_ours_to_place(pod):
            self.forget_pod(pod.key, now)
        elif pod.key not in self._assumed:
            known = self._waiting.get(pod.key)
            self._waiting[pod.key] = pod
            self._see_nomination(pod, known, own, now)
            if known is None or _asks(known) != _asks(pod):
                self.queue.add(pod.key, pod.spec.priority or 0)

    def forget_pod(self, key: str, now: float) -> None:
        """Take in that a pod is gone, or none of our business."""
        self._waiting.pop(key, None)
        self._assumed.discard(key)
        self.queue.remove(key)
        freed = self._drop_nomination(key)
        if self.table.take(key) is not None or freed:
            self.changed(ROOM | NEIGHBOURS, now)

    def changed(self, filters: Iterable[Filter], now: float) -> None:
        """Take in that something happened which could let pods through these filters."""
        self._opened += 1
        self.queue.changed(filters, now)

    def pod_info(self, pod: Pod, own: LabelSelector | None) -> PodInfo:
        return self._pod_infos.of(pod, own)

    def pod(self, key: str) -> Pod | None:
        return self._waiting.get(key)

    def decide(
        self, pod: Pod, own: LabelSelector | None, budgets: Callable[[], Iterable[PDBLimit]], now: float
    ) -> Placed | Unplaced:
        """Decide about a pod whose turn it is; a placed pod takes its room at once."""
        pod_info = self._pod_infos.of(pod, own)
        uses = claims_of(pod)
        remembered = self._recall(pod_info) if not uses else None
        if remembered is not None:
            self.queue.park(pod.key, remembered.filters)
            return Unplaced(message=remembered.message, withdrawn=self._drop_nomination(pod.key))
        pod_volumes = self.table.storage.pod_volumes(pod.namespace, uses)
        nominated = self._nominated.get(pod.key)
        expected = partial(self._expected, pod.key, pod_info.priority)
        found = place(
            self.table,
            pod.key,
            pod_info,
            seed=self._seed,
            pod_volumes=pod_volumes,
            nominated=nominated.node if nominated is not None else "",
            expected=expected,
        )
        if isinstance(found, Placed):
            self._assume(pod, pod_info, found)
            self.queue.changed(NEIGHBOURS, now)
            return found
        context = PreemptionContext(
            budgets=budgets,
            expected=expected,
            nominated=nominated.node if nominated is not None else "",
        )
        outcome = preempt(
            self.table, pod.key, pod_info, found, seed=self._seed, context=context, pod_volumes=pod_volumes
        )
        self.queue.park(pod.key, found.filters)
        if isinstance(outcome, Victims):
            self._nominate(pod, own, outcome.node)
            return Unplaced(message=self._message(found, ""), victims=outcome)
        message = self._message(found, outcome)
        # https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/scheduler/framework/preemption/preemption.go
        withdrawn = outcome not in INELIGIBLE and self._drop_nomination(pod.key)
        if not uses and not found.reserved:
            self._remember(pod_info, found, message)
        return Unplaced(message=message, withdrawn=withdrawn)

    def failed(self, key: str, now: float) -> None:
        """Take in that a placed pod could not be bound: give its room back and try again later."""
        if key in self._assumed:
            self._assumed.discard(key)
            self.table.take(key)
            self.changed(ROOM | NEIGHBOURS, now)
        self.queue.retry(key, now)

    def withdraw_nomination(self, key: str) -> None:
        self._drop_nomination(key)
        self._opened += 1

    def outranked(self, node: str, priority: int) -> list[str]:
        """Return the pods of lower priority that were nominated for `node`."""
        nominated = self._nominated_for.get(node, {})
        return [each.key for each in nominated.values() if each.pod_info.priority < priority]

    def _expected(self, key: str, priority: int, node: str) -> tuple[AssignedPod, ...]:
        """Return the pods of at least a priority, beside the one that is asked for, nominated for a node."""
        nominated = self._nominated_for.get(node, {})
        return tuple(
            each for each in nominated.values() if each.key != key and each.pod_info.priority >= priority
        )

    def _see_nomination(self, pod: Pod, known: Pod | None, own: LabelSelector | None, now: float) -> None:
        """Take in for which node a pod is nominated; one that we have just nominated may not show it yet."""
        before = known.status.nominated_node_name if known is not None else ""
        after = pod.status.nominated_node_name
        if not before and not after:
            return
        self._drop_nomination(pod.key)
        if after:
            self._nominate(pod, own, after)
        if before and before != after:
            self.changed(ROOM | NEIGHBOURS, now)

    def _see_bound(self, pod: Pod, own: LabelSelector | None, now: float) -> None:
        self._waiting.pop(pod.key, None)
        self.queue.remove(pod.key)
        self._drop_nomination(pod.key)
        if pod.status.phase in {"Succeeded", "Failed"}:
            self._assumed.discard(pod.key)
            if self.table.take(pod.key) is not None:
                self.changed(ROOM | NEIGHBOURS, now)
            return
        known = self.table.occupants.get(pod.key)
        self._assumed.discard(pod.key)
        assigned = self._assigned(pod, self._pod_infos.of(pod, own), pod.spec.node_name)
        self.table.put(assigned)
        if known is None:
            self.queue.changed(NEIGHBOURS, now)  # it takes capacity, but may satisfy another pod's affinity
        elif known.node != assigned.node or known.pod_info.requests != assigned.pod_info.requests:
            self.changed(ROOM | NEIGHBOURS, now)
        elif known.pod_info is not assigned.pod_info or known.living is not assigned.living:
            self.queue.changed(NEIGHBOURS, now)

    def _assume(self, pod: Pod, pod_info: PodInfo, found: Placed) -> None:
        self._drop_nomination(pod.key)
        self._assumed.add(pod.key)
        self.table.put(self._assigned(pod, pod_info, found.node))
        for binding in found.bindings:
            if binding.volume:
                self.table.storage.assumed[binding.volume] = binding.claim.key

    def _assigned(self, pod: Pod, pod_info: PodInfo, node: str) -> AssignedPod:
        return AssignedPod(
            key=pod.key,
            uid=pod.metadata.uid,
            node=node,
            pod_info=pod_info,
            claims=tuple(f"{pod.namespace}/{use.name}" for use in claims_of(pod)),
            living=pod.metadata.deletion_timestamp is None,
            preempted=_is_preempted(pod),
            started=pod.status.start_time,
        )

    def _nominate(self, pod: Pod, own: LabelSelector | None, node: str) -> None:
        self._drop_nomination(pod.key)
        nominated = self._assigned(pod, self._pod_infos.of(pod, own), node)
        self._nominated[pod.key] = self._nominated_for.setdefault(node, {})[pod.key] = nominated

    def _drop_nomination(self, key: str) -> bool:
        nominated = self._nominated.pop(key, None)
        if nominated is None:
            return False
        others = self._nominated_for[nominated.node]
        del others[key]
        if not others:
            del self._nominated_for[nominated.node]
        return True

    def _message(self, found: FitError, preemption: str) -> str:
        return reasons.unavailable(
            self.table.rows.nodes, found.words.elements(), everywhere=found.everywhere, preemption=preemption
        )

    def _remember(self, pod_info: PodInfo, found: FitError, message: str) -> None:
        if pod_info.priority <= self.table.lowest_priority:
            if len(self._answers) > MOST_ANSWERS:
                self._answers.clear()
            self._answers[pod_info] = _Answer(message, found.filters, self.table.revision, self._opened)

    def _recall(self, pod_info: PodInfo) -> _Answer | None:
        """
        Return what was found for this template before, if it must be the same now.

        Pods that arrive in the meantime take room and give none, so only rules about neighbours could be met
        that were not before.
        """
        answer = self._answers.get(pod_info)
        if answer is None or answer.opened != self._opened or pod_info.priority > self.table.lowest_priority:
            return None
        if answer.revision != self.table.revision and answer.filters & NEIGHBOURS:
            return None
        return answer


INELIGIBLE = frozenset({reasons.NEVER_PREEMPTS, reasons.VICTIM_LEAVING})
"""Why a pod may not preempt; its nomination stays then."""

MOST_ANSWERS = 4096
"""Templates whose refusal is remembered at a time."""


def claims_of(pod: Pod) -> tuple[ClaimUse, ...]:
    found = []
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            found.append(ClaimUse(volume.persistent_volume_claim.claim_name))
        elif volume.ephemeral is not None:
            found.append(ClaimUse(f"{pod.name}-{volume.name}", ephemeral=True))
    return tuple(found)


def _is_preempted(pod: Pod) -> bool:
    target = next((each for each in pod.status.conditions if each.type == "DisruptionTarget"), None)
    return (
        pod.metadata.deletion_timestamp is not None
        and target is not None
        and target.status == "True"
        and target.reason == "PreemptionByScheduler"
    )


def _is_ours_to_place(pod: Pod) -> bool:
    return (
        pod.spec.scheduler_name in {"", NAME}
        and pod.status.phase not in {"Succeeded", "Failed"}
        and pod.metadata.deletion_timestamp is None
        and not pod.spec.scheduling_gates
    )


def _asks(pod: Pod) -> tuple[object, ...]:
    """Return what matters of a waiting pod; a new word in its status does not."""
    return pod.spec, pod.metadata.labels, pod.metadata.uid
