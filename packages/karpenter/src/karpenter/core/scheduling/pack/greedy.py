"""
First come, first served: the packing that everything else is measured against.

Classes are placed from the largest pod down. A pod goes to the first existing node that
takes it, else to the claim with the fewest pods that does, else to a new claim of the
first pool that can serve it; if nothing helps it gives up one preference and tries again.
Pods that wait for company, or for what other pods may release, are tried again as long as
anything moves.

All pods of a class whose chances only ever shrink are placed together; a class whose
chances depend on counts goes pod by pod, but keeps what it has learned between pods.

Which free room suits a pod best: room in which less is left to nobody once the pod is there.

A machine whose memory is used up while half of its processors are free is lost to everybody, and is paid
for. So pods that want more memory than usual for their processors go where more memory than usual is free
for each processor, and the other way round; among such machines to the fullest, which are the last that
could be emptied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from karpenter.core.model.resources import CPU, MEMORY
from karpenter.core.scheduling.pack.one_by_one import OneByOne
from karpenter.core.scheduling.pack.topologygroup import distribute_evenly

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from karpenter.core.scheduling.encode.nodeclaimtemplate import Template
    from karpenter.core.scheduling.encode.pod_classes import PodClass
    from karpenter.core.scheduling.encode.preferences import PodData
    from karpenter.core.scheduling.pack.nodeclaim import ClaimState
    from karpenter.core.scheduling.pack.scheduler import Scheduler


_FEW: Final = 16
"""Up to so many pods, one at a time is quicker than working out a level."""

_TAKEN: Final = int(np.iinfo(np.int64).max)


def pack(run: Scheduler, waiting: dict[int, int]) -> dict[int, int]:
    """
    Place what can be placed; `waiting` is pods per class number.

    Returns what is left, per class number.
    """
    queue = [each for each in run.encoded.classes if waiting.get(each.number)]
    left = dict(waiting)
    while queue:
        again, moved = [], False
        for each in queue:
            if run.stop():
                run.is_complete = False
                return {n: c for n, c in left.items() if c}
            before = left[each.number]
            left[each.number] = place_class(run, each, before)
            moved |= left[each.number] < before
            if left[each.number] and (depends_on_others(run, each) or run.may_release()):
                again.append(each)
        queue = again if moved else []
    return {n: c for n, c in left.items() if c}


def depends_on_others(run: Scheduler, each: PodClass) -> bool:
    """Return whether pods of a class may get a place once other pods have theirs."""
    return each.devices or any(wish.demands.waits_for_company for wish in run.wishes[each.number])


def place_class(run: Scheduler, each: PodClass, count: int) -> int:
    """Place pods of one class; return how many are left."""
    wishes = run.wishes[each.number]
    if depends_on_others(run, each):
        return OneByOne(run, wishes).place(count)
    run.must_wait = False
    for wish in wishes:
        count = place_together(run, wish, count)
        if not count or run.must_wait:
            break
    return count


def place_together(run: Scheduler, wish: PodData, count: int) -> int:
    """Place pods whose chances only shrink; return how many are left."""
    if run.nodes.count:
        count = _onto_nodes(run, wish, count)
    if count and run.claims.count:
        count = _onto_claims(run, wish, count)
    return _onto_new(run, wish, count, run.templates) if count else 0


def _onto_nodes(run: Scheduler, wish: PodData, count: int) -> int:
    candidates = run.nodes_for(wish)
    if not len(candidates):
        return count
    most = run.nodes.room_for(candidates, wish.of.want)
    caps = wish.host_caps(0, run.nodes.count)
    if caps is not None:
        most = np.minimum(most, caps[candidates])
    if wish.of.volumes.claims or wish.of.ports:
        most = np.minimum(most, 1)
    for node, limit in zip(candidates.tolist(), most.tolist(), strict=True):
        if limit and run.fits_ports(wish, node) and run.fits_volumes(wish, node):
            taken = min(limit, count)
            run.put_on_node(wish, node, taken)
            count -= taken
            if not count:
                break
    return count


def _onto_claims(run: Scheduler, wish: PodData, count: int) -> int:
    candidates = run.claims.with_room(wish.of.want)
    caps = wish.host_caps(run.nodes.count, run.nodes.count + run.claims.count)
    if caps is not None:
        candidates = candidates[caps[candidates] > 0]
    if not len(candidates):
        return count
    single = caps is not None or wish.volumes
    if count <= _FEW or single or not _may_all_grow(run, len(candidates)):
        return _one_by_one(run, wish, count, candidates)
    return _fill_evenly(run, wish, count, candidates)


def _may_all_grow(run: Scheduler, claims: int) -> bool:
    """Return whether so many claims may become whatever they like, with nobody asked in between."""
    return not any(map(run.is_scarce, run.templates)) and all(
        run.limits_bear(template, claims) for template in run.templates
    )


def _one_by_one(run: Scheduler, wish: PodData, count: int, candidates: NDArray[np.int64]) -> int:
    order = run.claims.pods[candidates]
    while count:
        position = int(order.argmin())
        if order[position] == _TAKEN:
            return count
        claim = int(candidates[position])
        state = run.claim_way(wish, claim)
        if state is None:
            order[position] = _TAKEN
            continue
        run.put_on_claim(wish, claim, state)
        order[position] += 1
        count -= 1
    return 0


def _fill_evenly(run: Scheduler, wish: PodData, count: int, candidates: NDArray[np.int64]) -> int:
    """Fill the emptiest claims first, all at once: the same as one by one, in one pass."""
    targets, most = reachable(run, wish, candidates)
    taken = distribute_evenly(run.claims.pods[candidates], most, count)
    for position in np.flatnonzero(taken).tolist():
        target = targets[position]
        assert target is not None
        run.put_on_claim(wish, int(candidates[position]), target, int(taken[position]))
    return count - int(taken.sum())


def reachable(
    run: Scheduler, wish: PodData, candidates: NDArray[np.int64]
) -> tuple[list[ClaimState | None], NDArray[np.int64]]:
    """Return what each claim would become by taking such pods, and how many it has room for."""
    choices = run.choices(wish)
    numbers = run.claims.state[candidates]
    targets: list[ClaimState | None] = [None] * len(candidates)
    most = np.zeros(len(candidates), np.int64)
    for number in np.unique(numbers).tolist():
        ways = choices.ways(run.states.all[number])
        if not ways:
            continue
        members = np.flatnonzero(numbers == number)
        most[members] = room_for_many(run, ways[0], candidates[members], wish.of.vector)
        for position in members.tolist():
            targets[position] = ways[0]
    return targets, most


def room_for_many(
    run: Scheduler, state: ClaimState, claims: NDArray[np.int64], want: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return how many pods like this each of `claims` has room for once it is in `state`."""
    used = run.claims.used[:, claims]
    best = np.zeros(len(claims), np.int64)
    asked = want > 0
    for row in state.frontier:
        left = row[:, None] - used
        count = (left[asked] // want[asked][:, None]).min(axis=0)
        count[(left < 0).any(axis=0)] = 0
        np.maximum(best, count, out=best)
    return best


def _onto_new(run: Scheduler, wish: PodData, count: int, templates: Iterable[Template]) -> int:
    for template in templates:
        while count:
            opening = run.opening(wish, template)
            if opening is None:
                break
            count -= run.fill(wish, run.open(opening), opening.state, count)
        if not count or run.must_wait:
            break
    return count


_STEPS: Final = 2
"""How finely it is told apart how much of a pod's leaning makes up for a machine's, or adds to it."""


class ResourceRatio:
    """Puts machines in the order in which pods should ask for room on them."""

    def __init__(self, axis: Sequence[str], free: NDArray[np.int64], usual: float) -> None:
        """`free` is ``[resource, machine]``; `usual` is the memory that pods want for a unit of processor."""
        self._rows = [axis.index(CPU), axis.index(MEMORY)]
        self._most = np.maximum(free[self._rows].max(axis=1, initial=1), 1)[:, None]
        self._usual = usual

    def ordered(
        self, machines: NDArray[np.int64], free: NDArray[np.int64], want: Sequence[int]
    ) -> NDArray[np.int64]:
        """Return some machines, the best for a pod first; of equals, in the order given."""
        room = free[self._rows][:, machines]
        leaning = self._usual * room[0] - room[1]
        mine = self._usual * want[self._rows[0]] - want[self._rows[1]]
        worse = (np.abs(leaning - mine) - np.abs(leaning)) / (abs(mine) or 1.0)
        return machines[np.lexsort(((room / self._most).max(axis=0), np.round(worse * _STEPS)))]
