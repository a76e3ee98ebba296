"""
The global consolidation strategy: looks at all nodes at once and returns the commands that save most.

First go nodes whose pods fit on others, as :mod:`.sweep` finds them. Then the nodes that cost most for what
they hold are removed in groups, and their pods are packed anew by price. Every group is decided exactly by
the scheduler, for the cluster as it will be after the groups before it, and is a command of its own. On
small clusters all sets are bounded that the classic search may ask about, and what may be worth more is
simulated, the most promising first. The search can be stopped at any time: what was found by then is valid.

:func:`least_cost` bounds how far savings can go: every node may stay, or be launched again, for what it
costs, others cost what the catalog says, and free room on nodes that savings do not touch costs nothing.
Topology and the sizes of single pods are left aside, so the bound may be out of reach.
"""

from __future__ import annotations

import math
from collections import Counter
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
import numpy as np

from karpenter.core.disruption.command import Command
from karpenter.core.disruption.sweep import ClusterSweep, RemovalBound, SweepResult
from karpenter.core.scheduling.encode.encode import EncodedProblem
from karpenter.core.scheduling.pack.scheduler import Scheduler
from karpenter.core.scheduling.price.bound import Item, dual_values, item_of, market

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from karpenter.core.disruption.budgets import Headroom
    from karpenter.core.disruption.candidates import Candidate
    from karpenter.core.disruption.consolidation import Consolidation, RefusedMove
    from karpenter.core.disruption.payback import LeastSaving
    from karpenter.core.disruption.simulate import Simulator
    from karpenter.core.scheduling.problem import Problem


_SMALL: Final = 12
"""Up to so many candidates all sets are looked at that the classic search may ask about."""

_TOGETHER: Final = 10
"""So many machines are taken apart and packed anew at once."""

_ROUNDING: Final = 1e-8
"""Dollars per hour that are no difference: rounding of a bound is less."""

_WHOLE: Final = 0.4
"""The share by which packing by price is taken to cost more than the bound, for one pod: no proof."""

_LIKELY: Final = 0.2
"""The same for any packing, where it is not known yet which pods machines are launched for."""

_MOST_PACKED: Final = 2
"""Sets in a row that are packed by price and are no better than the best so far, after which none is."""

_BETTER: Final = 1.05
"""How many times as much as the best so far a set must be worth to be looked at: less takes too long."""

_MOST_FAILURES: Final = 3
"""Groups in a row that are not worth it, after which the search ends."""

_ROUNDS: Final = 6
"""Groups that are looked at in one pass; what more there is waits for the next, about a smaller bill."""

_MOVING: Final = 0.1
"""What moving a pod is taken to cost, as a share of what a pod costs per hour on average."""

_ENOUGH: Final = 0.001
"""While the easy moves of a pass save such a share of the bill, the harder ones wait for a later pass."""

_POORER: Final = 0.6
"""What a group saves per pod must be at least this share of what the best group of the pass saves."""


class MoveCosts(NamedTuple):
    """What commands must save, in relation to what they move."""

    rate: float
    costs: dict[str, float]
    least: dict[str, LeastSaving]
    """What the going of each machine must save in any case."""

    def raised(self, command: Command) -> MoveCosts:
        """Return costs that reject what saves much less per pod: a later decision may find better."""
        cost = sum(self.costs[name] for name in command.candidates)
        return self._replace(rate=max(self.rate, _POORER * command.saving / cost))

    def price(self, name: str) -> float:
        """Return what a machine's going must save before it is worth it, whether or not it is replaced."""
        return max(self.rate * self.costs[name], min(self.least[name]))

    def value(self, commands: Sequence[Command]) -> float:
        return sum(each.saving - self._asked(each) for each in commands)

    def _asked(self, command: Command) -> float:
        """Return what a command must save before it is worth it."""
        least = {name: self.least[name] for name in command.candidates}
        return sum(
            max(self.rate * self.costs[name], each.exchanged if command.replacements else each.given_up)
            for name, each in least.items()
        )


def consolidate_globally(
    candidates: Sequence[Candidate],
    consolidation: Consolidation,
    simulator: Simulator,
    headroom: Headroom,
    stop: Callable[[], bool],
    *,
    least: Callable[[Candidate], LeastSaving],
) -> list[Command]:
    """
    Return the best commands that were found; they can be carried out together, in this order.

    Of each machine that goes it is asked what it must save per hour at `least`.
    """
    pods = sum(candidate.cost for candidate in candidates)
    rate = _MOVING * sum(c.price or 0.0 for c in candidates) / pods if pods else 0.0
    move_costs = MoveCosts(rate, {c.name: c.cost for c in candidates}, {c.name: least(c) for c in candidates})
    movable = [c for c in candidates if simulator.is_movable(c)]
    if not movable:
        return []
    sweep = ClusterSweep(simulator.encoded(), movable)
    goal = _Goal(RemovalBound(sweep), move_costs)
    swept = sweep.sweep(headroom, stop, move_costs.least)
    best, here = _swept(swept, consolidation, move_costs, stop, goal)
    enough = sum(each.saving for each in best) >= _ENOUGH * sum(c.price or 0.0 for c in movable)
    ranked = [] if enough else sweep.by_waste(move_costs.price)
    if len(movable) > _SMALL:
        return [*best, *_groups(ranked, best, here, headroom, move_costs=move_costs, stop=stop, goal=goal)]
    goal.beat(best)
    for found in _few(_sets(movable, ranked, headroom), consolidation, stop, goal):
        best = [found]
        goal.beat(best)
    return best


class _Goal:
    """What a command must be worth to be better than the best so far."""

    def __init__(self, bound: RemovalBound, move_costs: MoveCosts) -> None:
        self._bound = bound
        self._move_costs = move_costs
        self.least = _ROUNDING

    def beat(self, commands: Sequence[Command]) -> None:
        """Ask for more than some commands are worth."""
        self.least = _BETTER * self._move_costs.value(commands) + _ROUNDING

    def is_reached(self, command: Command) -> bool:
        """Whether a command is better than the best so far."""
        return self._move_costs.value([command]) > self.least

    def most(self, going: Sequence[Candidate], launched: Iterable[str] | None = None) -> float:
        """
        Return what the going of some machines is worth at most: an estimate.

        `launched` are the pods for which machines must be launched, where a simulation has found that.
        """
        bound = self._bound
        pods = bound.left_over(going) if launched is None else bound.classes_of(launched)
        # The more pods are packed anew, the less is lost because no machine can be bought in part.
        lost = (_LIKELY if launched is None else _WHOLE) / math.sqrt(pods.total() or 1)
        return self.paid(going) - bound.least_paid(pods) * (1 + lost)

    def limit(self, going: Sequence[Candidate]) -> float:
        """Return what the going of some machines is worth at most: less work than an estimate, and more."""
        return self.paid(going) - self._bound.least_launched(going)

    def paid(self, going: Sequence[Candidate]) -> float:
        """Return what the going of some machines is worth if nothing has to be launched."""
        # The best move that scored too little is told to users, so none may be left out.
        if any(c.pool.spec.disruption.consolidation_policy == "Balanced" for c in going):
            return float("inf")
        return sum((c.price or 0.0) - self._move_costs.price(c.name) for c in going)


def _groups(
    ranked: Sequence[Candidate],
    before: Sequence[Command],
    here: Consolidation | None,
    headroom: Headroom,
    *,
    move_costs: MoveCosts,
    stop: Callable[[], bool],
    goal: _Goal,
) -> list[Command]:
    """Return what else pays and budgets allow after some commands: the worst machines in groups."""
    commands: list[Command] = []
    headroom = headroom.after(_named(ranked, before))
    failures, rounds = 0, 0
    while here is not None and failures < _MOST_FAILURES and rounds < _ROUNDS and not stop():
        rounds += 1
        settled = {name for each in (*before, *commands) for name in (*each.candidates, *each.moves.values())}
        group = headroom.within(c for c in ranked if c.name not in settled)[:_TOGETHER]
        if not group:
            break
        some = (each for each in _halves(group) if goal.most(each) > goal.least)
        found = next(filter(None, (_worthwhile(each, here, move_costs, goal) for each in some)), None)
        if found is None:
            failures += 1
        else:
            commands.append(found)
            headroom = headroom.after(_named(group, [found]))
            move_costs = move_costs.raised(found)
            here, failures = here.after(found), 0
        ranked = ranked[ranked.index(group[-1]) + 1 :]
    return commands


def _halves(group: Sequence[Candidate]) -> list[Sequence[Candidate]]:
    """Return a group, and the worse half of it, where they hold any machine."""
    return [each for each in (group, group[: len(group) // 2]) if each]


def _swept(
    swept: SweepResult,
    consolidation: Consolidation,
    move_costs: MoveCosts,
    stop: Callable[[], bool],
    goal: _Goal,
) -> tuple[list[Command], Consolidation | None]:
    """Return what a sweep has found as commands, and what decides about the rest."""
    here: Consolidation | None = consolidation
    commands = []
    emptied = _decided(swept.emptied, consolidation, stop)
    if emptied is not None:
        commands.append(emptied)
        here = consolidation.after(emptied)
    exchanged: list[Command] = []
    for candidate in swept.exchanged:
        if here is None or stop():
            break
        found = _worthwhile([candidate], here, move_costs, goal)
        if found is not None:
            exchanged.append(found)
            here = here.after(found)
    commands += [_joined(exchanged[at : at + _TOGETHER]) for at in range(0, len(exchanged), _TOGETHER)]
    return commands, here


def _joined(commands: Sequence[Command]) -> Command:
    return msgspec.structs.replace(
        commands[0],
        candidates=tuple(name for each in commands for name in each.candidates),
        replacements=tuple(node for each in commands for node in each.replacements),
        moves={pod: node for each in commands for pod, node in each.moves.items()},
        hourly_before=sum(each.hourly_before for each in commands),
        hourly_after=sum(each.hourly_after for each in commands),
        pods_moved=sum(each.pods_moved for each in commands),
        scores=tuple(score for each in commands for score in each.scores),
    )


def _worthwhile(
    group: Sequence[Candidate], consolidation: Consolidation, move_costs: MoveCosts, goal: _Goal
) -> Command | None:
    """Return the command that removes these machines, if it is worth what it moves."""
    found, launched = consolidation.decide_greedily(group)
    worth = _worth(found, move_costs)
    if launched is not None and goal.most(group, launched) > _BETTER * worth + _ROUNDING:
        found = consolidation.decide(group)
    return found if isinstance(found, Command) and _worth(found, move_costs) > 0 else None


def _worth(found: Command | RefusedMove, move_costs: MoveCosts) -> float:
    """Return what a decision is worth; nothing where machines stay."""
    return max(move_costs.value([found]), 0.0) if isinstance(found, Command) else 0.0


def _named(candidates: Sequence[Candidate], commands: Sequence[Command]) -> list[Candidate]:
    """Return the candidates that some commands remove."""
    names = {name for each in commands for name in each.candidates}
    return [each for each in candidates if each.name in names]


def _sets(
    movable: Sequence[Candidate], wasteful: Sequence[Candidate], headroom: Headroom
) -> list[Sequence[Candidate]]:
    """Return each machine alone and the worst together, as the classic search may ask, and what is wasted."""
    ranked = sorted(movable, key=lambda c: (-c.worth, c.name))
    allowed = headroom.within(ranked)
    found: list[Sequence[Candidate]] = [[c] for c in ranked if headroom.allows(c)]
    found += [allowed[:size] for size in range(2, len(allowed) + 1)]
    groups = _halves(headroom.within(wasteful)[:_TOGETHER])
    return found + [group for group in groups if group not in found]


def _few(
    sets: Sequence[Sequence[Candidate]],
    consolidation: Consolidation,
    stop: Callable[[], bool],
    goal: _Goal,
) -> Iterator[Command]:
    """
    Yield what else can be done with a few machines.

    What may be worth most comes first, and is estimated more closely once it does; then it is simulated
    greedily. Then it is known which pods new machines must be paid for, and where that still may be better
    than the best so far, they are packed by price. What cannot be better is not simulated.
    """
    estimates = (goal.limit, goal.most)
    queue = [(-goal.paid(each), number, 0) for number, each in enumerate(sets)]
    heapify(queue)
    packed = 0
    while queue and not stop():
        worth, number, made = heappop(queue)
        if -worth <= goal.least:
            return
        going = sets[number]
        if made < len(estimates):
            heappush(queue, (max(worth, -estimates[made](going)), number, made + 1))
            continue
        found, launched = consolidation.decide_greedily(going)
        if launched is not None and packed < _MOST_PACKED and goal.most(going, launched) > goal.least:
            found = consolidation.decide(going)
            packed += 1
        if isinstance(found, Command) and goal.is_reached(found):
            packed = 0
            yield found


def _decided(
    going: Sequence[Candidate], consolidation: Consolidation, stop: Callable[[], bool]
) -> Command | None:
    """Return the exact decision about a set, or about the better half of it when the whole is refused."""
    some = list(going)
    while some and not stop():
        found = consolidation.decide(some)
        if isinstance(found, Command):
            return found
        some = some[: len(some) // 2]
    return None


def least_cost(problem: Problem, candidates: Sequence[Candidate]) -> float:
    """Return what the pods of some machines must cost at least; `problem` has every pod where it was."""
    scheduler = Scheduler(EncodedProblem(problem))
    homes = {pod.key: each.name for each in candidates for pod in each.movable}
    demand: Counter[Item] = Counter()
    held = {each.name: np.zeros(len(scheduler.encoded.axis), np.int64) for each in candidates}
    for each in scheduler.encoded.classes:
        mine = [homes[pod.key] for pod in each.pods if pod.key in homes]
        if mine:
            demand[item_of(scheduler, scheduler.pod_data[each.number])] += len(mine)
        for name in mine:
            held[name] += each.vector
    if not demand or not scheduler.templates:
        return 0.0
    there = {node.name: np.maximum(scheduler.nodes.free[:, at], 0) for at, node in enumerate(problem.nodes)}
    rooms = np.array([there[each.name] + held[each.name] for each in candidates], np.float64)
    prices = np.array([each.price or 0.0 for each in candidates])
    kept = np.unique(np.concatenate([rooms, prices[:, None]], axis=1), axis=0)
    sold = market(list(demand), list(demand.values()), scheduler.templates)
    fits = (sold.want[None] <= kept[:, None, :-1]).all(axis=2)
    both = msgspec.structs.replace(
        sold,
        room=np.concatenate([sold.room, kept[:, :-1]]),
        price=np.concatenate([sold.price, kept[:, -1]]),
        fits=np.concatenate([sold.fits, fits]),
        sources=(*sold.sources, *((-1, -1) for _ in kept)),
    )
    others = [room for name, room in there.items() if name not in held]
    free = np.sum(others, axis=0).astype(np.float64) if others else None
    return dual_values(both, free).bound
