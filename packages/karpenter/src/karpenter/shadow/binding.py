"""
Where kube-scheduler would bind pending pods, and which pod a ReplicaSet would give up.

A pod that asks for room, labels and tolerations only goes to the node with the best of kube-scheduler's
default scores: much room left, cpu and memory used alike, few pods of the same workload, no taint that
discourages it. A pod with affinity, spread constraints, volumes, ports or devices is placed by the operator's
own solver. A ReplicaSet that shrinks gives up pods that
do not run first, then those that share a node with more of its pods, then the youngest. Pure.

https://kubernetes.io/docs/reference/scheduling/config/#scheduling-plugins
https://kubernetes.io/docs/concepts/workloads/controllers/replicaset/#scaling-down-a-replicaset
"""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.labels import POD_DELETION_COST, PREFER_NO_SCHEDULE, ZONE
from karpenter.core.model.catalog import EMPTY
from karpenter.core.model.resources import CPU, MEMORY, fits, pod_requests, subtract
from karpenter.core.model.taints import tolerates
from karpenter.core.provisioning.provisioner import ProvisioningMemory, ProvisioningSettings, provision
from karpenter.core.scheduling.build.daemonset import (
    daemonset_pods,
    expected_daemons,
    remaining_daemon_resources,
)
from karpenter.core.state.pod import has_dra_requirements
from karpenter.core.state.statenode import StateNode, state_nodes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from datetime import datetime

    from karpenter.api.pod import Pod
    from karpenter.core.state.cluster import ClusterView

# What a pod counts for that asks for nothing, and the weights of scores:
# https://github.com/kubernetes/kubernetes/blob/master/pkg/scheduler/util/pod_resources.go
# https://github.com/kubernetes/kubernetes/blob/master/pkg/scheduler/apis/config/v1/default_plugins.go
_SCORED: Final = {CPU: 100, MEMORY: 200 * 2**20}
_TAINT_WEIGHT: Final = 3
_SPREAD_WEIGHT: Final = 2
_NODE_SKEW, _ZONE_SKEW = 3, 5
_BEST_SCORE: Final = 100.0
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,10}")


def bind_pods(
    view: ClusterView, pending: Iterable[Pod], now: datetime, settings: ProvisioningSettings
) -> dict[str, str]:
    """Return the node of every pending pod that fits on one that runs, by the key of the pod."""
    waiting = sorted(pending, key=lambda pod: (-(pod.spec.priority or 0), pod.key))
    ready = [
        node
        for node in state_nodes(view)
        if node.node is not None and node.is_ready and node.is_initialized and not node.is_deleting
    ]
    if not waiting or not ready:
        return {}
    daemons = expected_daemons(
        daemonset_pods(view), ignore_device_claims=settings.policy.ignore_device_claims
    ).daemons
    free = {
        node.name: subtract(node.available, remaining_daemon_resources(node, daemons))
        if node.is_managed
        else node.available
        for node in ready
    }
    found: dict[str, str] = {}
    replicas = _replicas(ready, {controller_uid(pod) for pod in waiting})
    for pod in waiting:
        if not _is_simple(pod):
            continue
        name = _best(pod, ready, free, replicas)
        if name:
            found[pod.key] = name
            free[name] = subtract(free[name], pod_requests(pod))
            replicas[controller_uid(pod), name] += 1
    others = [pod for pod in waiting if not _is_simple(pod)]
    return found | (_solved(view, ready, others, found, now=now, settings=settings) if others else {})


def least_wanted(pods: Iterable[Pod]) -> Pod:
    """Return the pod of a ReplicaSet that goes first, of at least one."""
    every = list(pods)
    neighbours = Counter(pod.spec.node_name for pod in every)
    return min(every, key=lambda pod: _worth(pod, neighbours))


def _worth(pod: Pod, neighbours: Mapping[str, int]) -> tuple[bool, bool, int, int, float, str]:
    ready = next((each for each in pod.status.conditions if each.type == "Ready"), None)
    serves = ready is not None and ready.status == "True"
    since = ready.last_transition_time if ready is not None and serves else None
    cost = pod.metadata.annotations.get(POD_DELETION_COST, "0")
    return (
        bool(pod.spec.node_name),
        serves,
        int(cost) if _INTEGER.fullmatch(cost) else 0,
        -neighbours[pod.spec.node_name],
        -since.timestamp() if since is not None else 0.0,
        pod.key,
    )


def _is_simple(pod: Pod) -> bool:
    spec = pod.spec
    ports = any(port.host_port for each in spec.containers for port in each.ports)
    claims = any(each.persistent_volume_claim or each.ephemeral for each in spec.volumes)
    return not (
        spec.affinity or spec.topology_spread_constraints or ports or claims or has_dra_requirements(pod)
    )


def controller_uid(pod: Pod) -> str:
    """Return the uid of the controller of a pod; empty if it has none."""
    return next((each.uid for each in pod.metadata.owner_references if each.controller), "")


def _replicas(nodes: Iterable[StateNode], controllers: AbstractSet[str]) -> Counter[tuple[str, str]]:
    found = ((controller_uid(pod), node.name) for node in nodes for pod in node.pods)
    return Counter(each for each in found if each[0] in controllers)


def _best(
    pod: Pod,
    nodes: Iterable[StateNode],
    free: Mapping[str, Mapping[str, int]],
    replicas: Mapping[tuple[str, str], int],
) -> str:
    """Return the node with the best sum of scores; the first of equal ones."""
    every = list(nodes)
    requests = pod_requests(pod)
    feasible = [node for node in every if fits(requests, free[node.name]) and _admits(node, pod)]
    if not feasible:
        return ""
    totals = [_room_score(requests, node, free[node.name]) for node in feasible]
    discouraged = [_discouraging(node, pod) for node in feasible]
    for at, score in enumerate(_reversed(discouraged)):
        totals[at] += _TAINT_WEIGHT * score
    # https://kubernetes.io/docs/concepts/scheduling-eviction/topology-spread-constraints/#internal-default-constraints
    if controller := controller_uid(pod):
        crowded = _crowded(controller, every, feasible, replicas)
        for at, score in enumerate(_reversed(crowded, least=min(crowded))):
            totals[at] += _SPREAD_WEIGHT * score
    return feasible[max(range(len(feasible)), key=totals.__getitem__)].name


def _room_score(requests: Mapping[str, int], node: StateNode, free: Mapping[str, int]) -> float:
    """Return the scores LeastAllocated and BalancedAllocation, together at most 200."""
    used = []
    for each, default in _SCORED.items():
        offered = node.allocatable.get(each, 0) or 1
        used.append(min(1.0, (offered - free.get(each, 0) + requests.get(each, default)) / offered))
    cpu, memory = used
    return _BEST_SCORE * (2 - cpu - memory) / 2 + _BEST_SCORE * (1 - abs(cpu - memory) / 2)


def _crowded(
    controller: str,
    every: Iterable[StateNode],
    feasible: Sequence[StateNode],
    replicas: Mapping[tuple[str, str], int],
) -> list[float]:
    zones: Counter[str] = Counter()
    for node in every:
        zones[node.labels.get(ZONE, "")] += replicas.get((controller, node.name), 0)
    by_node = math.log(len(feasible) + 2)
    by_zone = math.log(len({node.labels.get(ZONE, "") for node in feasible}) + 2)
    return [
        replicas.get((controller, node.name), 0) * by_node
        + (_NODE_SKEW - 1)
        + zones[node.labels.get(ZONE, "")] * by_zone
        + (_ZONE_SKEW - 1)
        for node in feasible
    ]


def _reversed(values: Sequence[float], *, least: float = 0.0) -> list[float]:
    """Return scores from 0 to 100, the best for the lowest of values."""
    most = max(values)
    return [_BEST_SCORE * (most + least - each) / most if most else _BEST_SCORE for each in values]


def _discouraging(node: StateNode, pod: Pod) -> int:
    assert node.node is not None
    soft = [each for each in node.node.spec.taints if each.effect == PREFER_NO_SCHEDULE]
    return sum(1 for each in soft if not tolerates(pod.spec.tolerations, [each]))


def _admits(node: StateNode, pod: Pod) -> bool:
    assert node.node is not None
    taints = [each for each in node.taints if each.effect != PREFER_NO_SCHEDULE]
    labels = node.labels
    return tolerates(pod.spec.tolerations, taints) and all(
        labels.get(key) == value for key, value in pod.spec.node_selector.items()
    )


def _solved(
    view: ClusterView,
    ready: Iterable[StateNode],
    pods: list[Pod],
    bound: Mapping[str, str],
    *,
    now: datetime,
    settings: ProvisioningSettings,
) -> dict[str, str]:
    """Return where the solver puts pods on nodes that run, after `bound` pods have taken their room."""
    wanted = {pod.key for pod in pods}
    nodes = {node.name: node.node for node in ready if node.node is not None}
    claims = {node.claim.name: node.claim for node in ready if node.claim is not None}
    moved = {key: _at(view.pods[key], name) for key, name in bound.items()}
    left = {key: pod for key, pod in view.pods.items() if pod.spec.node_name in nodes or key in wanted}
    alone = msgspec.structs.replace(
        view, nodes=nodes, claims=claims, pools={}, pods={**left, **moved}, buffers={}
    )
    plan = provision(alone, EMPTY, ProvisioningMemory(), now=now, settings=settings).plan
    return {key: name for name, keys in plan.placed.items() for key in keys if key in wanted}


def _at(pod: Pod, node: str) -> Pod:
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=node))
