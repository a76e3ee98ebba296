"""
Drift: machines that are no longer what their pool wants are exchanged, one at a time.

The price is not asked. Of dynamic pools, empty machines go first, then those that drifted
first; one whose pods have no other place is passed over. Machines of static pools are
exchanged one for one, as many at a time as the budget and the limit on nodes allow: since
replacements come first, what is on its way out counts against that limit until it is gone.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, TypeAlias

from karpenter.api.labels import NODES
from karpenter.core.disruption.command import DRIFTED, Command
from karpenter.core.lifecycle.disruption_conditions import drifted_since
from karpenter.core.model.resources import parse_resources

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from karpenter.core.disruption.budgets import Headroom
    from karpenter.core.disruption.candidates import Candidate
    from karpenter.core.disruption.simulate import Simulator
    from karpenter.core.scheduling.problem import NewNode

Obstacles: TypeAlias = dict[str, tuple[str, str]]
"""What each machine waits for, by its name: a code and a sentence."""

OUT_OF_TIME: Final = "OutOfTime"
_UNREACHED: Final = (OUT_OF_TIME, "the look at drifted machines ended before its turn; it is among the next")
_NEVER: Final = datetime.max.replace(tzinfo=UTC)


def replace_drifted(
    candidates: Sequence[Candidate],
    simulator: Simulator,
    headroom: Headroom,
    notes: Obstacles,
    *,
    stop: Callable[[], bool],
    overdue: AbstractSet[str] = frozenset(),
) -> Command | None:
    """
    Return the command for the first drifted machine that can go; note why others cannot.

    Once `stop` says so, what was not reached is noted as such; `overdue` machines were not reached before.
    """
    allowed = [candidate for candidate in candidates if headroom.allows(candidate)]
    ordered = sorted(allowed, key=lambda each: (each.name not in overdue, _order(each)))
    for place, candidate in enumerate(ordered):
        if stop():
            notes |= {each.name: _UNREACHED for each in ordered[place:]}
            break
        outcome = simulator.without([candidate], savings=False)
        if outcome.stranded:
            first = outcome.stranded[0]
            message = f"pod {first.pod} would have no other place: {first.message}"
            notes[candidate.name] = ("CannotMove", message)
            continue
        return _command(candidate, outcome.replacements, outcome.moves)
    return None


def replace_static_drifted(
    candidates: Sequence[Candidate],
    sizes: Mapping[str, int],
    headroom: Headroom,
    notes: Obstacles,
    *,
    template_node: Callable[[Candidate], NewNode | None],
    stop: Callable[[], bool],
) -> list[Command]:
    """
    Return a command for every drifted machine of a static pool that can be exchanged now.

    `sizes` counts the machines of each pool that stay. What the others wait for is noted; once `stop` says
    so, what was found by then counts.
    """
    commands: list[Command] = []
    room: dict[str, int] = {}
    for candidate in sorted(candidates, key=_order):
        pool, name = candidate.pool, candidate.name
        staying, wanted = sizes.get(pool.name, 0), pool.spec.replicas or 0
        if staying + headroom.replaced(pool.name) > wanted:
            message = f"NodePool {pool.name} has more machines than its {wanted} replicas: those go first"
            notes[name] = ("StaticCapacity", message)
            continue
        limit = parse_resources(pool.spec.limits).get(NODES)
        there = staying + headroom.going(pool.name)
        left = room.setdefault(pool.name, _PLENTY if limit is None else limit - there)
        if left <= 0:
            message = (
                f"its replacement would come first, and NodePool {pool.name} may have {limit} nodes at most"
            )
            notes[name] = ("NodeLimit", message)
            continue
        if not headroom.allows(candidate):
            continue
        if stop():
            notes[name] = _UNREACHED
            continue
        node = template_node(candidate)
        if node is None:
            message = f"nothing that NodePool {pool.name} allows can be bought to replace it"
            notes[name] = ("NoInstanceTypes", message)
            continue
        headroom.take(candidate)
        room[pool.name] = left - 1
        commands.append(_command(candidate, (node,), {}))
    return commands


_PLENTY: Final = 10**9


def _order(candidate: Candidate) -> tuple[bool, datetime, str]:
    return bool(candidate.pods), drifted_since(candidate.claim) or _NEVER, candidate.name


def _command(candidate: Candidate, replacements: tuple[NewNode, ...], moves: Mapping[str, str]) -> Command:
    return Command(
        reason=DRIFTED,
        candidates=(candidate.name,),
        replacements=replacements,
        moves=moves,
        hourly_before=candidate.price or 0.0,
        hourly_after=sum(node.purchase.price for node in replacements),
        pods_moved=len(candidate.pods),
    )
