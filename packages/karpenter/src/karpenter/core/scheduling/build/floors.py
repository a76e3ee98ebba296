"""Replicas of a workload that run on demand: the annotation ``karpenter.sh/on-demand-floor``."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from karpenter.api.labels import CAPACITY_TYPE, ON_DEMAND, ON_DEMAND_FLOOR, RESERVED
from karpenter.api.price_annotations import annotated_floor
from karpenter.core.state.pod import controller_of, is_active

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from karpenter.api.pod import Pod, PodSpec
    from karpenter.core.state.cluster import ClusterView
    from karpenter.core.state.statenode import StateNode


def with_workload_floors(
    pods: Sequence[Pod], view: ClusterView, nodes: Iterable[StateNode]
) -> tuple[Sequence[Pod], list[str]]:
    """
    Return the pods, of which some require on-demand nodes, and annotations that are wrong.

    The annotation ``karpenter.sh/on-demand-floor`` of pods says how many replicas of their workload run on
    demand. Those that do already count, and are the first to stay there. kube-scheduler does not know of it,
    so it holds for what is launched and moved, not for every binding.
    """
    floors: dict[tuple[str, str, str], list[Pod]] = {}
    for pod in pods:
        owner = controller_of(pod) if ON_DEMAND_FLOOR in pod.metadata.annotations else None
        if owner is not None:
            floors.setdefault((pod.namespace, owner.kind, owner.name), []).append(pod)
    if not floors:
        return pods, []
    safe = {node.name for node in nodes if node.labels.get(CAPACITY_TYPE) in {ON_DEMAND, RESERVED}}
    placing, total, there = {pod.key for pod in pods}, Counter[object](), Counter[object]()
    for pod in view.pods.values():
        owner = controller_of(pod) if is_active(pod) else None
        key = (pod.namespace, owner.kind, owner.name) if owner is not None else None
        if key in floors:
            total[key] += 1
            there[key] += pod.key not in placing and pod.spec.node_name in safe
    problems: list[str] = []
    bound: set[str] = set()
    for key, members in floors.items():
        floor, problem = annotated_floor(members[0].metadata.annotations)
        if floor is None:
            problems += [f"pod {members[0].key}: {problem}"] if problem else []
            continue
        missing = floor.nodes(max(total[key], len(members))) - there[key]
        members.sort(key=lambda pod: pod.spec.node_name not in safe)
        bound |= {pod.key for pod in members[: max(0, missing)]}
    return requiring_on_demand(pods, bound), problems


def requiring_on_demand(pods: Iterable[Pod], keys: Collection[str]) -> list[Pod]:
    """Return pods of which those with these keys require on-demand nodes, unless they say themselves what."""
    specs: dict[int, PodSpec] = {}
    return [_on_demand(pod, specs) if pod.key in keys else pod for pod in pods]


def _on_demand(pod: Pod, specs: dict[int, PodSpec]) -> Pod:
    """Return a pod that requires an on-demand node, unless it says itself what it requires."""
    if CAPACITY_TYPE in pod.spec.node_selector or _requires_capacity_type(pod.spec):
        return pod
    if id(pod.spec) not in specs:  # pods of one workload share their spec, by which they are alike
        selector = {**pod.spec.node_selector, CAPACITY_TYPE: ON_DEMAND}
        specs[id(pod.spec)] = msgspec.structs.replace(pod.spec, node_selector=selector)
    return msgspec.structs.replace(pod, spec=specs[id(pod.spec)])


def _requires_capacity_type(spec: PodSpec) -> bool:
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    terms = required.node_selector_terms if required is not None else ()
    return any(each.key == CAPACITY_TYPE for term in terms for each in term.match_expressions)
