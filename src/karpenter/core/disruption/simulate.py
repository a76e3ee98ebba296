"""
What would happen if some machines went: the solver, asked about the cluster without them.

The cluster is taken in once; each question only leaves machines out and adds the pods that
would have to move. Pods that wait already take part, so that savings never take their place.
What cannot make a difference to those pods (machines without room for any of them, running
pods that none of them could meet) is left out of the question, which changes no answer.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from karpenter.core.disruption.company import Company
from karpenter.core.disruption.rooms import Rooms, least
from karpenter.core.model.resources import pod_requests
from karpenter.core.scheduling.intake.buffers import virtual_pods
from karpenter.core.scheduling.intake.intake import assemble
from karpenter.core.scheduling.intake.pods import evacuated, waiting
from karpenter.core.scheduling.plan import NewNode, Plan, Refusal
from karpenter.core.scheduling.problem import Located
from karpenter.core.scheduling.solve import solve

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from karpenter.core.disruption.candidates import Candidate
    from karpenter.core.model.catalog import Catalog
    from karpenter.core.scheduling.intake.intake import Policy
    from karpenter.core.scheduling.problem import Existing, Options, Problem
    from karpenter.core.state.guards import Guards
    from karpenter.core.state.nodes import StateNode
    from karpenter.core.state.view import ClusterView


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the pods of machines that went."""

    plan: Plan
    replacements: tuple[NewNode, ...]
    """New machines that are needed because of what goes."""

    moves: dict[str, str]
    stranded: tuple[Refusal, ...]
    """Moved pods that would have no place."""


class Simulator:
    """One cluster, asked many times."""

    def __init__(
        self,
        view: ClusterView,
        catalog: Catalog,
        nodes: Sequence[StateNode],
        guards: Guards,
        now: datetime,
        *,
        movable: Sequence[Candidate],
        quiet: frozenset[str],
        options: Options,
        policy: Policy,
    ) -> None:
        pending = [*waiting(view), *evacuated(nodes, guards, now)]
        if policy.buffers:
            pending += virtual_pods(view)
        moving = [pod for candidate in movable for pod in candidate.movable]
        self._homes = {pod.key: candidate.name for candidate in movable for pod in candidate.movable}
        options = msgspec.structs.replace(options, packing="greedy", prove=False, reserved="fallback")
        intake = assemble(
            view, catalog, nodes=nodes, pods=[*pending, *moving], options=options, policy=policy
        )
        self._base = intake.problem
        self._turned_away = {refusal.pod: refusal for refusal in intake.turned_away}
        starting = {node.name for node in nodes if node.is_managed and not node.is_initialized}
        self._for_savings = _quieted(self._base.nodes, quiet | starting)
        self._for_drift = _quieted(self._base.nodes, frozenset(starting))
        self._order = {candidate.name: number for number, candidate in enumerate(movable)}
        self._moving = {pod.key: pod for pod in self._base.pods if pod.key in self._homes}
        self._waiting = tuple(pod for pod in self._base.pods if pod.key not in self._homes)
        self._staying = tuple(Located(pod, self._homes[key]) for key, pod in self._moving.items())
        self._running = (*self._base.located, *self._staying)
        self._rooms = Rooms(self._base.nodes)
        self._least: dict[str, Mapping[str, int]] = {}

    def as_it_is(self) -> Problem:
        """Return the cluster with every pod in its place, and all pods that could move as pods to place."""
        return msgspec.structs.replace(
            self._base,
            pods=tuple(self._moving.values()),
            nodes=self._for_savings,
            located=self._running,
            moved=frozenset(self._homes),
        )

    def is_movable(self, candidate: Candidate) -> bool:
        """Return whether none of a machine's pods was turned away before looking for a place."""
        return not any(pod.key in self._turned_away for pod in candidate.movable)

    @cached_property
    def _company(self) -> Company:
        return Company(self._running, self._base.spread_defaults)

    @cached_property
    def _wanted_anyway(self) -> int:
        """How many new machines the pods that wait need while every machine stays."""
        if not self._waiting:
            return 0
        problem = msgspec.structs.replace(self._base, pods=self._waiting, located=self._running)
        return len(solve(problem).new_nodes)

    def without(
        self, candidates: Sequence[Candidate], *, savings: bool = True, by_price: bool = False
    ) -> Outcome:
        """
        Return what becomes of the pods if these machines go.

        `savings` keeps pods off quiet nodes; `by_price` looks for the cheapest new machines
        instead of the fewest.
        """
        gone = {candidate.name for candidate in candidates}
        moving = frozenset(pod.key for candidate in candidates for pod in candidate.movable)
        base = self._base
        nodes = self._for_savings if savings else self._for_drift
        ordered = sorted(candidates, key=lambda candidate: self._order[candidate.name])
        leaving = (self._moving.get(pod.key) for candidate in ordered for pod in candidate.movable)
        pods = (*self._waiting, *(pod for pod in leaving if pod is not None))
        problem = msgspec.structs.replace(
            base,
            pods=pods,
            nodes=tuple(nodes[at] for at in self._rooms.with_room(self._least_of(candidates), without=gone)),
            places=tuple(place for place in base.places if place.name not in gone),
            located=self._company.of(pods, but=moving),
            moved=moving,
            options=msgspec.structs.replace(base.options, packing="price") if by_price else base.options,
        )
        plan = solve(problem)
        stranded = [refusal for refusal in plan.refusals if refusal.pod in moving]
        stranded += [self._turned_away[key] for key in sorted(moving) if key in self._turned_away]
        return Outcome(
            plan=plan,
            replacements=self._replacements(plan, moving),
            moves={pod: node for node, pods in plan.placed.items() for pod in pods if pod in moving},
            stranded=tuple(stranded),
        )

    def _least_of(self, candidates: Sequence[Candidate]) -> Mapping[str, int]:
        """Return the least that any pod of a question asks for, resource by resource."""
        found = [self._least_on(candidate) for candidate in candidates if candidate.movable]
        return least([*found, *map(pod_requests, self._waiting)])

    def _least_on(self, candidate: Candidate) -> Mapping[str, int]:
        if candidate.name not in self._least:
            mine = (pod for pod in candidate.movable if pod.key in self._moving)
            self._least[candidate.name] = least(pod_requests(pod) for pod in mine)
        return self._least[candidate.name]

    def _replacements(self, plan: Plan, moving: frozenset[str]) -> tuple[NewNode, ...]:
        """Return the new machines that are needed because of what goes."""
        mine = [node for node in plan.new_nodes if any(pod in moving for pod in node.pods)]
        others = (
            [node for node in plan.new_nodes if node not in mine] if len(mine) < len(plan.new_nodes) else []
        )
        surplus = max(0, len(others) - self._wanted_anyway) if others else 0
        others.sort(key=lambda node: -node.purchase.price)
        return (*mine, *others[:surplus])


def _quieted(nodes: Sequence[Existing], quiet: frozenset[str]) -> tuple[Existing, ...]:
    return tuple(msgspec.structs.replace(node, quiet=True) if node.name in quiet else node for node in nodes)
