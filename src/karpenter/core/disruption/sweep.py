"""
Looking at every machine at once: which could go, in which order, for the least moving.

Each machine is tried alone against arrays of what the others have free: its pods go to the
fullest machines that take them, what is left over to one new machine. The best saving per
cost of moving is taken, the arrays are brought up to date, and the next best is tried again.
A machine that has taken pods stays.

Quick and slightly cautious: pods that count for spread or affinity stay in their zone. What
comes out is a proposal; the solver itself has the last word about it.
"""

from __future__ import annotations

from collections import Counter
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from karpenter.core.model.requirements import Requirements
from karpenter.core.scheduling.encode import Encoded
from karpenter.core.scheduling.planner import entangled
from karpenter.core.scheduling.run import Run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from karpenter.core.disruption.candidates import Candidate
    from karpenter.core.disruption.headroom import Headroom
    from karpenter.core.scheduling.classes import PodClass
    from karpenter.core.scheduling.domains import Group
    from karpenter.core.scheduling.problem import Problem
    from karpenter.core.scheduling.wishes import Wish


_FEW: Final = 24
"""Destinations that are looked at before all of them are put in order."""


class Trial(NamedTuple):
    """What taking one machine away would do."""

    saving: float
    shifts: list[tuple[int, int, int]]
    """Class, destination, count."""

    @property
    def pays(self) -> bool:
        """Whether anything is saved."""
        return self.saving > 0


class Fleet:
    """Every machine of a cluster, its free room, and the pods that could move."""

    def __init__(self, problem: Problem, candidates: Sequence[Candidate]) -> None:
        self._run = Run(Encoded(problem))
        self._position = {node.name: number for number, node in enumerate(problem.nodes)}
        self._candidates = {self._position[c.name]: c for c in candidates if c.name in self._position}
        self._classes = {each.number: each for each in self._run.encoded.classes}
        homes = {pod.key: at for at, c in self._candidates.items() for pod in c.movable}
        self._load: dict[int, Counter[int]] = {at: Counter() for at in self._candidates}
        for each in self._run.encoded.classes:
            for pod in each.pods:
                if pod.key in homes:
                    self._load[homes[pod.key]][each.number] += 1
        self._open = np.ones(self._run.nodes.count, bool) & ~self._run.quiet
        self._suits: dict[int, NDArray[np.bool_]] = {}
        self._domains: dict[str, NDArray[np.object_]] = {}
        size = np.maximum(self._run.nodes.free.max(axis=1, initial=1), 1).astype(np.float64)
        self._scale = 1 / size
        self._spare = self._scale @ self._run.nodes.free

    def sweep(self, headroom: Headroom, stop: Callable[[], bool]) -> list[Candidate]:
        """Return the machines that should go, the best first."""
        queue = []
        for at, candidate in self._candidates.items():
            trial = self.trial(at)
            if trial is not None and trial.pays:
                queue.append((-trial.saving / candidate.cost, at))
        heapify(queue)
        going: list[Candidate] = []
        busy: set[int] = set()
        while queue and not stop():
            promised, at = heappop(queue)
            candidate = self._candidates[at]
            if at in busy or not headroom.allows(candidate):
                continue
            trial = self.trial(at)
            if trial is None or not trial.pays:
                continue
            value = -trial.saving / candidate.cost
            if queue and value > queue[0][0] + 1e-12 and value > promised + 1e-12:
                heappush(queue, (value, at))
                continue
            self._commit(at, trial)
            headroom.take(candidate)
            busy.update(destination for _, destination, _ in trial.shifts)
            going.append(candidate)
        return going

    def trial(self, at: int) -> Trial | None:
        """Return what taking a machine away would save, or None when its pods have no place."""
        candidate = self._candidates[at]
        shifts: list[tuple[int, int, int]] = []
        taken: dict[int, NDArray[np.int64]] = {}
        leftover: Counter[int] = Counter()
        self._open[at], was = False, self._open[at]
        for number, count in sorted(self._load[at].items(), key=lambda entry: self._rank(entry[0])):
            each = self._classes[number]
            left = self._shift(each, count, at, taken, shifts)
            if left:
                leftover[number] = left
        self._open[at] = was
        price = self._new_machine(leftover, at) if leftover else 0.0
        if price is None:
            return None
        return Trial((candidate.price or 0.0) - price, shifts)

    def _rank(self, number: int) -> tuple[int, ...]:
        return tuple(-amount for amount in self._classes[number].want)

    def _shift(
        self,
        each: PodClass,
        count: int,
        at: int,
        taken: dict[int, NDArray[np.int64]],
        shifts: list[tuple[int, int, int]],
    ) -> int:
        """Spread pods of a class over other machines; return how many found no room."""
        run = self._run
        wish = run.wishes[each.number][0]
        fine = self._open & self._suiting(wish)
        for key in entangled(run, wish):
            column = self._column(key)
            fine &= column == column[at]
        fine &= run.nodes.with_room(each.want)
        nodes = np.flatnonzero(fine)
        if not len(nodes):
            return count
        for node in self._fullest_first(nodes):
            used = taken.get(node)
            free = run.nodes.free[:, node] if used is None else run.nodes.free[:, node] - used
            most = min((f // w for f, w in zip(free.tolist(), each.want, strict=True) if w > 0), default=0)
            most = min(most, wish.host_cap(node)) if most > 0 else 0
            if most <= 0 or not run.fits_ports(wish, node) or not run.fits_volumes(wish, node):
                continue
            some = min(most, count)
            taken[node] = each.vector * some if used is None else used + each.vector * some
            shifts.append((each.number, node, some))
            count -= some
            if not count:
                break
        return count

    def _fullest_first(self, nodes: NDArray[np.int64]) -> Iterator[int]:
        """Yield nodes from the fullest on; most callers need only the first few."""
        spare = self._spare[nodes]
        if len(nodes) > _FEW:
            first = np.argpartition(spare, _FEW)[:_FEW]
            yield from nodes[first[np.argsort(spare[first], kind="stable")]].tolist()
            spare[first] = np.inf
        order = np.argsort(spare, kind="stable")
        yield from nodes[order[np.isfinite(spare[order])]].tolist()

    def _suiting(self, wish: Wish) -> NDArray[np.bool_]:
        found = self._suits.get(wish.of.number)
        if found is None:
            kinds = np.array([kind.suits(wish) for kind in self._run.kinds.all], bool)
            found = self._suits[wish.of.number] = kinds[self._run.kinds.of]
        return found

    def _column(self, key: str) -> NDArray[np.object_]:
        found = self._domains.get(key)
        if found is None:
            values = [node.labels.get(key) for node in self._run.problem.nodes]
            found = np.empty(len(values), object)
            found[:] = values
            self._domains[key] = found
        return found

    def _new_machine(self, leftover: Counter[int], at: int) -> float | None:
        """Return the price of the cheapest new machine that takes everything left over."""
        run = self._run
        total = np.zeros(len(run.encoded.axis), np.int64)
        for number, count in leftover.items():
            each = self._classes[number]
            if run.wishes[number][0].host_cap(run.nodes.count) < count:
                return None
            total += each.vector * count
        for template in run.templates:
            state = run.base(template)
            for number in leftover:
                wish = run.wishes[number][0]
                reached = run.states.step(state, wish.requirements) if wish.tolerates(template) else None
                for key in entangled(run, wish) if reached is not None else ():
                    domain = self._column(key)[at]
                    if reached is not None and domain is not None:
                        reached = run.states.step(reached, Requirements.only(key, frozenset({domain})))
                if reached is None:
                    break
                state = reached
            else:
                universe = template.universe
                roomy = np.asarray((universe.room >= total).all(axis=1), bool)
                fine = roomy[universe.owner] & universe.flags(state.bits)
                if fine.any():
                    return float(universe.price[fine].min())
        return None

    def _commit(self, at: int, trial: Trial) -> None:
        run = self._run
        self._open[at] = False
        for number, node, count in trial.shifts:
            wish = run.wishes[number][0]
            run.nodes.take(node, wish.of.vector, count)
            self._spare[node] = self._scale @ run.nodes.free[:, node]
            for group in run.counting(wish):
                self._recount(group, at, node, count)

    @staticmethod
    def _recount(group: Group, at: int, node: int, count: int) -> None:
        if group.by_host:
            group.hosts.add(at, -min(count, group.hosts[at]))
            group.hosts.add(node, count)
