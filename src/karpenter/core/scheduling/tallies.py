"""
Counting pods where they were put, in every group that picks them.

A pod on a claim whose zone is still open counts nowhere yet; it is remembered, and counted as
soon as the claim settles. Pods that refuse company count in every zone that their claim may
still become.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.core.scheduling.domains import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karpenter.core.scheduling.domains import Group
    from karpenter.core.scheduling.problem import Existing
    from karpenter.core.scheduling.states import State
    from karpenter.core.scheduling.topology import Topology
    from karpenter.core.scheduling.wishes import Wish


class Tallies:
    """The counts of one run, as pods are placed."""

    def __init__(self, topology: Topology, nodes: Sequence[Existing]) -> None:
        self._topology = topology
        self._nodes = nodes
        self._groups: dict[int, tuple[Group, ...]] = {}
        """The groups that count pods, by the number of their manner."""

        self._pending: dict[int, dict[Group, int]] = {}
        """Pods on claims that have not settled, by claim and group."""

        self._admits: dict[tuple[int, Group], bool] = {}

    def groups(self, wish: Wish) -> tuple[Group, ...]:
        """Return the groups that count the pods of a wish."""
        manner = wish.of.manner
        found = self._groups.get(manner.number)
        if found is None:
            found = self._groups[manner.number] = self._topology.counting(manner)
        return found

    def on_node(self, wish: Wish, node: int, count: int) -> None:
        """Count pods that were put on an existing node."""
        place = self._nodes[node]
        for group in self.groups(wish):
            if not self._topology.admits_node(group, place):
                continue
            if group.by_host:
                group.hosts.add(node, count)
            elif group.key in place.labels:
                group.add(place.labels[group.key], count)

    def on_claim(self, wish: Wish, claim: int, state: State, count: int, *, changed: bool) -> None:
        """Count pods that were put on a claim, which is now in `state`; `changed` if it was not before."""
        for group in self.groups(wish):
            if not self._admitted(state, group):
                continue
            if group.by_host:
                group.hosts.add(len(self._nodes) + claim, count)
            else:
                self._count(group, claim, state, count)
        if changed and claim in self._pending:
            self._settle(claim, state)

    def _count(self, group: Group, claim: int, state: State, count: int) -> None:
        domains = state.domains(group.key)
        if group.kind in {Kind.APART, Kind.KEPT_OFF}:
            for domain in domains or ():
                group.add(domain, count)
        elif domains is not None and len(domains) == 1:
            group.add(next(iter(domains)), count)
        else:
            waiting = self._pending.setdefault(claim, {})
            waiting[group] = waiting.get(group, 0) + count

    def _settle(self, claim: int, state: State) -> None:
        """Count the pods of a claim in the groups whose domain is settled by now."""
        waiting = self._pending[claim]
        for group in list(waiting):
            domains = state.domains(group.key)
            if domains is not None and len(domains) == 1:
                group.add(next(iter(domains)), waiting.pop(group))

    def _admitted(self, state: State, group: Group) -> bool:
        key = (state.number, group)
        found = self._admits.get(key)
        if found is None:
            found = self._topology.admits(group, state.requirements, state.template.pool.taints)
            self._admits[key] = found
        return found
