"""
Consolidation: whether removing one set of candidates pays.

The pods of the set must all have a place, on nodes that stay or on new ones, and what is launched must cost
less than what is removed, whichever of the allowed instance types is launched in the end. NodePools with
the policy Balanced also score the saving against what it disrupts (:mod:`.balanced`). Which sets are tried
is decided in :mod:`.multinodeconsolidation`, :mod:`.singlenodeconsolidation` and :mod:`.global_search`.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from karpenter.api.labels import CAPACITY_TYPE, INSTANCE_TYPE, SPOT, ZONE
from karpenter.core.disruption import prices
from karpenter.core.disruption.balanced import PoolTotals, rejection, scores
from karpenter.core.disruption.codes import DisruptionCode
from karpenter.core.disruption.command import UNDERUTILIZED, Command, MoveScore, Obstacle
from karpenter.core.lifecycle.disruption_conditions import consolidate_after
from karpenter.core.scheduling.purchases import keeps_variety, only

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from karpenter.core.disruption.candidates import Candidate
    from karpenter.core.disruption.simulate import SimulationResult, Simulator
    from karpenter.core.scheduling.problem import NewNode

# A spot node that is replaced by the cheapest spot type again and again ends on the one that is interrupted
# most, so many cheaper types must remain to choose from:
# https://karpenter.sh/docs/concepts/disruption/#spot-consolidation
SPOT_CHOICE: Final = 15
"""How many cheaper spot types there must be before one spot machine replaces another."""

_FEW: Final = 24
"""Up to so many machines it is also asked whether several cheaper ones would do instead of one."""


class RefusedMove(msgspec.Struct, frozen=True):
    """Why a set of candidates stays."""

    code: DisruptionCode
    message: str


_TOO_FEW_TYPES: Final = RefusedMove(
    DisruptionCode.NO_SAVING, "too few cheaper instance types are left for minValues of the pool"
)
_SPOT_CLOSED: Final = RefusedMove(
    DisruptionCode.SPOT_TO_SPOT_DISABLED, "replacing spot by spot needs the gate SpotToSpotConsolidation"
)
_AS_GOOD: Final = RefusedMove(
    DisruptionCode.NO_SAVING, "the cheapest replacement is one of the machines that would go"
)


class _Answer(NamedTuple):
    """What a simulation says about a set of candidates, and the pods that it puts on new machines."""

    found: Command | RefusedMove
    pods: frozenset[str]


class Consolidation:
    """Decides about sets of candidates of one cluster."""

    def __init__(
        self,
        simulator: Simulator,
        totals: Mapping[str, PoolTotals],
        *,
        spot_to_spot: bool,
        most_replacements: int,
        refused: Callable[[Command, Sequence[Candidate]], Obstacle | None] = lambda _command, _going: None,
    ) -> None:
        self._simulator = simulator
        self._totals = totals
        self._spot_to_spot = spot_to_spot
        self._most = most_replacements
        self._refused = refused
        self._known: dict[tuple[tuple[str, ...], bool], _Answer] = {}
        self.rejected: dict[str, MoveScore] = {}
        """Of each NodePool with the policy Balanced, the best move that scored too little."""

    def decide(self, candidates: Sequence[Candidate]) -> Command | RefusedMove:
        """Return the command to remove these machines, or why they stay."""
        answer = self._answer(candidates, by_price=False)
        found = answer.found
        if not self._may_be_cheaper(candidates, answer):
            return found
        both = (found, self._answer(candidates, by_price=True).found)
        commands = [each for each in both if isinstance(each, Command)]
        return max(commands, key=lambda each: each.saving, default=found)  # of equal ones the first

    def decide_greedily(
        self, candidates: Sequence[Candidate]
    ) -> tuple[Command | RefusedMove, frozenset[str] | None]:
        """
        Return the decision for the fewest new machines, and the pods that would run on them.

        None instead of pods where looking for cheaper machines finds nothing else.
        """
        answer = self._answer(candidates, by_price=False)
        return answer.found, answer.pods if self._may_be_cheaper(candidates, answer) else None

    def _may_be_cheaper(self, candidates: Sequence[Candidate], answer: _Answer) -> bool:
        """Whether packing by price, which takes longer, may find more: not where one pod is launched for."""
        return self._most > 1 and len(candidates) <= _FEW and len(answer.pods) > 1 and _buys(answer.found)

    def _answer(self, candidates: Sequence[Candidate], *, by_price: bool) -> _Answer:
        """Return the answer to a question, which is simulated once: several searches ask the same."""
        asked = (tuple(candidate.name for candidate in candidates), by_price)
        if asked not in self._known:
            self._known[asked] = self._decide(candidates, by_price=by_price)
        return self._known[asked]

    def after(self, command: Command) -> Consolidation | None:
        """Return what decides about the others after a command; None when that cannot be simulated."""
        simulator = self._simulator.after(command)
        if simulator is None:
            return None
        found = copy(self)
        found._simulator, found._known = simulator, {}  # noqa: SLF001  a copy of this one
        return found

    def _decide(self, candidates: Sequence[Candidate], *, by_price: bool) -> _Answer:
        outcome = self._simulator.without(candidates, by_price=by_price)
        pods = frozenset(pod for node in outcome.replacements for pod in node.pods)
        return _Answer(self._judged(candidates, outcome), pods)

    def _judged(self, candidates: Sequence[Candidate], outcome: SimulationResult) -> Command | RefusedMove:
        if outcome.stranded:
            first = outcome.stranded[0]
            more = len(outcome.stranded) - 1
            others = f" (and {more} more)" if more else ""
            return RefusedMove(
                DisruptionCode.CANNOT_MOVE,
                f"pod {first.pod} would have no other place{others}: {first.message}",
            )
        before = sum(candidate.price or 0.0 for candidate in candidates)
        if len(outcome.replacements) > self._most:
            return RefusedMove(
                DisruptionCode.NO_SAVING, f"its pods would need {len(outcome.replacements)} new nodes"
            )
        found = self._priced(candidates, outcome.replacements, before)
        if isinstance(found, RefusedMove):
            return found
        if short := self._simulator.broken_floor(candidates, found):
            return RefusedMove(DisruptionCode.ON_DEMAND_FLOOR, short)
        command = self._balanced(candidates, _command(candidates, found, outcome, before))
        obstacle = self._refused(command, candidates) if isinstance(command, Command) else None
        return command if obstacle is None else RefusedMove(*obstacle)

    def _priced(
        self, candidates: Sequence[Candidate], replacements: Sequence[NewNode], before: float
    ) -> tuple[NewNode, ...] | RefusedMove:
        if not replacements:
            return ()
        # On-demand may be replaced by spot at any time; the rule for spot to spot holds when all are spot:
        # https://karpenter.sh/docs/concepts/disruption/#spot-consolidation
        all_spot = all(c.node.labels.get(CAPACITY_TYPE) == SPOT for c in candidates)
        spot_again = all_spot and any(prices.allows(node, SPOT) for node in replacements)
        # The cheapest spot offerings are interrupted more often: with few types to pick from,
        # replacing spot by spot would end in a chain of interruptions:
        # https://karpenter.sh/docs/concepts/disruption/#spot-consolidation
        if spot_again and not self._spot_to_spot:
            return _SPOT_CLOSED
        if len(replacements) > 1:
            return _several(replacements, before, choosy=spot_again and len(candidates) == 1)
        (node,) = replacements
        if spot_again:
            return _spot(candidates, node, before)
        return _bought_cheaper(candidates, node, before)

    def _balanced(self, candidates: Sequence[Candidate], command: Command) -> Command | RefusedMove:
        """Refuse what saves too little for the pods it moves, where a NodePool asks for that."""
        found = scores(candidates, command, self._totals)
        for score in found:
            refused = rejection(score, self._totals[score.pool])
            if refused is not None:
                known = self.rejected.get(score.pool, score)
                self.rejected[score.pool] = max(known, score, key=lambda each: each.score)
                return RefusedMove(*refused)
        return msgspec.structs.replace(command, scores=found) if found else command


def consolidation_obstacle(candidate: Candidate, resting: AbstractSet[str]) -> Obstacle | None:
    """Return the first thing that keeps a node from consolidation; `resting` NodePools are left alone."""
    pool, labels = candidate.pool.name, candidate.node.labels
    missing = next((key for key in (CAPACITY_TYPE, ZONE) if key not in labels), "")
    only_empty = candidate.pool.spec.disruption.consolidation_policy == "WhenEmpty"
    checks = (
        # A static NodePool keeps its number of nodes whatever they cost:
        # https://karpenter.sh/docs/concepts/nodepools/
        (not candidate.is_dynamic, DisruptionCode.STATIC_CAPACITY, f"NodePool {pool} is static"),
        (
            bool(missing),
            DisruptionCode.UNPRICED,
            f"the node has no label {missing}, so it has no price to compare",
        ),
        (
            candidate.price is None,
            DisruptionCode.UNPRICED,
            "no price is known for the node's instance type, zone and capacity type",
        ),
        (consolidate_after(candidate.pool) is None, DisruptionCode.CONSOLIDATE_AFTER, candidate.quiet),
        (
            only_empty and not candidate.is_empty,
            DisruptionCode.WHEN_EMPTY,
            f"the node is not empty, and NodePool {pool} consolidates WhenEmpty",
        ),
        (bool(candidate.quiet), DisruptionCode.CONSOLIDATE_AFTER, candidate.quiet),
        (
            pool in resting,
            DisruptionCode.RESTING,
            f"NodePool {pool} rests from savings: pods did not land where they were planned",
        ),
    )
    return next(((code, message) for holds, code, message in checks if holds), None)


def _buys(found: Command | RefusedMove) -> bool:
    """Return whether new machines are, or would be, bought: then others may be cheaper."""
    if isinstance(found, Command):
        return bool(found.replacements)
    return found.code in (DisruptionCode.NO_SAVING, DisruptionCode.NO_PAYBACK)


def _spot(candidates: Sequence[Candidate], node: NewNode, before: float) -> tuple[NewNode, ...] | RefusedMove:
    """Cut a spot replacement of spot machines down to cheaper types, of which one machine needs many."""
    spot = only(node, SPOT)
    found = prices.cheaper_than(spot, before) if spot is not None else None
    if found is None:
        return _no_saving(node, before)
    if not keeps_variety(found):
        return _TOO_FEW_TYPES
    if len(candidates) > 1:
        kept = _not_what_is_removed(candidates, found)
        return (kept,) if kept is not None else _no_saving(node, before)
    chosen = _choice(found)
    return chosen if isinstance(chosen, RefusedMove) else (chosen,)


def _choice(node: NewNode) -> NewNode | RefusedMove:
    """Cut what replaces one spot machine down to its cheapest types, if there are enough to choose from."""
    count = len(node.instance_types)
    if count < SPOT_CHOICE:
        return RefusedMove(
            DisruptionCode.NO_SAVING, f"only {count} spot types are cheaper, and {SPOT_CHOICE} are needed"
        )
    return prices.cheapest_types(node, max(SPOT_CHOICE, prices.types_for_variety(node)))


def _bought_cheaper(
    candidates: Sequence[Candidate], node: NewNode, before: float
) -> tuple[NewNode, ...] | RefusedMove:
    """Cut one replacement down to types that cost less than what goes, and to spot where both would do."""
    found = prices.cheaper_than(node, before)
    if found is None:
        return _no_saving(node, before)
    if not keeps_variety(found):
        return _TOO_FEW_TYPES
    kept = _not_what_is_removed(candidates, _rather_spot(found))
    return (kept,) if kept is not None else _AS_GOOD


def _rather_spot(node: NewNode) -> NewNode:
    """Buy spot only where on-demand would do as well: its price was not asked."""
    # If both capacity types are left, the provider falls back from spot to on-demand, whose price was not
    # compared.
    return only(node, SPOT) or node


def _several(
    replacements: Sequence[NewNode], before: float, *, choosy: bool
) -> tuple[NewNode, ...] | RefusedMove:
    """
    Cut every replacement down to types under which all of them together stay cheaper.

    With `choosy` spot replaces one spot machine, and each replacement needs many types, as one alone would.
    """
    total = sum(node.purchase.price for node in replacements)
    if total >= before or total <= 0:
        return RefusedMove(
            DisruptionCode.NO_SAVING, f"new nodes would cost ${total:.4f} an hour, no less than ${before:.4f}"
        )
    found = []
    for node in replacements:
        kept = prices.cheaper_than(node, node.purchase.price * before / total)
        if kept is None or not keeps_variety(kept):
            return _no_saving(node, before)
        kept = _rather_spot(kept)
        chosen = _choice(kept) if choosy and prices.allows(kept, SPOT) else kept
        if isinstance(chosen, RefusedMove):
            return chosen
        found.append(chosen)
    return tuple(found)


def _not_what_is_removed(candidates: Sequence[Candidate], node: NewNode) -> NewNode | None:
    """Leave out types as dear as a machine of theirs that would go: keeping that machine is as good."""
    # Replacing three nodes by one of the type of one of them is worse than to delete the other two:
    # https://github.com/kubernetes-sigs/karpenter/blob/main/pkg/controllers/disruption/multinodeconsolidation.go
    common = [c.price for c in candidates if c.node.labels.get(INSTANCE_TYPE) in node.instance_types]
    prices_known = [price for price in common if price is not None]
    if not prices_known:
        return node
    found = prices.cheaper_than(node, min(prices_known))
    return found if found is None or keeps_variety(found) else None


def _no_saving(node: NewNode, before: float) -> RefusedMove:
    return RefusedMove(
        DisruptionCode.NO_SAVING,
        f"no cheaper machine would do: the cheapest is {node.purchase.instance_type} "
        f"for ${node.purchase.price:.4f} an hour, and this costs ${before:.4f}",
    )


def _command(
    candidates: Sequence[Candidate],
    replacements: tuple[NewNode, ...],
    outcome: SimulationResult,
    before: float,
) -> Command:
    return Command(
        reason=UNDERUTILIZED,
        candidates=tuple(c.name for c in candidates),
        replacements=replacements,
        moves=outcome.moves,
        hourly_before=before,
        hourly_after=sum(node.purchase.price for node in replacements),
        pods_moved=sum(len(c.pods) for c in candidates),
    )
