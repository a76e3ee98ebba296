"""
What would happen if some machines went: the solver, asked about the cluster without them.

The cluster is taken in once; each question only leaves machines out and adds the pods that
would have to move. Pods that wait already take part, so that savings never take their place.
What cannot make a difference to those pods (machines without room for any of them, running
pods that none of them could meet) is left out of the question, which changes no answer.
"""

from __future__ import annotations

from copy import copy
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.core.disruption.company import Company
from karpenter.core.disruption.rooms import least, usual_shape
from karpenter.core.disruption.standing import Standing, filled
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
    from karpenter.core.disruption.command import Command
    from karpenter.core.model.catalog import Catalog
    from karpenter.core.scheduling.intake.intake import Policy
    from karpenter.core.scheduling.problem import Existing, Options, Problem
    from karpenter.core.state.guards import Guards
    from karpenter.core.state.nodes import StateNode
    from karpenter.core.state.view import ClusterView


_NOBODY: Final[Mapping[str, str]] = MappingProxyType({})
_EFFORT: Final = 10
"""Rounds of improvement for each question about new machines; there are many questions."""


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
        promised: Mapping[str, str] = _NOBODY,
        fullest_first: bool = False,
    ) -> None:
        """
        Take in the cluster.

        Pods that have been `promised` a place by a command under way, by key, do not look for another.
        With `fullest_first` the others look where room is left that suits them, on the fullest machines
        first, which are the last to go themselves; else by name.
        """
        leaving = evacuated(nodes, guards, now)
        pending = [*waiting(view), *(pod for pod in leaving if pod.key not in promised)]
        if policy.buffers:
            pending += virtual_pods(view)
        moving = [pod for candidate in movable for pod in candidate.movable]
        options = msgspec.structs.replace(
            options,
            packing="greedy",
            usual=usual_shape(nodes) if fullest_first else None,
            prove=False,
            reserved="fallback",
        )
        intake = assemble(
            view, catalog, nodes=nodes, pods=[*pending, *moving], options=options, policy=policy
        )
        self._turned_away = {refusal.pod: refusal for refusal in intake.turned_away}
        starting = {node.name for node in nodes if node.is_managed and not node.is_initialized}
        self._quiet, self._starting = quiet | starting, frozenset(starting)
        self._order = {candidate.name: number for number, candidate in enumerate(movable)}
        homes = {pod.key: candidate.name for candidate in movable for pod in candidate.movable}
        found = {pod.key: pod for pod in intake.problem.pods if pod.key in homes}
        staying = (Located(pod, homes[key]) for key, pod in found.items())
        arriving = ((pod, promised[pod.key]) for pod in leaving if pod.key in promised)
        ready = filled(intake.problem, arriving)
        self._standing = Standing(
            problem=msgspec.structs.replace(intake.problem, nodes=ready),
            moving=found,
            waiting=tuple(pod for pod in intake.problem.pods if pod.key not in homes),
            company=Company((*intake.problem.located, *staying), intake.problem.spread_defaults),
        )
        self._least: dict[str, Mapping[str, int]] = {}
        self._by_price = msgspec.structs.replace(
            options, packing="price", effort=min(options.effort, _EFFORT)
        )

    def as_it_is(self) -> Problem:
        """Return the cluster with every pod where it was at first, and all that could move to be placed."""
        standing = self._standing
        return msgspec.structs.replace(
            standing.problem,
            pods=tuple(standing.moving.values()),
            nodes=_quieted(standing.problem.nodes, self._quiet),
            located=standing.company.running,
            moved=frozenset(standing.moving),
        )

    def is_movable(self, candidate: Candidate) -> bool:
        """Return whether none of a machine's pods was turned away before looking for a place."""
        return not any(pod.key in self._turned_away for pod in candidate.movable)

    def after(self, command: Command) -> Simulator | None:
        """Return the cluster as it will be once a command is carried out; None when nobody can tell."""
        if not self._standing.foretells(command):
            return None
        found = copy(self)
        found._standing = self._standing.after(command)  # noqa: SLF001  one of us
        return found

    def without(
        self, candidates: Sequence[Candidate], *, savings: bool = True, by_price: bool = False
    ) -> Outcome:
        """
        Return what becomes of the pods if these machines go.

        `savings` keeps pods off quiet nodes; `by_price` looks for the cheapest new machines
        instead of the fewest.
        """
        standing, base = self._standing, self._standing.problem
        gone = {candidate.name for candidate in candidates}
        moving = frozenset(pod.key for candidate in candidates for pod in candidate.movable)
        ordered = sorted(candidates, key=lambda candidate: self._order[candidate.name])
        leaving = (standing.moving.get(pod.key) for candidate in ordered for pod in candidate.movable)
        pods = (*standing.waiting, *(pod for pod in leaving if pod is not None))
        roomy = standing.rooms.with_room(self._least_of(candidates), without=gone | standing.gone)
        problem = msgspec.structs.replace(
            base,
            pods=pods,
            nodes=_quieted([base.nodes[at] for at in roomy], self._quiet if savings else self._starting),
            places=tuple(place for place in base.places if place.name not in gone),
            located=standing.company.of(pods, but=moving, moved=standing.homes),
            moved=moving,
            options=self._by_price if by_price else base.options,
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

    def lost(self, command: Command) -> tuple[Refusal, ...]:
        """Return the pods that no longer have room on the machines that stay, as a command has foreseen."""
        standing, base = self._standing, self._standing.problem
        gone = frozenset(command.candidates)
        pods = tuple(standing.moving[key] for key in command.moves if key in standing.moving)
        problem = msgspec.structs.replace(
            base,
            pods=(*standing.waiting, *pods),
            pools=(),
            nodes=_quieted([node for node in base.nodes if node.name not in gone], self._quiet),
            places=tuple(place for place in base.places if place.name not in gone),
            located=standing.company.of(pods, but=frozenset(standing.moving)),
            moved=frozenset(command.moves),
        )
        return tuple(each for each in solve(problem).refusals if each.pod in command.moves)

    @cached_property
    def _wanted_anyway(self) -> int:
        """How many new machines the pods that wait need while every machine stays."""
        standing = self._standing
        located = standing.company.running
        problem = msgspec.structs.replace(standing.problem, pods=standing.waiting, located=located)
        return len(solve(problem).new_nodes)

    def _least_of(self, candidates: Sequence[Candidate]) -> Mapping[str, int]:
        """Return the least that any pod of a question asks for, resource by resource."""
        found = [self._least_on(candidate) for candidate in candidates if candidate.movable]
        return least([*found, *map(pod_requests, self._standing.waiting)])

    def _least_on(self, candidate: Candidate) -> Mapping[str, int]:
        if candidate.name not in self._least:
            mine = (pod for pod in candidate.movable if pod.key in self._standing.moving)
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
