"""
Existing nodes as the solver sees them: their labels and taints, and what is left on each.

A node whose amounts cannot be read takes no pods, and is named; where its pods are still
counts for spread and affinity.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.base.quantity import QuantityError
from karpenter.core.model.ports import host_ports
from karpenter.core.model.resources import subtract
from karpenter.core.scheduling.intake.amounts import cut, uncountable
from karpenter.core.scheduling.intake.daemons import still_to_come
from karpenter.core.scheduling.problem import Existing
from karpenter.core.state.volumes import attached

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from karpenter.core.scheduling.templates import Daemon
    from karpenter.core.state.nodes import StateNode
    from karpenter.core.state.view import ClusterView


def countable(nodes: Iterable[StateNode]) -> tuple[list[StateNode], list[str]]:
    """Return the nodes whose amounts can be counted, and why the others' cannot, one sentence each."""
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


def existing(
    nodes: Iterable[StateNode], expected: Sequence[Daemon], view: ClusterView, quiet: frozenset[str]
) -> tuple[Existing, ...]:
    """Return the nodes in the order in which they are tried: complete ones first, then by name."""
    ordered = sorted(nodes, key=lambda node: (not node.is_initialized, node.name))
    return tuple(_existing(node, expected, view, quiet) for node in ordered)


def _existing(
    node: StateNode, expected: Sequence[Daemon], view: ClusterView, quiet: frozenset[str]
) -> Existing:
    return Existing(
        name=node.name,
        labels=node.labels,
        taints=node.taints,
        free=cut(subtract(node.available, still_to_come(node, expected))),
        initialized=node.is_initialized,
        ports=tuple(port for pod in node.pods for port in host_ports(pod)),
        volumes=_attached(node, view),
        volume_limits=_volume_limits(node.name, view),
        quiet=node.name in quiet,
    )


def _attached(node: StateNode, view: ClusterView) -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for pod in node.pods:
        for driver, claims in attached(pod, view).items() if pod.spec.volumes else ():
            found[driver] = found.get(driver, frozenset()) | claims
    return found


def _volume_limits(name: str, view: ClusterView) -> Mapping[str, int]:
    csi = view.csi_nodes.get(name)
    return {
        driver.name: driver.allocatable.count
        for driver in (csi.spec.drivers if csi is not None else ())
        if driver.allocatable is not None and driver.allocatable.count is not None
    }
