"""
Where kube-scheduler would bind pending pods, among nodes that run.

A pod that asks for room, labels and tolerations only goes to the node on which the largest share of cpu and
memory is left, as kube-scheduler scores by default (LeastAllocated). A pod with affinity, spread constraints,
volumes, ports or devices is placed by the operator's own solver. Pure.

https://kubernetes.io/docs/reference/scheduling/config/#scheduling-plugins
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.core.model.catalog import EMPTY
from karpenter.core.model.resources import CPU, MEMORY, fits, pod_requests, subtract
from karpenter.core.model.taints import tolerates
from karpenter.core.provisioning.provisioner import ProvisioningMemory, provision
from karpenter.core.scheduling.build.daemonset import (
    daemonset_pods,
    expected_daemons,
    remaining_daemon_resources,
)
from karpenter.core.state.pod import has_dra_requirements
from karpenter.core.state.statenode import state_nodes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from karpenter.api.pod import Pod
    from karpenter.core.provisioning.provisioner import ProvisioningSettings
    from karpenter.core.state.cluster import ClusterView
    from karpenter.core.state.statenode import StateNode

_SCORED: Final = (CPU, MEMORY)


def bind_pods(
    view: ClusterView, pending: Iterable[Pod], now: datetime, settings: ProvisioningSettings
) -> dict[str, str]:
    """Return the node of every pending pod that fits on one that runs, by the key of the pod."""
    waiting = sorted(pending, key=lambda pod: (-(pod.spec.priority or 0), pod.key))
    ready = [node for node in state_nodes(view) if _takes_pods(node)]
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
    for pod in waiting:
        if not _is_simple(pod):
            continue
        name = _least_allocated(pod, ready, free)
        if name:
            found[pod.key] = name
            free[name] = subtract(free[name], pod_requests(pod))
    others = [pod for pod in waiting if not _is_simple(pod)]
    return found | (_solved(view, ready, others, found, now=now, settings=settings) if others else {})


def _takes_pods(node: StateNode) -> bool:
    return node.node is not None and node.is_ready and node.is_initialized and not node.is_deleting


def _is_simple(pod: Pod) -> bool:
    spec = pod.spec
    ports = any(port.host_port for each in spec.containers for port in each.ports)
    claims = any(each.persistent_volume_claim or each.ephemeral for each in spec.volumes)
    return not (
        spec.affinity or spec.topology_spread_constraints or ports or claims or has_dra_requirements(pod)
    )


def _least_allocated(pod: Pod, nodes: Iterable[StateNode], free: Mapping[str, Mapping[str, int]]) -> str:
    requests = pod_requests(pod)
    best, name = -1.0, ""
    for node in nodes:
        if not fits(requests, free[node.name]) or not _admits(node, pod):
            continue
        score = sum(
            (free[node.name].get(each, 0) - requests.get(each, 0)) / (node.allocatable.get(each, 0) or 1)
            for each in _SCORED
        )
        if score > best:
            best, name = score, node.name
    return name


def _admits(node: StateNode, pod: Pod) -> bool:
    assert node.node is not None
    taints = [each for each in node.taints if each.effect != "PreferNoSchedule"]
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
