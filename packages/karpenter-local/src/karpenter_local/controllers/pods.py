"""
Pods as the workload controllers see them: whether they count, which goes first, how a template becomes one.

Pure: ``now`` is an argument.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from copy import deepcopy
from datetime import UTC, datetime, timedelta

from karpenter.api.pod import Pod, PodCondition
from karpenter.kube.informer import InformerEvent, InformerUpdate
from karpenter.kube.targets import Plain
from karpenter_local.controllers import plain

FINISHED = frozenset({"Succeeded", "Failed"})
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"

_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


def is_finished(pod: Pod) -> bool:
    return pod.status.phase in FINISHED


def is_leaving(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None


def is_active(pod: Pod) -> bool:
    """Say whether the pod counts towards what its workload wants."""
    return not is_finished(pod) and not is_leaving(pod)


def condition(pod: Pod, kind: str) -> PodCondition | None:
    for each in pod.status.conditions:  # a loop, since every pod of a workload is asked at every look
        if each.type == kind:
            return each
    return None


def is_ready(pod: Pod) -> bool:
    ready = condition(pod, "Ready")
    return ready is not None and ready.status == "True"


class PodPredicate:
    """
    Filter of pod events: true where one changes what controllers of workloads, budgets or volumes read.

    Of nine writes that a pod sees until it runs, most are words in its status. The informer gives one event
    to all controllers in turn, so the last answer is kept.
    """

    def __init__(self) -> None:
        self._event: InformerEvent[Pod] | None = None
        self._holds = True

    def __call__(self, event: InformerEvent[Pod]) -> bool:
        if event is not self._event:
            self._event = event
            before = event.before if isinstance(event, InformerUpdate) else None
            self._holds = before is None or _read(before) != _read(event.object)
        return self._holds


def _read(pod: Pod) -> tuple[object, ...]:
    meta = pod.metadata
    return (
        pod.status.phase,
        condition(pod, "Ready"),
        meta.deletion_timestamp,
        meta.owner_references,
        meta.labels,
        meta.finalizers,
        meta.uid,
        pod.spec,
    )


def ready_since(pod: Pod) -> datetime:
    """Return since when the pod serves; long ago if it does not say."""
    ready = condition(pod, "Ready")
    if ready is None or ready.last_transition_time is None:
        return _LONG_AGO
    return ready.last_transition_time


def is_available(pod: Pod, min_ready_seconds: int, now: datetime) -> bool:
    """Say whether the pod has served for long enough to be relied on."""
    if not is_ready(pod):
        return False
    return not min_ready_seconds or ready_since(pod) + timedelta(seconds=min_ready_seconds) <= now


def seconds_to_available(pods: Iterable[Pod], min_ready_seconds: int, now: datetime) -> float | None:
    """Return when the next pod becomes available by waiting alone; None if none does."""
    if not min_ready_seconds:
        return None
    waits = [
        (ready_since(pod) + timedelta(seconds=min_ready_seconds) - now).total_seconds()
        for pod in pods
        if is_ready(pod) and not is_available(pod, min_ready_seconds, now)
    ]
    return min(waits, default=None)


def created_at(pod: Pod) -> datetime:
    return pod.metadata.creation_timestamp or _LONG_AGO


def least_wanted_first(pods: Sequence[Pod], related: Iterable[Pod]) -> list[Pod]:
    """
    Return the pods in the order in which they are given up.

    Those that never got a node, are not running or not ready go first; then those told to be cheap; then
    those that share a node with more of their kind (`related`); then the youngest.
    """
    neighbours = Counter(pod.spec.node_name for pod in related if pod.spec.node_name)
    return sorted(pods, key=lambda pod: _worth(pod, neighbours))


def _worth(pod: Pod, neighbours: Counter[str]) -> tuple[object, ...]:
    ready = is_ready(pod)
    return (
        bool(pod.spec.node_name),
        _PHASES.get(pod.status.phase, 1),
        ready,
        _deletion_cost(pod),
        -neighbours[pod.spec.node_name],
        -ready_since(pod).timestamp() if ready and ready_since(pod) is not _LONG_AGO else 0.0,
        -max((status.restart_count for status in pod.status.container_statuses), default=0),
        -created_at(pod).timestamp() if pod.metadata.creation_timestamp else 0.0,
        pod.name,
    )


def _deletion_cost(pod: Pod) -> int:
    try:
        return int(pod.metadata.annotations.get(DELETION_COST, "0"))
    except ValueError:
        return 0


def from_template(template: Plain, owner: Plain, *, name: str = "", finalizers: Sequence[str] = ()) -> Plain:
    """Return the pod that a workload makes from its template; its name is generated unless given."""
    meta = template.get("metadata") or {}
    named = {"name": name} if name else {"generateName": f"{plain.name_of(owner)}-"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **named,
            "namespace": plain.namespace_of(owner),
            "labels": dict(meta.get("labels") or {}),
            "annotations": dict(meta.get("annotations") or {}),
            "finalizers": [*(meta.get("finalizers") or ()), *finalizers],
            "ownerReferences": [plain.reference_to(owner)],
        },
        "spec": deepcopy(template.get("spec") or {}),
    }
