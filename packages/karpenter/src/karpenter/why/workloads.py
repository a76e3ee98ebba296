"""
Why a workload's pods are where they are, or have no place; and on which nodes a DaemonSet runs.

Pods of one workload are alike, so one decision answers for all of them, and a change is made to all of them.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.core.state.pod import is_terminal, is_unscheduled
from karpenter.why.answer import Explanation, counted, places_of
from karpenter.why.causes import failure_sentences
from karpenter.why.classes import missing_class
from karpenter.why.daemons import daemons_of, request_text
from karpenter.why.pods import capacity_doubt, refusal_of
from karpenter.why.refused import alike

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from karpenter.api.pod import Pod
    from karpenter.api.workloads import DaemonSet
    from karpenter.core.state.cluster import ClusterView
    from karpenter.why.answer import Inquiry

_CREATED_THROUGH: Final = {"Deployment": "ReplicaSet", "CronJob": "Job"}
"""Workloads whose pods belong to an object that they create, named ``<workload>-<suffix>``."""

_SHOWN: Final = 6


def pods_of(view: ClusterView, kind: str, key: str) -> tuple[Pod, ...]:
    """Return the pods of a workload that have not finished."""
    namespace, _, name = key.rpartition("/")
    between = _CREATED_THROUGH.get(kind, "")

    def owns(pod: Pod) -> bool:
        return any(
            (each.kind == kind and each.name == name)
            or (each.kind == between and each.name.rpartition("-")[0] == name)
            for each in pod.metadata.owner_references
        )

    return tuple(
        pod for pod in view.pods.values() if pod.namespace == namespace and not is_terminal(pod) and owns(pod)
    )


def explain_workload(inquiry: Inquiry, kind: str, key: str, pods: tuple[Pod, ...]) -> Explanation:
    """Return where the pods of a workload are and will be, or what keeps some of them from having a place."""
    name = f"{kind.lower()}/{key}"
    if not pods:
        return Explanation(object=name, placed=True, answer="It has no pods.")
    running = [pod for pod in pods if pod.spec.node_name]
    waiting = [pod for pod in pods if is_unscheduled(pod)]
    there = tuple(_running(running))
    if not waiting:
        count = "Its pod runs" if len(pods) == 1 else f"Its {len(pods)} pods run"
        return Explanation(object=name, placed=True, answer=f"{count}.", because=there)
    decision = inquiry.ask(inquiry.view)
    keys = [pod.key for pod in waiting]
    places = places_of(decision, keys)
    lost = tuple(pod for pod in waiting if pod.key not in places)
    counts = Counter(places[key] for key in keys if key in places)
    going = (*there, *(f"{counted(count, 'pod')} to {place}" for place, count in counts.most_common(_SHOWN)))
    if len(counts) > _SHOWN:
        going = (*going, f"the others to {len(counts) - _SHOWN} more places")
    if not lost:
        doubt = next(filter(None, (capacity_doubt(inquiry, pod, decision) for pod in waiting)), "")
        verb = "waits and will run" if len(waiting) == 1 else "wait and will run"
        answer = doubt or f"{counted(len(waiting), 'pod')} of {len(pods)} {verb}."
        pools = sorted({node.pool for node in decision.plan.new_nodes if places.keys() & {*node.pods}})
        missing = (missing_class(inquiry.view.pools[each], inquiry.view, inquiry.catalog) for each in pools)
        told = tuple(dict.fromkeys((*going, *failure_sentences(inquiry), *filter(None, missing))))
        return Explanation(object=name, placed=not doubt, answer=answer, because=told)
    verb = "waits and has no place" if len(lost) == 1 else "wait and have no place"
    refused = refusal_of(
        inquiry,
        name,
        alike(lost),
        decision,
        answer=f"{len(lost)} of {counted(len(pods), 'pod')} {verb}.",
    )
    return msgspec.structs.replace(refused, because=(*going, *refused.because))


def _running(pods: Iterable[Pod]) -> Iterator[str]:
    nodes = Counter(pod.spec.node_name for pod in pods)
    for node, count in nodes.most_common(_SHOWN):
        yield f"{counted(count, 'pod')} on node {node}"
    if len(nodes) > _SHOWN:
        yield f"the others on {len(nodes) - _SHOWN} more nodes"


def explain_daemon_set(inquiry: Inquiry, daemon_set: DaemonSet) -> Explanation:
    """Return where the pods of a DaemonSet run, and what they take of new nodes."""
    pods = pods_of(inquiry.view, "DaemonSet", daemon_set.key)
    because = list(_running(pod for pod in pods if pod.spec.node_name))
    for name, pool in sorted(inquiry.view.pools.items()):
        daemons = {each.key: each for each in daemons_of(pool, inquiry.view, inquiry.catalog)}
        if daemon_set.key in daemons:
            kept = request_text(daemons[daemon_set.key].requests)
            because.append(f"every new node of NodePool {name} runs it and keeps {kept} for it")
        else:
            because.append(f"new nodes of NodePool {name} do not run it: their taints or labels keep it off")
    waiting = [pod for pod in pods if is_unscheduled(pod)]
    # The DaemonSet controller binds each pod to its node, so no other node can help.
    names = ", ".join(pod.name for pod in waiting[:_SHOWN])
    answer = f"It runs on {counted(len({pod.spec.node_name for pod in pods}), 'node')}."
    if waiting:
        answer = f"{len(waiting)} of {counted(len(pods), 'pod')} have no room on their own node: {names}."
    return Explanation(
        object=f"daemonset/{daemon_set.key}", placed=not waiting, answer=answer, because=tuple(because)
    )
