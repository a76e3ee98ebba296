"""
Greedy packing: first fit, from the largest pods down. Packing by price starts from its result.

Classes are placed in the order of their cpu and memory requests; those with so many alternatives and
preferences that they are costly to place come after all others, so that a run that is stopped has placed
what is easy. A pod goes to the first existing node that
takes it, else to the claim with the fewest pods that does, else to a new claim of the first NodePool that
can serve it; if nothing takes it, one preference is relaxed and it is tried again. Pods that depend on
other pods (affinity, devices) or on what claims may release (reservations, limits) are tried again as long
as anything is placed.

All pods of a class are placed together where a bin that refuses one of them refuses all; a class that
depends on topology counts goes pod by pod (:mod:`.one_by_one`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from karpenter.core.scheduling.pack.one_by_one import (
    ClaimSearch,
    OneByOne,
    distribute_evenly,
    room_for_many,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from karpenter.core.scheduling.encode.encode import PodClass
    from karpenter.core.scheduling.encode.nodeclaimtemplate import Template
    from karpenter.core.scheduling.pack.nodeclaim import ClaimState
    from karpenter.core.scheduling.pack.poddata import PodData
    from karpenter.core.scheduling.pack.scheduler import Scheduler


_FEW: Final = 16
"""Up to this many pods, one at a time is faster than distributing them."""

_CHEAP: Final = 16
"""With more relaxations and topology terms than this, pods are placed after those with fewer."""

_TAKEN: Final = int(np.iinfo(np.int64).max)


def pack(scheduler: Scheduler, waiting: dict[int, int]) -> dict[int, int]:
    """
    Place what can be placed; `waiting` is pods per class number.

    Returns what is left, per class number.
    """
    # Upstream pops pods from a queue and pushes those that fail to its end until a whole round places none:
    # https://github.com/kubernetes-sigs/karpenter/blob/main/pkg/controllers/provisioning/scheduling/queue.go
    queue = [each for each in scheduler.encoded.classes if waiting.get(each.number)]
    queue.sort(key=lambda each: _is_costly(scheduler, each))
    left = dict(waiting)
    while queue:
        again, moved = [], False
        for each in queue:
            if scheduler.is_stopped():
                return {n: c for n, c in left.items() if c}
            before = left[each.number]
            left[each.number] = place_class(scheduler, each, before)
            moved |= left[each.number] < before
            if left[each.number] and (depends_on_others(scheduler, each) or scheduler.may_release()):
                again.append(each)
        queue = again if moved else []
    return {n: c for n, c in left.items() if c}


def _is_costly(scheduler: Scheduler, each: PodClass) -> bool:
    by_relaxation = scheduler.pod_data[each.number]
    demands = by_relaxation[0].demands
    return len(by_relaxation) + len(demands.domains) + len(demands.hosts) > _CHEAP


def depends_on_others(scheduler: Scheduler, each: PodClass) -> bool:
    """Return whether pods of a class that do not fit now may fit once other pods are placed."""
    if each.devices:
        return True
    for pod_data in scheduler.pod_data[each.number]:  # noqa: SIM110  asked for every class, and faster
        if pod_data.demands.depends_on_counts:
            return True
    return False


def place_class(scheduler: Scheduler, each: PodClass, count: int) -> int:
    """Place pods of one class; return how many are left."""
    by_relaxation = scheduler.pod_data[each.number]
    if depends_on_others(scheduler, each):
        return OneByOne(scheduler, by_relaxation).place(count)
    scheduler.must_wait = False
    for position, pod_data in enumerate(by_relaxation):
        if position and scheduler.is_stopped():
            break
        count = place_together(scheduler, pod_data, count)
        if not count or scheduler.must_wait:
            break
    return count


def place_together(scheduler: Scheduler, pod_data: PodData, count: int) -> int:
    """Place pods for which a bin that refuses one refuses all; return how many are left."""
    # The order is upstream's: existing nodes, then claims of this run, then a new claim:
    # https://github.com/kubernetes-sigs/karpenter/blob/main/pkg/controllers/provisioning/scheduling/scheduler.go
    if scheduler.nodes.count:
        count = _onto_nodes(scheduler, pod_data, count)
    if count and scheduler.claims.count:
        count = _onto_claims(scheduler, pod_data, count)
    return _onto_new(scheduler, pod_data, count, scheduler.templates) if count else 0


def _onto_nodes(scheduler: Scheduler, pod_data: PodData, count: int) -> int:
    candidates = scheduler.nodes_for(pod_data)
    if not len(candidates):
        return count
    most = scheduler.nodes.room_for(candidates, pod_data.pod_class.want)
    caps = pod_data.host_caps(0, scheduler.nodes.count)
    if caps is not None:
        most = np.minimum(most, caps[candidates])
    for node, limit in zip(candidates.tolist(), most.tolist(), strict=True):
        if limit and scheduler.fits_ports(pod_data, node) and scheduler.fits_volumes(pod_data, node):
            taken = min(limit, count)
            scheduler.put_on_node(pod_data, node, taken)
            count -= taken
            if not count:
                break
    return count


def _onto_claims(scheduler: Scheduler, pod_data: PodData, count: int) -> int:
    if count <= _FEW:
        search = ClaimSearch(scheduler, pod_data, final=True)
        while not search.gave_up and count and (found := search.find()) is not None:
            scheduler.put_on_claim(pod_data, *found)
            count -= 1
        search.end()
        if not search.gave_up:
            return count
    return _onto_claims_by_arrays(scheduler, pod_data, count)


def _onto_claims_by_arrays(scheduler: Scheduler, pod_data: PodData, count: int) -> int:
    candidates = scheduler.claims.with_room(pod_data.pod_class.want)
    caps = pod_data.host_caps(scheduler.nodes.count, scheduler.nodes.count + scheduler.claims.count)
    if caps is not None:
        candidates = candidates[caps[candidates] > 0]
    if not len(candidates):
        return count
    if count <= _FEW or pod_data.pod_class.ports or not scheduler.may_all_grow(len(candidates)):
        return _one_by_one(scheduler, pod_data, count, candidates)
    return _fill_evenly(scheduler, pod_data, count, candidates, caps)


def _one_by_one(scheduler: Scheduler, pod_data: PodData, count: int, candidates: NDArray[np.int64]) -> int:
    order = scheduler.claims.pods[candidates]
    while count:
        position = int(order.argmin())
        if order[position] == _TAKEN:
            return count
        claim = int(candidates[position])
        state = scheduler.next_state(pod_data, claim)
        if state is None:
            order[position] = _TAKEN
            continue
        scheduler.put_on_claim(pod_data, claim, state)
        order[position] += 1
        count -= 1
    return 0


def _fill_evenly(
    scheduler: Scheduler,
    pod_data: PodData,
    count: int,
    candidates: NDArray[np.int64],
    caps: NDArray[np.int64] | None,
) -> int:
    """Fill the claims with the fewest pods first: the same as one by one, in one pass."""
    targets, most = reachable(scheduler, pod_data, candidates)
    if caps is not None:
        most = np.minimum(most, caps[candidates])
    taken = distribute_evenly(scheduler.claims.pods[candidates], most, count)
    for position in np.flatnonzero(taken).tolist():
        target = targets[position]
        assert target is not None
        scheduler.put_on_claim(pod_data, int(candidates[position]), target, int(taken[position]))
    return count - int(taken.sum())


def reachable(
    scheduler: Scheduler, pod_data: PodData, candidates: NDArray[np.int64]
) -> tuple[list[ClaimState | None], NDArray[np.int64]]:
    """Return what each claim would become by taking such pods, and how many it has room for."""
    narrowings = scheduler.narrowings(pod_data)
    numbers = scheduler.claims.state[candidates]
    targets: list[ClaimState | None] = [None] * len(candidates)
    most = np.zeros(len(candidates), np.int64)
    for number in np.unique(numbers).tolist():
        next_states = narrowings.of(scheduler.states.all[number])
        if not next_states:
            continue
        members = np.flatnonzero(numbers == number)
        most[members] = room_for_many(
            scheduler, next_states[0], candidates[members], pod_data.pod_class.vector
        )
        for position in members.tolist():
            targets[position] = next_states[0]
    return targets, most


def _onto_new(scheduler: Scheduler, pod_data: PodData, count: int, templates: Iterable[Template]) -> int:
    for template in templates:
        new_claim = None
        while count:
            # Opening a claim of such pods changes nothing that the next one depends on but what is counted.
            if new_claim is None or scheduler.counts_claims(template):
                new_claim = scheduler.new_claim(pod_data, template)
            if new_claim is None:
                break
            count -= scheduler.fill(pod_data, scheduler.open(new_claim), new_claim.state, count)
        if not count or scheduler.must_wait:
            break
    return count
