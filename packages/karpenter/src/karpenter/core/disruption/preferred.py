"""
Return to preferred NodePools: pods that have fallen back to a NodePool of lower weight go back.

Weights decide where a node is launched. While the NodePool of higher weight was out of stock or at its
limits, its pods went to another one, and stay there: consolidation moves them only where that is cheaper.
Here a node is replaced when all of its pods have a place in NodePools of higher weight, on nodes that are
there or on new ones.

Weight is a preference and no price, so it is given one: going back is worth a share of what the node costs,
which is also the most by which the price may rise. With that share as a saving, the command has to pay for
the evictions as any other. It must have been possible for some minutes, and pods that went back and fell
back again stay for some hours, so that nothing moves to and fro with the stock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.labels import SPOT
from karpenter.api.price_annotations import annotated_preference
from karpenter.core.disruption import prices
from karpenter.core.disruption.churn import RETURN_HOLD, PastCommand, returned_at, undoes
from karpenter.core.disruption.codes import DisruptionCode
from karpenter.core.disruption.command import UNDERUTILIZED, Command, Obstacle
from karpenter.core.disruption.payback import Payback
from karpenter.core.scheduling.purchases import keeps_variety, only

if TYPE_CHECKING:
    from karpenter.api.nodepool import NodePool
    from karpenter.core.disruption.budgets import Headroom
    from karpenter.core.disruption.candidates import Candidate
    from karpenter.core.disruption.simulate import SimulationResult, Simulator
    from karpenter.core.scheduling.problem import NewNode, Refusal

MOST_ASKED: Final = 200
"""About so many nodes one decision asks whether their pods could go back; it goes on from there."""

_OUT_OF_STOCK: Final = frozenset(
    {
        "LimitReached",
        "NoInstanceTypeMatches",
        "NoInstanceTypes",
        "NoOfferingAvailable",
        "ReservationExhausted",
    }
)
"""What passes. A NodePool that does not suit a pod at all has not lost it by a stock-out."""


class ReturnRules(msgspec.Struct, frozen=True, kw_only=True):
    """What going back depends on, besides the cluster."""

    preferences: Mapping[str, float]
    """NodePools that pods may go back to, and what that is worth, as a share of the node's price."""

    weights: Mapping[str, int]
    payback: Payback
    past: tuple[PastCommand, ...]
    no_return: timedelta
    after: timedelta
    """For how long it must have been possible."""

    by_price: bool
    now: datetime

    def goals(self, candidate: Candidate) -> dict[str, float]:
        """Return the NodePools that the pods of a node would rather be in."""
        own = self.weights[candidate.pool.name]
        return {name: share for name, share in self.preferences.items() if self.weights[name] > own}


class ReturnSurvey(msgspec.Struct, frozen=True, kw_only=True):
    """Which nodes go, so that their pods go back, and what keeps others."""

    commands: tuple[Command, ...] = ()
    obstacles: Mapping[str, Obstacle] = {}
    returnable: Mapping[str, datetime] = {}
    """Nodes whose pods could go back, and since when."""

    asked: str = ""
    """The last node that was asked, where there was no time for all."""


def pool_weights(pools: Mapping[str, NodePool]) -> dict[str, int]:
    """Return the weight of each NodePool; none counts as 0."""
    return {name: pool.spec.weight or 0 for name, pool in pools.items()}


def preferences(pools: Mapping[str, NodePool], default: float) -> dict[str, float]:
    """Return what going back to each NodePool is worth; those to which none goes back are left out."""
    stated = {
        name: annotated_preference(pool.metadata.annotations, default)[0] for name, pool in pools.items()
    }
    return {name: share for name, share in stated.items() if share > 0}


def return_to_preferred(
    candidates: Sequence[Candidate],
    simulator: Simulator,
    headroom: Headroom,
    rules: ReturnRules,
    stop: Callable[[], bool],
    *,
    known: Mapping[str, datetime],
    asked: str = "",
) -> ReturnSurvey:
    """
    Return the commands that budgets allow, each for one node, in the order in which they are carried out.

    `known` are nodes whose pods could go back at the last look, and since when; they are asked first, then
    the others from after the one that was `asked` last.
    """
    wanted = [each for each in candidates if rules.goals(each)]
    since = {each.name: known[each.name] for each in wanted if each.name in known}
    ordered = sorted(wanted, key=lambda each: (each.name not in since, each.name <= asked, each.name))
    commands: list[Command] = []
    obstacles: dict[str, Obstacle] = {}
    places: dict[frozenset[str], Simulator] = {}
    here: Simulator | None = simulator
    for number, candidate in enumerate(ordered):
        if here is None or stop() or number >= MOST_ASKED:
            break
        asked = candidate.name
        if not headroom.allows(candidate):
            continue
        goals = rules.goals(candidate)
        names = frozenset(goals)
        if names not in places:
            places[names] = here.within(names)
        found = _decided(candidate, goals, places[names], rules)
        if not isinstance(found, Command):
            since.pop(candidate.name, None)
            if found is not None:
                obstacles[candidate.name] = found
            continue
        due = since.setdefault(candidate.name, rules.now) + rules.after
        if due > rules.now:
            obstacles[candidate.name] = _pending(found, due)
            continue
        commands.append(found)
        headroom = headroom.after([candidate])
        here, places = here.after(found), {}
    else:
        asked = ""
    return ReturnSurvey(commands=tuple(commands), obstacles=obstacles, returnable=since, asked=asked)


def _pending(command: Command, due: datetime) -> Obstacle:
    pools = command.destinations
    message = f"its pods can go back to NodePool {pools}, and do so at {due:%H:%M:%S} UTC if that stays so"
    return DisruptionCode.RETURN_PENDING, message


def _decided(
    candidate: Candidate, goals: Mapping[str, float], simulator: Simulator, rules: ReturnRules
) -> Command | Obstacle | None:
    """Return the command by which pods go back, or why they stay; None where NodePools do not suit them."""
    before = returned_at(candidate, rules.past, rules.now)
    if before is not None:
        until = f"{before + RETURN_HOLD:%H:%M} UTC"
        message = f"its pods went back at {before:%H:%M} UTC and fell back again; they stay until {until}"
        return DisruptionCode.WOULD_UNDO, message
    outcome = simulator.without([candidate])
    if outcome.stranded:
        return _without_place(outcome.stranded[0], goals)
    if rules.by_price:
        outcome = simulator.without([candidate], by_price=True)
    found = _command(candidate, goals, outcome, simulator)
    return _worthwhile(found, candidate, rules) if isinstance(found, Command) else found


def _worthwhile(command: Command, candidate: Candidate, rules: ReturnRules) -> Command | Obstacle:
    """Return a command that pays for what it moves and does not undo another, or why it does not."""
    if not rules.payback.earns(command, [candidate]):
        worth, price = command.saving + command.preference, rules.payback.price(command, [candidate])
        going = f"going back to NodePool {command.destinations} is worth ${worth:.4f} an hour"
        return DisruptionCode.NO_PAYBACK, f"{going}, which does not pay soon enough for moving (${price:.4f})"
    if undoes(command, [candidate], rules.past, rules.now, within=rules.no_return):
        message = "going back would undo a command that was carried out a short while ago"
        return DisruptionCode.WOULD_UNDO, message
    return command


def _without_place(refusal: Refusal, goals: Mapping[str, float]) -> Obstacle | None:
    if not any(reason.code in _OUT_OF_STOCK for reason in refusal.reasons):
        return None
    pools = " or ".join(sorted(goals))
    place = f"pod {refusal.pod} would have no place there: {refusal.message}"
    return DisruptionCode.CANNOT_RETURN, f"its pods cannot go back to NodePool {pools}: {place}"


def _command(
    candidate: Candidate, goals: Mapping[str, float], outcome: SimulationResult, simulator: Simulator
) -> Command | Obstacle:
    before = candidate.price or 0.0
    pools = {node.pool for node in outcome.replacements} or goals.keys()
    share = min(goals[name] for name in pools)
    found = _bought(outcome.replacements, before * (1 + share))
    if found is None:
        total = sum(node.purchase.price for node in outcome.replacements)
        going = f"going back to NodePool {' and '.join(sorted(pools))} costs ${total:.4f} an hour"
        allowed = f"this costs ${before:.4f}, and less than {share:.0%} more is allowed"
        return DisruptionCode.CANNOT_RETURN, f"{going}; {allowed}"
    if short := simulator.broken_floor([candidate], found):
        return DisruptionCode.ON_DEMAND_FLOOR, short
    return Command(
        reason=UNDERUTILIZED,
        candidates=(candidate.name,),
        replacements=found,
        moves=outcome.moves,
        hourly_before=before,
        hourly_after=sum(node.purchase.price for node in found),
        pods_moved=len(candidate.pods),
        preferred=tuple(sorted(goals)),
        preference=share * before,
    )


def _bought(replacements: Sequence[NewNode], limit: float) -> tuple[NewNode, ...] | None:
    """Cut replacements down to types under which all of them together cost less than `limit`."""
    spare = limit - sum(node.purchase.price for node in replacements)
    found = []
    for node in replacements:
        kept = prices.cheaper_than(node, node.purchase.price + spare / len(replacements))
        # Where spot is left, on-demand must not be: its price was not compared.
        kept = kept and (only(kept, SPOT) or kept)
        if kept is None or not keeps_variety(kept):
            return None
        found.append(kept)
    return tuple(found)
