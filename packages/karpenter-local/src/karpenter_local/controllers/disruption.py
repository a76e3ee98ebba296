"""
The disruption controller: the status of PodDisruptionBudgets, how many of their pods may be evicted now.

Healthy pods are ready, not being deleted and not just evicted. The desired number follows from the pods, or,
where the budget is a percentage or maxUnavailable, from the scale of the workloads that manage them.
See https://kubernetes.io/docs/tasks/run-application/configure-pdb/

Pure but for :class:`BudgetController`; evictions are decided by the API server.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import msgspec

from karpenter.api.cluster import PodDisruptionBudget, PodDisruptionBudgetStatus
from karpenter.api.meta import LabelSelector
from karpenter.api.pod import Pod
from karpenter.base.clock import Clock
from karpenter.base.queue import WorkQueue
from karpenter.core.model.selectors import parse_selector
from karpenter.kube.targets import Plain
from karpenter_local.controllers import plain, pods
from karpenter_local.controllers.informers import BY_NAMESPACE, Informers
from karpenter_local.controllers.loop import batch_delay, wake
from karpenter_local.controllers.writer import Writer

if TYPE_CHECKING:
    from karpenter.kube.informer import Informer

FORGET_EVICTION = timedelta(minutes=2)
"""An evicted pod that is still there after this was not evicted after all."""


class BudgetStatus(msgspec.Struct, frozen=True):
    """The numbers of a budget's status."""

    healthy: int
    desired: int
    expected: int
    allowed: int
    evicted: Mapping[str, str]
    """Pods whose eviction was let through and has not been seen yet."""
    look_again: float | None


def count(budget: PodDisruptionBudget, mine: Sequence[Pod], scale: int, now: datetime) -> BudgetStatus:
    """Return what the budget comes to; `scale` is the size of the workloads behind its pods."""
    evicted, look_again = _pending(budget.status, mine, now)
    healthy = sum(pods.is_ready(pod) and not pods.is_leaving(pod) and pod.name not in evicted for pod in mine)
    least, most = budget.spec.min_available, budget.spec.max_unavailable
    if most is not None:
        expected = scale
        desired = max(0, expected - plain.scaled(most, expected, up=True))
    elif isinstance(least, str):
        expected = scale
        desired = plain.scaled(least, expected, up=True)
    else:
        expected = len(mine)
        desired = int(least) if least is not None else 0
    allowed = max(0, healthy - desired) if expected > 0 else 0
    return BudgetStatus(healthy, desired, expected, allowed, evicted, look_again)


def needs_scale(budget: PodDisruptionBudget) -> bool:
    """Say whether the budget can only be counted where the size of the workloads is known."""
    return budget.spec.max_unavailable is not None or isinstance(budget.spec.min_available, str)


def unmanaged_sentence(budget: PodDisruptionBudget) -> str:
    """Return what is said of a budget that needs the size of workloads and covers pods of none."""
    return (
        f"Pods selected by this PodDisruptionBudget (selector: {_words(budget)}) were found to be unmanaged."
        " As a result, the status of the PDB cannot be calculated correctly, which may result in undefined"
        ' behavior. To account for these pods please set ".spec.minAvailable" field of the PDB to an integer'
        " value."
    )


def status(budget: PodDisruptionBudget, found: BudgetStatus, now: datetime) -> Plain:
    enough = found.allowed > 0
    known = next((each for each in budget.status.conditions if each.type == "DisruptionAllowed"), None)
    text = "True" if enough else "False"
    since = now
    if known is not None and known.status == text and known.last_transition_time is not None:
        since = known.last_transition_time
    return {
        "currentHealthy": found.healthy,
        "desiredHealthy": found.desired,
        "expectedPods": found.expected,
        "disruptionsAllowed": found.allowed,
        "disruptedPods": dict(found.evicted),
        "observedGeneration": budget.metadata.generation,
        "conditions": [
            {
                "type": "DisruptionAllowed",
                "status": text,
                "reason": "SufficientPods" if enough else "InsufficientPods",
                "message": "",
                "lastTransitionTime": plain.render_time(since),
                "observedGeneration": budget.metadata.generation,
            }
        ],
    }


def is_current(old: PodDisruptionBudgetStatus, new: Plain) -> bool:
    """Say whether a status already says what would be written."""
    return (
        old.current_healthy == new["currentHealthy"]
        and old.desired_healthy == new["desiredHealthy"]
        and old.expected_pods == new["expectedPods"]
        and old.disruptions_allowed == new["disruptionsAllowed"]
        and old.disrupted_pods == new["disruptedPods"]
        and old.observed_generation == new["observedGeneration"]
        and bool(old.conditions)
    )


def _words(budget: PodDisruptionBudget) -> str:
    """Return the selector as the event has always spelled it."""
    selector = budget.spec.selector or LabelSelector()
    labels = "".join(f"{key}: {value}," for key, value in sorted(selector.match_labels.items()))
    rules = "".join(
        f"LabelSelectorRequirement{{Key:{each.key},Operator:{each.operator},"
        f"Values:[{' '.join(each.values)}],}},"
        for each in selector.match_expressions
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{rules}}},}}"
    )


def _pending(
    old: PodDisruptionBudgetStatus, mine: Sequence[Pod], now: datetime
) -> tuple[dict[str, str], float | None]:
    waiting: dict[str, str] = {}
    look_again: float | None = None
    here = {pod.name: pod for pod in mine}
    for name, since in old.disrupted_pods.items():
        pod = here.get(name)
        evicted_at = plain.parse_time(since) or now
        if pod is None or pods.is_leaving(pod) or evicted_at + FORGET_EVICTION <= now:
            continue
        waiting[name] = since
        left = (evicted_at + FORGET_EVICTION - now).total_seconds()
        look_again = left if look_again is None else min(look_again, left)
    return waiting, look_again


class BudgetController:
    """Keeps the status of disruption budgets."""

    name = "disruption"

    def __init__(self, informers: Informers, writer: Writer, clock: Clock) -> None:
        self._budgets = informers.budgets
        self._pods = informers.pods
        self._predicate = informers.pod_predicate
        self._owners: dict[str, Informer[Plain]] = {
            "Deployment": informers.deployments,
            "ReplicaSet": informers.replica_sets,
            "StatefulSet": informers.stateful_sets,
        }
        self._writer = writer
        self._clock = clock

    def watch(self, queue: WorkQueue[str]) -> None:
        """Look at a budget when it, one of its pods or the size of a workload in its namespace changes."""
        wake(self._budgets, queue, lambda budget: [budget.key])
        wake(self._pods, queue, self._covering, after=self._batch_delay, predicate=self._predicate)
        for informer in self._owners.values():
            wake(informer, queue, self._in_namespace, after=self._batch_delay)

    def _batch_delay(self, _: str) -> float:
        return batch_delay(len(self._pods.store))

    def _covering(self, pod: Pod) -> list[str]:
        return [
            budget.key
            for budget in self._budgets.store.find(BY_NAMESPACE, pod.namespace)
            if parse_selector(budget.spec.selector).matches(pod.metadata.labels)
        ]

    def _in_namespace(self, workload: Plain) -> list[str]:
        namespace = plain.namespace_of(workload)
        return [budget.key for budget in self._budgets.store.find(BY_NAMESPACE, namespace)]

    async def reconcile(self, key: str) -> float | None:
        """Count anew and write the status if it changed."""
        budget = self._budgets.store.get(key)
        if budget is None or budget.metadata.deletion_timestamp is not None:
            return None
        selector = parse_selector(budget.spec.selector)
        mine = [
            pod
            for pod in self._pods.store.find(BY_NAMESPACE, budget.namespace)
            if selector.matches(pod.metadata.labels)
        ]
        now = self._clock.now()
        if needs_scale(budget) and any(
            plain.managing_owner(pod.metadata.owner_references) is None for pod in mine
        ):
            self._writer.record_event(budget, "Warning", "UnmanagedPods", unmanaged_sentence(budget))
        found = count(budget, mine, self._scale(mine), now)
        new = status(budget, found, now)
        if not is_current(budget.status, new):
            gone = {name: None for name in budget.status.disrupted_pods if name not in found.evicted}
            new["disruptedPods"] = {**gone, **found.evicted} or None
            await self._writer.set_status(PodDisruptionBudget, budget.name, new, namespace=budget.namespace)
        return found.look_again

    def _scale(self, mine: Sequence[Pod]) -> int:
        """Return the summed size of the workloads behind the pods; pods without a controller do not count."""
        sizes: dict[str, int] = {}
        for pod in mine:
            owner = plain.managing_owner(pod.metadata.owner_references)
            if owner is None:
                continue
            kind, name, uid = owner.kind, owner.name, owner.uid
            workload = self._find(kind, pod.namespace, name)
            if workload is not None and kind == "ReplicaSet":
                parent = next((each for each in plain.owners_of(workload) if each.get("controller")), None)
                deployment = self._find(parent["kind"], pod.namespace, parent["name"]) if parent else None
                workload = deployment or workload
            if workload is not None:
                uid = plain.uid_of(workload)
                sizes[uid] = int(plain.spec_of(workload).get("replicas", 1))
            else:
                sizes[uid] = sizes.get(uid, 0) + 1  # a kind without a scale: count what is there
        return sum(sizes.values())

    def _find(self, kind: str, namespace: str, name: str) -> Plain | None:
        informer = self._owners.get(kind)
        return informer.store.get(f"{namespace}/{name}") if informer is not None else None
