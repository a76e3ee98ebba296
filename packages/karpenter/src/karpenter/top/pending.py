"""
The pods that wait, by workload: how many, whether they have a place, and what keeps them from one.

The sentences are those of ``karpenter why``, the NodePool that comes nearest first; a cause is the part of
them that fits a narrow line. Where there is no NodePool, the words of kube-scheduler stand instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.top.model import waiting_pods
from karpenter.why.answer import place_of
from karpenter.why.costs import workload_of
from karpenter.why.pods import waiting_sentence

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from karpenter.api.pod import Pod
    from karpenter.core.provisioning.provisioner import ProvisioningDecision
    from karpenter.core.scheduling.problem import Reason
    from karpenter.core.state.cluster import ClusterView

NO_PLACE: Final = "It waits and has no place: "
MOST_ASKED: Final = 200
"""Workloads without a decision of which the reason is looked for."""

_NOT_MEANT: Final = frozenset({"RequirementsNotMet", "TaintNotTolerated"})
"""Codes of NodePools that are probably not meant for a pod."""

_EVERY_TYPE: Final = "the pod is too large for every instance type left: "
_HAS_NONE: Final = "the most is 0 of"


class PendingPod(msgspec.Struct, frozen=True, kw_only=True):
    """Pods of one workload that wait for the same reason."""

    pod: str
    """The first of them."""

    count: int
    sentence: str
    placed: bool = False
    """Whether a place is known for them."""

    workload: str = ""
    """Such as ``default/web``."""

    cause: str = ""
    """What keeps them from a place, or where they go, in as few words as it takes."""

    @property
    def name(self) -> str:
        """The pod, or the workload and how many pods of it there are."""
        one = self.pod if self.count == 1 else f"{self.workload or self.pod} x {self.count:,}"
        return one.removeprefix("default/")


def pending_pods(view: ClusterView, provisioning: ProvisioningDecision | None) -> tuple[PendingPod, ...]:
    """Return the pods that wait; first those without a place, of those the largest groups."""
    decision = provisioning if view.pools else None
    if decision is None:
        found = _quoted(waiting_pods(view))
    else:
        found = list(_Grouping(decision).groups(waiting_pods(view)))
    return tuple(sorted(found, key=lambda each: (each.placed, -each.count)))


def _quoted(pods: Iterable[Pod]) -> list[PendingPod]:
    groups: dict[tuple[str, str], list[Pod]] = {}
    for pod in pods:
        told = next((each.message for each in pod.status.conditions if each.type == "PodScheduled"), "")
        words = told or "It waits; kube-scheduler has not said why."
        groups.setdefault((workload_of(pod), words), []).append(pod)
    return [_pending(pods, words, words) for (_, words), pods in groups.items()]


class _Grouping:
    """What was decided about each pod that waits, found without going through the decision for each."""

    def __init__(self, decision: ProvisioningDecision) -> None:
        self._decision = decision
        self._refused = {each.pod: each for each in decision.plan.refusals}
        self._new = {pod: place for place, node in enumerate(decision.plan.new_nodes) for pod in node.pods}
        self._old = {pod: name for name, pods in decision.plan.placed.items() for pod in pods}
        self._asked = 0

    def groups(self, pods: Iterable[Pod]) -> Iterable[PendingPod]:
        groups: dict[tuple[str, bool, str], list[Pod]] = {}
        for pod in pods:
            placed = pod.key in self._new or pod.key in self._old
            refusal = self._refused.get(pod.key)
            message = refusal.message if refusal is not None else ""
            groups.setdefault((workload_of(pod), placed, message), []).append(pod)
        for (_, placed, _), members in groups.items():
            yield self._placed(members) if placed else self._without_place(members)

    def _placed(self, pods: Sequence[Pod]) -> PendingPod:
        new = {self._new[pod.key] for pod in pods if pod.key in self._new}
        old = {self._old[pod.key] for pod in pods if pod.key in self._old}
        if len(new) + len(old) == 1:
            where = place_of(self._decision, pods[0].key)
        else:
            pools = sorted({self._decision.plan.new_nodes[place].pool for place in new})
            named = f" of NodePool {', '.join(pools)}" if pools else ""
            told = [f"{_counted(len(new), 'new node')}{named}"] * bool(new)
            told += [_counted(len(old), "existing node")] * bool(old)
            where = " and ".join(told)
        subject = "It" if len(pods) == 1 else "They"
        return _pending(pods, f"{subject} will run on {where}.", f"on {where}", placed=True)

    def _without_place(self, pods: Sequence[Pod]) -> PendingPod:
        refusal = self._refused.get(pods[0].key)
        if refusal is None or not refusal.reasons:
            self._asked += 1
            if self._asked > MOST_ASKED:
                return _pending(pods, "Not looked at.", "not looked at")
            sentence = waiting_sentence(pods[0], self._decision)
            return _pending(pods, sentence, sentence.removeprefix(NO_PLACE).removesuffix("."))
        reasons = sorted(refusal.reasons, key=_distance)
        told = [f"NodePool {each.pool}: {each.message}" for each in reasons]
        told += [
            f"NodePool {each.pool.name}: {each.obstacle}" for each in self._decision.pools if each.obstacle
        ]
        return _pending(pods, f"{NO_PLACE}{'; '.join(told)}.", _cause(reasons[0], len(told) - 1))


def _distance(reason: Reason) -> tuple[bool, bool]:
    """Sort the NodePool first that comes nearest to serving a pod."""
    return reason.code in _NOT_MEANT, _HAS_NONE in reason.message


def _cause(reason: Reason, others: int) -> str:
    message = reason.message.removeprefix(_EVERY_TYPE)
    more = f"; {_counted(others, 'other NodePool')} cannot either" if others else ""
    return f"{message} (NodePool {reason.pool}{more})"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number:,} {noun}s"


def _pending(pods: Sequence[Pod], sentence: str, cause: str, *, placed: bool = False) -> PendingPod:
    return PendingPod(
        pod=pods[0].key,
        count=len(pods),
        sentence=sentence,
        placed=placed,
        workload=workload_of(pods[0]),
        cause=cause,
    )
