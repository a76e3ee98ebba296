"""Which daemons every new node of a NodePool runs, and what they request."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from karpenter.core.model.requirement import RequirementError
from karpenter.core.model.resources import PODS, human_amount, merge
from karpenter.core.model.taints import tolerates
from karpenter.core.scheduling.build.daemonset import daemonset_pods, expected_daemons
from karpenter.why.options import pool_requirements

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from karpenter.api.nodepool import NodePool
    from karpenter.core.model.catalog import Catalog
    from karpenter.core.state.cluster import ClusterView


class NodeDaemon(NamedTuple):
    """A DaemonSet that new nodes of a NodePool run, by key, and what its pod requests."""

    key: str
    requests: Mapping[str, int]
    has_ports: bool = False
    """Whether it takes a port of its node."""

    def __str__(self) -> str:
        return f"{self.key} ({request_text(self.requests)})"


def daemons_of(pool: NodePool, view: ClusterView, catalog: Catalog) -> tuple[NodeDaemon, ...]:
    """Return the daemons of new nodes of a NodePool, the largest first."""
    try:
        held = pool_requirements(pool)
    except RequirementError:
        return ()
    expected = expected_daemons(daemonset_pods(view), ignore_device_claims=False)
    known, taints = catalog.label_rules.well_known, pool.spec.template.spec.taints
    found = [
        NodeDaemon(pod.key, daemon.requests, bool(daemon.ports))
        for pod, daemon in zip(expected.pods, expected.daemons, strict=True)
        if tolerates(daemon.tolerations, taints)
        and any(held.accepts(each, known) for each in daemon.alternatives)
    ]
    return tuple(sorted(found, key=lambda each: sorted(each.requests.values(), reverse=True), reverse=True))


def daemon_sentence(pool: str, daemons: Iterable[NodeDaemon]) -> str:
    """Return what daemons take of every new node of a NodePool; empty where they request nothing."""
    asking = [each for each in daemons if each.requests.keys() - {PODS}]
    if not asking:
        return ""
    total = merge(each.requests for each in asking)
    names = ", ".join(map(str, asking))
    if len(asking) == 1:
        return f"DaemonSet {names} runs on every new node of NodePool {pool}"
    return f"DaemonSets take {request_text(total)} of every new node of NodePool {pool}: {names}"


def request_text(requests: Mapping[str, int]) -> str:
    """Return requests for reading, without the one pod that each is."""
    asked = sorted(each for each in requests.items() if each[0] != PODS)
    return ", ".join(f"{name} {human_amount(name, amount)}" for name, amount in asked) or "nothing"
