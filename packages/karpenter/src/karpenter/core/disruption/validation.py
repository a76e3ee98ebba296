"""
Validation: whether a command still holds before it is carried out, and once more when its nodes would go.

Savings are validated some seconds after the decision, so that a cluster in motion is left alone. Everything
that was true must still be: the nodes may go, none of them is nominated, budgets leave room, and their pods
have the same places. Of empty nodes those that are still empty go; everything else goes whole or not at
all. The simulation takes its time in a large cluster, so a command that was simulated is validated again
against the cluster as it is then, without another simulation: what has come to its nodes meanwhile was no
part of it.

When replacements are ready, :func:`kept_at_removal` looks a last time: an annotation may have been added,
and a pod may have been on its way when the node was tainted. Such a node is untainted and stays. Budgets of
NodePools are not asked again, because they have counted the node since it was tainted. A
PodDisruptionBudget that allows nothing at the moment is waited for; only one that never allows an eviction
keeps the node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec

from karpenter.api.labels import DO_NOT_DISRUPT
from karpenter.core.disruption.budgets import Headroom
from karpenter.core.disruption.candidates import Candidate, CandidateSurvey, find_candidates
from karpenter.core.disruption.codes import DisruptionCode
from karpenter.core.disruption.command import DRIFTED, EMPTY, Command
from karpenter.core.disruption.cost import moving_cost
from karpenter.core.disruption.emptiness import empty_command, is_buffered
from karpenter.core.disruption.events import rejection_events
from karpenter.core.disruption.memory import DisruptionMemory
from karpenter.core.disruption.simulate import Simulator
from karpenter.core.effects import Effect
from karpenter.core.lifecycle.disruption_conditions import within_consolidate_after
from karpenter.core.scheduling.build.offered import overlaid_catalog
from karpenter.core.state.pdb import PdbLimits
from karpenter.core.state.pod import do_not_disrupt_reason, is_active, is_reschedulable
from karpenter.core.state.statenode import StateNode, state_nodes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from collections.abc import Set as AbstractSet
    from datetime import datetime

    from karpenter.api.pod import Pod
    from karpenter.core.disruption.settings import DisruptionContext
    from karpenter.core.model.catalog import Catalog
    from karpenter.core.scheduling.problem import NewNode, Refusal
    from karpenter.core.state.cluster import ClusterView


# A pod that is being bound to the node shows up within seconds, and would be evicted at once otherwise:
# https://github.com/kubernetes-sigs/karpenter/blob/main/pkg/controllers/disruption/validation.go
WAIT: Final = 15.0
"""Seconds between the decision and its validation."""

# Upstream decides about disruption every ten seconds: https://github.com/kubernetes-sigs/karpenter
PERIOD: Final = 10.0
"""Seconds after which disruption is decided about again."""


class ValidCommand(msgspec.Struct, frozen=True, kw_only=True):
    """The command still holds, perhaps for fewer empty nodes."""

    command: Command
    candidates: tuple[Candidate, ...]
    memory: DisruptionMemory
    """What to remember once the command has begun."""

    effects: tuple[Effect, ...] = ()
    again: float = 0.0
    """In how many seconds to decide again once the command has begun."""

    @property
    def pods(self) -> frozenset[str]:
        """The pods on its nodes, by key."""
        return frozenset(pod.key for each in self.candidates for pod in each.pods)


class InvalidCommand(msgspec.Struct, frozen=True, kw_only=True):
    """The command does not hold any more."""

    why: Literal["churn", "budget", "scheduling"]
    message: str
    memory: DisruptionMemory
    effects: tuple[Effect, ...] = ()
    again: float = PERIOD
    """In how many seconds to decide again."""


Validation: TypeAlias = ValidCommand | InvalidCommand


def validate(
    command: Command,
    view: ClusterView,
    catalog: Catalog,
    memory: DisruptionMemory,
    *,
    now: datetime,
    context: DisruptionContext,
    simulated: frozenset[str] | None = None,
) -> Validation:
    """
    Decide whether a command still holds in the cluster as it is now.

    `simulated` are the pods of a command that was simulated a moment ago; then only what has changed since is
    looked at.
    """
    found = _Check(command, view, catalog, now, context=context, simulated=simulated).validate()
    if isinstance(found, _Invalid):
        return InvalidCommand(
            why=found.why,
            message=found.message,
            memory=memory,
            effects=rejection_events(command, view, found.why),
        )
    after = memory.after(found.command, found.candidates, now, kept_for=context.settings.no_return)
    return ValidCommand(command=found.command, candidates=found.candidates, memory=after)


class _Valid(msgspec.Struct, frozen=True):
    command: Command
    candidates: tuple[Candidate, ...]


class _Invalid(msgspec.Struct, frozen=True):
    why: Literal["churn", "budget", "scheduling"]
    message: str


class _Check:
    """One command in one cluster."""

    def __init__(
        self,
        command: Command,
        view: ClusterView,
        catalog: Catalog,
        now: datetime,
        *,
        context: DisruptionContext,
        simulated: frozenset[str] | None,
    ) -> None:
        self._command, self._view, self._catalog, self._now = command, view, catalog, now
        self._context, self._simulated = context, simulated
        self._nodes, self._pdbs = state_nodes(view), PdbLimits(view)
        wanted = frozenset(command.candidates)
        self._survey = find_candidates(
            [node for node in self._nodes if node.name in wanted],
            view,
            overlaid_catalog(view, catalog, context.policy.at(now)),
            self._pdbs,
            now,
            nominated=context.nominated,
            surge=context.settings.surge,
        )

    def validate(self) -> _Valid | _Invalid:
        command = self._command
        if command.reason == EMPTY:
            return _still_empty(command, self._survey, self._headroom(), self._context.buffered)
        going = _still_there(command, self._survey)
        if isinstance(going, _Invalid):
            return going
        if self._simulated is not None:
            known = self._simulated
            new = next((pod.key for each in going for pod in each.pods if pod.key not in known), "")
            return _Invalid("churn", f"pod {new} has come since") if new else _Valid(command, going)
        return _Valid(command, going) if command.reason == DRIFTED else self._still_saves(going)

    def _still_saves(self, going: tuple[Candidate, ...]) -> _Valid | _Invalid:
        """Return whether budgets and the simulation still allow a saving."""
        command, headroom = self._command, self._headroom()
        # Budgets are checked again: a node may have become NotReady since, which counts against them:
        # https://karpenter.sh/docs/concepts/disruption/#disruption-budgets
        if len(headroom.within(going)) < len(going):
            return _Invalid("budget", headroom.obstacle(going[0]))
        if newcomer := _newcomer(command, going):
            return _Invalid("churn", f"pod {newcomer} has come since")
        problem = self._simulate(going)
        return _Invalid("scheduling", problem) if problem else _Valid(command, going)

    def _headroom(self) -> Headroom:
        return Headroom.at(self._view, self._command.reason, self._now)

    def _simulate(self, going: tuple[Candidate, ...]) -> str:
        """Return why the pods of a command would not run where it has planned; nothing if they would."""
        view, context, now, command = self._view, self._context, self._now, self._command
        simulator = Simulator(
            view,
            self._catalog,
            self._nodes,
            self._pdbs,
            now,
            movable=going,
            quiet=frozenset(
                n.name for n in self._nodes if within_consolidate_after(n.claim, view.pools.get(n.pool), now)
            ),
            options=context.options,
            policy=context.policy.at(now),
            destinations=context.destinations,
            fullest_first=context.settings.strategy == "global",
        )
        # Several replacements were packed by price, which another simulation may do otherwise at the same
        # cost; so only the places on nodes that stay are checked.
        if len(command.replacements) > 1:
            return _stranded(simulator.lost(command))
        if command.preferred:
            by_price = context.settings.strategy == "global"
            found = simulator.within(frozenset(command.preferred)).without(going, by_price=by_price)
        else:
            found = simulator.without(going)
        return _stranded(found.stranded) or _differs(command.replacements, found.replacements)


def _newcomer(command: Command, going: Sequence[Candidate]) -> str:
    """Return a pod that a command with several replacements has no place for; nothing if there is none."""
    if len(command.replacements) <= 1:
        return ""  # one replacement is simulated again, with all pods that are there
    known = {*command.moves, *(pod for node in command.replacements for pod in node.pods)}
    return next((pod.key for each in going for pod in each.movable if pod.key not in known), "")


def _stranded(refused: Sequence[Refusal]) -> str:
    return f"pod {refused[0].pod} would have no other place now: {refused[0].message}" if refused else ""


def _still_empty(
    command: Command, found: CandidateSurvey, headroom: Headroom, buffered: frozenset[str]
) -> _Valid | _Invalid:
    free = {each.name: each for each in found.candidates if each.is_empty and not each.quiet}
    empty = [
        free[name] for name in command.candidates if name in free and not is_buffered(free[name], buffered)
    ]
    if not empty:
        return _Invalid("churn", "none of the machines is empty and free to go any more")
    going = headroom.within(empty)
    if not going:
        return _Invalid("budget", headroom.obstacle(empty[0]))
    kept = msgspec.structs.replace(empty_command(going), number=command.number)
    return _Valid(kept, tuple(going))


def _still_there(command: Command, found: CandidateSurvey) -> tuple[Candidate, ...] | _Invalid:
    drifted = command.reason == DRIFTED
    usable = (*found.candidates, *(found.eventual if drifted else ()))
    by_name = {each.name: each for each in usable if drifted or _may_be_consolidated(each)}
    for name in command.candidates:
        if name in by_name:
            continue
        held = found.held.get(name)
        if held is not None and held.code == DisruptionCode.NOMINATED:
            return _Invalid("budget", f"node {name}: {held.message}")
        why = held.message if held is not None else "its pool does not let it go any more"
        return _Invalid("churn", f"node {name}: {why}")
    return tuple(by_name[name] for name in command.candidates)


def _may_be_consolidated(candidate: Candidate) -> bool:
    """Whether a node may still be consolidated, and what it costs is still known."""
    policy = candidate.pool.spec.disruption.consolidation_policy
    return not candidate.quiet and candidate.price is not None and policy != "WhenEmpty"


def _differs(before: Sequence[NewNode], after: Sequence[NewNode]) -> str:
    """Return how what would be launched now differs from what was decided; nothing if that is no matter."""
    if len(before) != len(after):
        return f"{len(after)} new nodes would be needed now, and {len(before)} were planned"
    # Prices and capacity move on. A replacement of which a type has become impossible might cost more than
    # the nodes that it replaces: https://karpenter.sh/docs/concepts/disruption/#consolidation
    possible = {name for node in after for name in node.instance_types}
    lost = sorted({name for node in before for name in node.instance_types} - possible)
    return f"instance type {lost[0]} would not do any more" if lost else ""


def kept_at_removal(
    candidates: Iterable[Candidate], reason: str, view: ClusterView, now: datetime
) -> dict[str, str]:
    """Return why nodes that were about to be removed stay after all, by name."""
    nodes, pdbs = {node.name: node for node in state_nodes(view)}, PdbLimits(view)
    chosen = [each for each in candidates if each.name in nodes]
    found = {each.name: _node_hold(nodes[each.name], each.surging, reason, pdbs, now) for each in chosen}
    return {name: why for name, why in found.items() if why}


def _node_hold(
    node: StateNode, surging: AbstractSet[str], reason: str, pdbs: PdbLimits, now: datetime
) -> str:
    if node.annotations.get(DO_NOT_DISRUPT) == "true":
        return f"the node has the annotation {DO_NOT_DISRUPT}=true now"
    if reason == EMPTY and moving_cost(pod for pod in node.pods if is_reschedulable(pod)) > 1.0:
        return "the node is not empty any more"
    if reason == DRIFTED and node.claim is not None and node.claim.spec.termination_grace_period is not None:
        return ""  # the grace period overrides pods
    # Terminating pods go by themselves.
    staying = (pod for pod in node.pods if is_active(pod))
    return next((why for pod in staying if (why := _pod_hold(pod, surging, pdbs, now))), "")


def _pod_hold(pod: Pod, surging: AbstractSet[str], pdbs: PdbLimits, now: datetime) -> str:
    if reason := do_not_disrupt_reason(pod, now):
        return f"pod {pod.key} must not be disrupted now: {reason}"
    if pod.key not in surging and pdbs.is_fully_blocked(pod, now):
        return f"pod {pod.key} can never be evicted: its PodDisruptionBudget does not allow it now"
    return ""
