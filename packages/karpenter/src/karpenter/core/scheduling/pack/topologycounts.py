"""Counts pods in their topology groups as they are placed on nodes and claims of the run."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from karpenter.core.scheduling.pack.topologygroup import HostCounts, TopologyGroup, TopologyType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karpenter.core.scheduling.pack.nodeclaim import ClaimState
    from karpenter.core.scheduling.pack.poddata import PodData
    from karpenter.core.scheduling.pack.topology import Topology
    from karpenter.core.scheduling.problem import ExistingNode


class _Effects(NamedTuple):
    """Where a pod on a claim in one state counts."""

    hosts: list[HostCounts]
    domains: list[tuple[TopologyGroup, str]]
    open: list[TopologyGroup]
    """Groups for which the claim has more than one domain left."""


class TopologyCounts:
    """
    Counts pods in their groups as they are placed.

    A pod on a claim whose zone is still open counts nowhere yet; it is counted as soon as the claim has one
    zone left. For anti-affinity it counts in every zone that the claim may still get, as upstream does.
    """

    def __init__(self, topology: Topology, nodes: Sequence[ExistingNode]) -> None:
        self._topology = topology
        self._nodes = nodes
        self._first_claim = len(nodes)
        self._groups: dict[int, tuple[TopologyGroup, ...]] = {}
        """The groups that count pods, by the number of their constraints."""

        self._pending: dict[int, dict[TopologyGroup, int]] = {}
        """Pods on claims with more than one domain left, by claim and group."""

        self._effects: dict[tuple[int, int], _Effects] = {}
        """What a pod counts for, by the number of its constraints and the state of its claim."""

    def groups(self, pod_data: PodData) -> tuple[TopologyGroup, ...]:
        constraints = pod_data.pod_class.constraints
        found = self._groups.get(constraints.number)
        if found is None:
            found = self._groups[constraints.number] = self._topology.counting(constraints)
        return found

    def on_node(self, pod_data: PodData, node: int, count: int) -> None:
        """Count pods that were put on an existing node."""
        place = self._nodes[node]
        for group in self.groups(pod_data):
            if not self._topology.counts_node(group, place):
                continue
            if group.by_host:
                group.hosts.add(node, count)
            elif group.key in place.labels:
                group.add(place.labels[group.key], count)

    def on_claim(
        self, pod_data: PodData, claim: int, state: ClaimState, count: int, *, changed: bool
    ) -> None:
        """Count pods that were put on a claim, which is now in `state`; `changed` if it was not before."""
        key = (pod_data.pod_class.constraints.number, state.number)
        effects = self._effects.get(key)
        if effects is None:
            effects = self._effects[key] = self._effects_of(pod_data, state)
        for host in effects.hosts:
            host.add(self._first_claim + claim, count)
        for group, domain in effects.domains:
            group.add(domain, count)
        if effects.open:
            waiting = self._pending.setdefault(claim, {})
            for group in effects.open:
                waiting[group] = waiting.get(group, 0) + count
        if changed and claim in self._pending:
            self._count_settled(claim, state)

    def _effects_of(self, pod_data: PodData, state: ClaimState) -> _Effects:
        found = _Effects([], [], [])
        for group in self.groups(pod_data):
            if not self._topology.counts_labels(group, state.requirements, state.template.pool.taints):
                continue
            domains = state.domains(group.key) if not group.by_host else None
            if group.by_host:
                found.hosts.append(group.hosts)
            # Until the claim is launched its zone is unknown, so anti-affinity blocks every zone that it may
            # still get.
            elif group.kind in {TopologyType.POD_ANTI_AFFINITY, TopologyType.INVERSE_ANTI_AFFINITY}:
                found.domains.extend((group, domain) for domain in domains or ())
            elif domains is not None and len(domains) == 1:
                found.domains.append((group, next(iter(domains))))
            else:
                found.open.append(group)
        return found

    def _count_settled(self, claim: int, state: ClaimState) -> None:
        """Count the pods of a claim in the groups for which it has one domain left by now."""
        waiting = self._pending[claim]
        for group in list(waiting):
            domains = state.domains(group.key)
            if domains is not None and len(domains) == 1:
                group.add(next(iter(domains)), waiting.pop(group))
