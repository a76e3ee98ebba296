"""
Which of the pods that are alike has which place of a plan.

Pods of one template that are spread over domains may have each other's places. A plan holds for all of them
together; kube-scheduler places them one by one, in the order in which they came, and refuses a pod whose
domain is ahead of the others at that moment. So the first pods have places in the domains that have the
fewest, as kube-scheduler will find them. What is bought, and how many pods go where, stays as it was planned.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.labels import HOSTNAME
from karpenter.core.provisioning.nomination import PodOrigin, origin_of, spread_key
from karpenter.core.state.pod import has_dra_requirements, is_owned_by_statefulset

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from karpenter.api.pod import Pod
    from karpenter.core.scheduling.problem import Plan
    from karpenter.core.state.statenode import StateNode

_LAST: Final = datetime.max.replace(tzinfo=UTC)


class _Exchanged(Mapping[str, str]):
    """What is said of each place, by the pod that has it now; read when it is asked for, as before."""

    def __init__(self, said: Mapping[str, str], had: Mapping[str, str]) -> None:
        self._said, self._had = said, had

    def __getitem__(self, key: str) -> str:
        return self._said[self._had.get(key, key)]

    def __iter__(self) -> Iterator[str]:
        return iter(self._said)

    def __len__(self) -> int:
        return len(self._said)


def interchange(plan: Plan, nodes: Sequence[StateNode], pods: Mapping[str, Pod]) -> Plan:
    """Return a plan in which spread pods have places in the order in which kube-scheduler tries them."""
    place = {key: name for name, keys in plan.placed.items() for key in keys}
    place |= {key: node.name for node in plan.new_nodes for key in node.pods}
    groups = _alike(pod for key, pod in pods.items() if key in place)
    if not groups:
        return plan
    labels: dict[str, Mapping[str, str]] = {node.name: {HOSTNAME: node.name, **node.labels} for node in nodes}
    labels |= {node.name: {HOSTNAME: node.name, **node.labels} for node in plan.new_nodes}
    there = _running(nodes, groups.keys())
    changed: dict[str, str] = {}
    for origin, alike in groups.items():
        key = spread_key(alike[0])
        domain = {pod.key: labels.get(place[pod.key], {}).get(key, "") for pod in alike}
        changed |= _in_order(alike, domain, _by_domain(there.get(origin.owner, {}), labels, key))
    return _with_changes(plan, changed)


def _alike(pods: Iterable[Pod]) -> dict[PodOrigin, list[Pod]]:
    """Return the pods that may have each other's places, in the order in which kube-scheduler tries them."""
    found: dict[PodOrigin, list[Pod]] = {}
    for pod in pods:
        origin = origin_of(pod) if spread_key(pod) else None
        # Pods of a StatefulSet have volumes of their own, and so may be bound to zones.
        if origin is not None and not is_owned_by_statefulset(pod) and not has_dra_requirements(pod):
            found.setdefault(origin, []).append(pod)
    return {origin: sorted(alike, key=_turn) for origin, alike in found.items() if len(alike) > 1}


def _turn(pod: Pod) -> tuple[bool, datetime]:
    """Sort by when kube-scheduler sees a pod; what runs elsewhere has to be evicted first."""
    return bool(pod.spec.node_name), pod.metadata.creation_timestamp or _LAST


def _running(nodes: Iterable[StateNode], origins: Iterable[PodOrigin]) -> dict[str, Counter[str]]:
    """Return how many pods of each owner run on each node."""
    wanted = {each.owner for each in origins}
    found: dict[str, Counter[str]] = {}
    for node in nodes:
        for pod in node.pods:
            for owner in pod.metadata.owner_references:
                if owner.uid in wanted:
                    found.setdefault(owner.uid, Counter())[node.name] += 1
    return found


def _by_domain(running: Mapping[str, int], labels: Mapping[str, Mapping[str, str]], key: str) -> Counter[str]:
    found: Counter[str] = Counter()
    for name, count in running.items():
        found[labels.get(name, {}).get(key, "")] += count
    return found


def _in_order(pods: Sequence[Pod], domain: Mapping[str, str], counts: Counter[str]) -> dict[str, str]:
    """Return which pod has the place of which, so that each comes to the domain with the fewest."""
    places: dict[str, list[str]] = {}
    for pod in reversed(pods):
        places.setdefault(domain[pod.key], []).append(pod.key)
    waiting = [(counts[name], number, name) for number, name in enumerate(sorted(places))]
    heapq.heapify(waiting)
    found = {}
    for pod in pods:
        count, number, name = waiting[0]
        found[places[name].pop()] = pod.key
        if places[name]:
            heapq.heapreplace(waiting, (count + 1, number, name))
        else:
            heapq.heappop(waiting)
    return {before: after for before, after in found.items() if before != after}


def _with_changes(plan: Plan, changed: Mapping[str, str]) -> Plan:
    """Return a plan in which some pods have the places of others."""
    if not changed:
        return plan

    def renamed(keys: Iterable[str]) -> tuple[str, ...]:
        return tuple(changed.get(key, key) for key in keys)

    return msgspec.structs.replace(
        plan,
        new_nodes=tuple(msgspec.structs.replace(each, pods=renamed(each.pods)) for each in plan.new_nodes),
        placed={name: renamed(keys) for name, keys in plan.placed.items()},
        because=_Exchanged(plan.because, {after: before for before, after in changed.items()}),
    )
