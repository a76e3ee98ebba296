"""
A second look at a command before it is carried out: is it still right?

Savings are looked at twice, some seconds apart, so that a cluster in motion is left alone. Whatever was true
must still be: the machines may go, nobody was promised them, budgets leave room, and their pods have the same
places. Of empty machines those that are still empty go; everything else goes whole or not at all.

A last look at the machines of a command, at the moment when they would go: which of them stay after all.

Between the decision and that moment a machine is closed, but not yet the users' hands: somebody may have
forbidden to disrupt the node or a pod on it, and a pod may have been on its way when the machine was closed.
A machine that would then wait half empty for a pod that must not go is opened again instead.

Budgets of pools are not asked again: they have counted the machine since it was closed. Those of pods that
allow nothing at the moment are waited for, as ever; only one that never allows anything counts here.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec

from karpenter.api.labels import DO_NOT_DISRUPT
from karpenter.core.disruption.budgets import Headroom
from karpenter.core.disruption.candidates import Candidate, find_candidates
from karpenter.core.disruption.command import DRIFTED, EMPTY, Command
from karpenter.core.disruption.cost import moving_cost
from karpenter.core.disruption.simulate import Simulator
from karpenter.core.lifecycle.disruption_conditions import is_quiet
from karpenter.core.scheduling.build.build import overlaid_catalog
from karpenter.core.state.pdb import Guards
from karpenter.core.state.pod import is_active, protection, runs_again
from karpenter.core.state.statenode import state_nodes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from datetime import datetime

    from karpenter.api.pod import Pod
    from karpenter.core.disruption.candidates import CandidateSurvey
    from karpenter.core.model.catalog import Catalog
    from karpenter.core.scheduling.build.build import SchedulingPolicy
    from karpenter.core.scheduling.problem import NewNode, Options, Refusal
    from karpenter.core.state.statenode import StateNode
    from karpenter.core.state.view import ClusterView


WAIT: Final = 15.0
"""Seconds between the first look and the second."""


_NOBODY: Final[Mapping[str, str]] = MappingProxyType({})


class ValidCommand(msgspec.Struct, frozen=True, kw_only=True):
    """The command still holds, perhaps for fewer empty machines."""

    command: Command
    candidates: tuple[Candidate, ...]


class InvalidCommand(msgspec.Struct, frozen=True, kw_only=True):
    """The command does not hold any more."""

    why: Literal["churn", "budget", "scheduling"]
    message: str


Second: TypeAlias = ValidCommand | InvalidCommand


def confirm(
    command: Command,
    view: ClusterView,
    catalog: Catalog,
    *,
    now: datetime,
    options: Options,
    policy: SchedulingPolicy,
    nominated: frozenset[str] = frozenset(),
    buffered: frozenset[str] = frozenset(),
    promised: Mapping[str, str] = _NOBODY,
    surge: bool = False,
    fullest_first: bool = True,
) -> Second:
    """
    Look at a command again, in the cluster as it is now.

    `promised` says, by key, where pods go whose machines are leaving already; `fullest_first` in which
    order the others look for places, as at the first look.
    """
    nodes, guards = state_nodes(view), Guards(view)
    known = overlaid_catalog(view, catalog, policy)
    surveyed = find_candidates(nodes, view, known, guards, now, nominated=nominated, surge=surge)
    headroom = Headroom(nodes, view, command.reason, now)
    if command.reason == EMPTY:
        return _still_empty(command, surveyed, headroom, buffered)
    going = _still_there(command, surveyed)
    if isinstance(going, InvalidCommand):
        return going
    if command.reason == DRIFTED:
        return ValidCommand(command=command, candidates=going)
    if len(headroom.within(going)) < len(going):
        return InvalidCommand(why="budget", message=headroom.obstacle(going[0]))
    if newcomer := _newcomer(command, going):
        return InvalidCommand(why="churn", message=f"pod {newcomer} has come since")
    simulator = Simulator(
        view,
        catalog,
        nodes,
        guards,
        now,
        movable=going,
        quiet=frozenset(n.name for n in nodes if is_quiet(n.claim, view.pools.get(n.pool), now)),
        options=options,
        policy=policy,
        promised=promised,
        fullest_first=fullest_first,
    )
    if len(command.replacements) > 1:
        problem = _stranded(simulator.lost(command))
    else:
        outcome = simulator.without(going)
        problem = _stranded(outcome.stranded) or _differs(command.replacements, outcome.replacements)
    return (
        InvalidCommand(why="scheduling", message=problem)
        if problem
        else ValidCommand(command=command, candidates=going)
    )


def reconfirm(
    confirmed: ValidCommand,
    view: ClusterView,
    catalog: Catalog,
    *,
    now: datetime,
    policy: SchedulingPolicy,
    nominated: frozenset[str] = frozenset(),
    buffered: frozenset[str] = frozenset(),
    surge: bool = False,
) -> Second:
    """
    Look once more at the machines of a command alone, in the cluster as it is when the second look is over.

    That look takes its time in a large cluster; what has come to the machines meanwhile is no part of it.
    """
    command = confirmed.command
    nodes = [node for node in state_nodes(view) if node.name in command.candidates]
    known = overlaid_catalog(view, catalog, policy)
    surveyed = find_candidates(nodes, view, known, Guards(view), now, nominated=nominated, surge=surge)
    if command.reason == EMPTY:
        headroom = Headroom(state_nodes(view), view, command.reason, now)
        return _still_empty(command, surveyed, headroom, buffered)
    going = _still_there(command, surveyed)
    if isinstance(going, InvalidCommand):
        return going
    there = {pod.key for each in confirmed.candidates for pod in each.pods}
    newcomer = next((pod.key for each in going for pod in each.pods if pod.key not in there), "")
    if newcomer:
        return InvalidCommand(why="churn", message=f"pod {newcomer} has come since")
    return ValidCommand(command=command, candidates=going)


def _newcomer(command: Command, going: Sequence[Candidate]) -> str:
    """Return a pod of which a command that buys several machines has not heard; nothing if there is none."""
    if len(command.replacements) <= 1:
        return ""  # one machine is decided anew, with whoever is there
    known = {*command.moves, *(pod for node in command.replacements for pod in node.pods)}
    return next((pod.key for each in going for pod in each.movable if pod.key not in known), "")


def _stranded(refused: Sequence[Refusal]) -> str:
    return f"pod {refused[0].pod} would have no other place now: {refused[0].message}" if refused else ""


def _still_empty(
    command: Command, surveyed: CandidateSurvey, headroom: Headroom, buffered: frozenset[str]
) -> Second:
    free = {each.name: each for each in surveyed.candidates if each.is_empty and not each.quiet}
    empty = [free[name] for name in command.candidates if name in free and name not in buffered]
    if not empty:
        return InvalidCommand(why="churn", message="none of the machines is empty and free to go any more")
    going = headroom.within(empty)
    if not going:
        return InvalidCommand(why="budget", message=headroom.obstacle(empty[0]))
    kept = msgspec.structs.replace(
        command,
        candidates=tuple(each.name for each in going),
        hourly_before=sum(each.price or 0.0 for each in going),
        pods_moved=sum(len(each.pods) for each in going),
    )
    return ValidCommand(command=kept, candidates=tuple(going))


def _still_there(command: Command, surveyed: CandidateSurvey) -> tuple[Candidate, ...] | InvalidCommand:
    drifted = command.reason == DRIFTED
    usable = (*surveyed.candidates, *(surveyed.eventual if drifted else ()))
    by_name = {each.name: each for each in usable if drifted or _may_be_saved(each)}
    for name in command.candidates:
        if name in by_name:
            continue
        held = surveyed.held.get(name)
        if held is not None and held.code == "Nominated":
            return InvalidCommand(why="budget", message=f"node {name}: {held.message}")
        why = held.message if held is not None else "its pool does not let it go any more"
        return InvalidCommand(why="churn", message=f"node {name}: {why}")
    return tuple(by_name[name] for name in command.candidates)


def _may_be_saved(candidate: Candidate) -> bool:
    """Whether a machine's pool still lets it go for a saving, and what it costs is still known."""
    policy = candidate.pool.spec.disruption.consolidation_policy
    return not candidate.quiet and candidate.price is not None and policy != "WhenEmpty"


def _differs(before: Sequence[NewNode], after: Sequence[NewNode]) -> str:
    """Return how what would be launched now differs from what was decided; nothing if that is no matter."""
    if len(before) != len(after):
        return f"{len(after)} new nodes would be needed now, and {len(before)} were planned"
    possible = {name for node in after for name in node.instance_types}
    lost = sorted({name for node in before for name in node.instance_types} - possible)
    return f"instance type {lost[0]} would not do any more" if lost else ""


def kept_at_removal(
    candidates: Iterable[Candidate], reason: str, view: ClusterView, now: datetime
) -> dict[str, str]:
    """Return why machines that were about to go stay after all, by the name of their node."""
    nodes, guards = {node.name: node for node in state_nodes(view)}, Guards(view)
    chosen = [each for each in candidates if each.name in nodes]
    found = {each.name: _hold(nodes[each.name], each.surging, reason, guards, now) for each in chosen}
    return {name: why for name, why in found.items() if why}


def _hold(node: StateNode, surging: AbstractSet[str], reason: str, guards: Guards, now: datetime) -> str:
    if node.annotations.get(DO_NOT_DISRUPT) == "true":
        return f"the node has the annotation {DO_NOT_DISRUPT}=true now"
    if reason == EMPTY and moving_cost(pod for pod in node.pods if runs_again(pod)) > 1.0:
        return "the node is not empty any more"
    if reason == DRIFTED and node.claim is not None and node.claim.spec.termination_grace_period is not None:
        return ""  # the grace period ends what pods wish
    staying = (pod for pod in node.pods if is_active(pod))
    return next((why for pod in staying if (why := _wish(pod, surging, guards, now))), "")


def _wish(pod: Pod, surging: AbstractSet[str], guards: Guards, now: datetime) -> str:
    if wish := protection(pod, now):
        return f"pod {pod.key} must not be disrupted now: {wish}"
    if pod.key not in surging and guards.holds_for_good(pod, now):
        return f"pod {pod.key} can never be evicted: its PodDisruptionBudget does not allow it now"
    return ""
