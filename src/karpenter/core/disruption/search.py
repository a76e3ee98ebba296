"""
A consolidation that looks at the whole cluster: the set of machines whose going saves most.

Several proposals are made: a sweep over all machines, groups of the most wasteful machines
packed together anew, and, on small clusters, the classic prefix. Each is decided exactly by
the solver, and the one with the best balance of saving and moving wins. Whatever is found
first is valid, so the search can be stopped at any time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karpenter.core.disruption import classic
from karpenter.core.disruption.command import Command
from karpenter.core.disruption.sweep import Fleet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from karpenter.core.disruption.candidates import Candidate
    from karpenter.core.disruption.consolidation import Consolidation
    from karpenter.core.disruption.headroom import Headroom
    from karpenter.core.disruption.simulate import Simulator

_SMALL: Final = 40
"""Up to so many candidates the classic search is asked as well."""

_GROUPS: Final = (2, 3, 5, 8, 13, 21)
_MOVING: Final = 0.1
"""What moving a pod is taken to cost, as a share of what a pod costs per hour on average."""


def consolidate(
    candidates: Sequence[Candidate],
    consolidation: Consolidation,
    simulator: Simulator,
    headrooms: Callable[[], Headroom],
    stop: Callable[[], bool],
) -> Command | None:
    """Return the best command that was found."""
    pods = sum(candidate.cost for candidate in candidates)
    rate = _MOVING * sum(c.price or 0.0 for c in candidates) / pods if pods else 0.0
    best: Command | None = None
    costs = {c.name: c.cost for c in candidates}
    for found in _found(candidates, consolidation, simulator, headrooms, stop):
        if best is None or _value(found, rate, costs) > _value(best, rate, costs) + 1e-12:
            best = found
    return best


def _value(command: Command, rate: float, costs: dict[str, float]) -> float:
    return command.saving - rate * sum(costs[name] for name in command.candidates)


def _found(
    candidates: Sequence[Candidate],
    consolidation: Consolidation,
    simulator: Simulator,
    headrooms: Callable[[], Headroom],
    stop: Callable[[], bool],
) -> Iterator[Command]:
    movable = [c for c in candidates if simulator.is_movable(c)]
    if not movable:
        return
    fleet = Fleet(simulator.as_it_is(), movable)
    yield from _decided(fleet.sweep(headrooms(), stop), consolidation, stop)
    if len(movable) <= _SMALL:
        known = classic.consolidate(movable, consolidation, headrooms(), stop)
        if known is not None:
            yield known
        for candidate in sorted(movable, key=lambda c: (-c.worth, c.name)):
            if headrooms().allows(candidate) and not stop():
                yield from _decided([candidate], consolidation, stop)
    ranked = headrooms().within(sorted(movable, key=lambda c: (-c.worth, c.name)))
    for size in _GROUPS:
        if size <= len(ranked) and not stop():
            yield from _decided(ranked[:size], consolidation, stop)


def _decided(
    going: Sequence[Candidate], consolidation: Consolidation, stop: Callable[[], bool]
) -> Iterator[Command]:
    """Yield the exact decision about a set, or about the better half of it when the whole is refused."""
    some = list(going)
    while some and not stop():
        found = consolidation.decide(some)
        if isinstance(found, Command):
            yield found
            return
        some = some[: len(some) // 2]
