"""
What is free on each existing node.

A node with amounts that cannot be read takes no pods and is named; its pods still count for spread and
affinity.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.base.quantity import QuantityError
from karpenter.core.model.hostportusage import host_ports
from karpenter.core.model.resources import cut, subtract, uncountable
from karpenter.core.scheduling.build.daemonset import remaining_daemon_resources
from karpenter.core.scheduling.problem import ExistingNode
from karpenter.core.state.volumeusage import volumes_by_driver

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from karpenter.core.scheduling.encode.nodeclaimtemplate import DaemonPod
    from karpenter.core.state.cluster import ClusterView
    from karpenter.core.state.statenode import StateNode


def countable_nodes(nodes: Iterable[StateNode]) -> tuple[list[StateNode], list[str]]:
    """Return the nodes whose amounts fit 64 bits, and why the others do not, one sentence each."""
    found: list[StateNode] = []
    left_out: list[str] = []
    for node in nodes:
        try:
            problem = uncountable(node.capacity) or uncountable(node.available)
        except QuantityError as error:
            problem = str(error)
        if problem:
            left_out.append(f"node {node.name} takes no pods: {problem}")
        else:
            found.append(node)
    return found, left_out


def existing_nodes(
    nodes: Iterable[StateNode], expected: Sequence[DaemonPod], view: ClusterView, quiet: frozenset[str]
) -> tuple[ExistingNode, ...]:
    """Return the nodes in the order in which they are tried: initialized ones first, then by name."""
    ordered = sorted(nodes, key=lambda node: (not node.is_initialized, node.name))
    return tuple(_existing(node, expected, view, quiet) for node in ordered)


def _existing(
    node: StateNode, expected: Sequence[DaemonPod], view: ClusterView, quiet: frozenset[str]
) -> ExistingNode:
    return ExistingNode(
        name=node.name,
        labels=node.labels,
        taints=node.taints,
        free=cut(subtract(node.available, remaining_daemon_resources(node, expected))),
        initialized=node.is_initialized,
        ports=tuple(port for pod in node.pods for port in host_ports(pod)),
        volumes=_attached(node, view),
        volume_limits=_volume_limits(node.name, view),
        quiet=node.name in quiet,
    )


def _attached(node: StateNode, view: ClusterView) -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for pod in node.pods:
        for driver, claims in volumes_by_driver(pod, view).items() if pod.spec.volumes else ():
            found[driver] = found.get(driver, frozenset()) | claims
    return found


def _volume_limits(name: str, view: ClusterView) -> Mapping[str, int]:
    csi = view.csi_nodes.get(name)
    return {
        driver.name: driver.allocatable.count
        for driver in (csi.spec.drivers if csi is not None else ())
        if driver.allocatable is not None and driver.allocatable.count is not None
    }
