"""
Filling many claims at once with equal pods: the same as placing one pod at a time, in one pass.

A pod goes to the claim with the fewest pods that takes it, so many pods raise the emptiest claims to one
level. With a spread over zones the zones are raised to one level first, and the claims within each zone
then. That holds for claims that stay what they are; before a claim whose zone is still open has its turn,
the pass ends, and the next pod is placed alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from karpenter.core.scheduling.pack.topologygroup import TopologyType

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karpenter.core.scheduling.encode.preferences import PodData
    from karpenter.core.scheduling.pack.nodeclaim import ClaimState
    from karpenter.core.scheduling.pack.scheduler import Scheduler
    from karpenter.core.scheduling.pack.topology import TopologyDemand

_NO_LEVEL: Final = int(np.iinfo(np.int64).max)


def room_for_many(
    scheduler: Scheduler, state: ClaimState, claims: NDArray[np.int64], want: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return how many pods like this each of `claims` has room for once it is in `state`."""
    used = scheduler.claims.used[:, claims]
    best = np.zeros(len(claims), np.int64)
    asked = want > 0
    for row in state.frontier:
        left = row[:, None] - used
        count = (left[asked] // want[asked][:, None]).min(axis=0)
        count[(left < 0).any(axis=0)] = 0
        np.maximum(best, count, out=best)
    return best


def distribute_evenly(held: NDArray[np.int64], most: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """
    Return how many of `count` pods each claim gets when each pod goes to the claim with the fewest pods.

    ``held[i]`` is what claim `i` has already, ``most[i]`` how many more it can take. The answer equals that
    of placing one pod at a time on the emptiest claim with room, the first of equals.
    """
    if int(most.sum()) <= count:
        return most.copy()
    low, high = int(held.min()), int(held.max()) + count
    while low < high:  # the highest level that does not need more pods than there are
        middle = (low + high + 1) // 2
        if int(_up_to(held, most, middle).sum()) <= count:
            low = middle
        else:
            high = middle - 1
    given = _up_to(held, most, low)
    rest = count - int(given.sum())
    if rest:
        open_ = np.flatnonzero((given < most) & (held + given == low))
        given[open_[:rest]] += 1
    return given


def _up_to(held: NDArray[np.int64], most: NDArray[np.int64], line: int) -> NDArray[np.int64]:
    return np.clip(line - held, 0, most)


class ClaimFill:
    """Places many pods of a class whose domains are limited by counts."""

    def __init__(self, scheduler: Scheduler, pod_data: PodData) -> None:
        self._scheduler = scheduler
        self._pod_data = pod_data
        demands = pod_data.demands.domains
        self._spread = next((d.group for d in demands if d.self_selecting and _is_spread(d)), None)
        self._ready = self._is_suitable()

    def _is_suitable(self) -> bool:
        """Return whether nothing but room, hosts and the level of domains limits the pods."""
        scheduler, pod_data = self._scheduler, self._pod_data
        each, demands = pod_data.pod_class, pod_data.demands
        if each.ports or pod_data.volumes or scheduler.devices is not None or not demands.domains:
            return False
        if pod_data.relaxation.impossible or any(
            d.group.kind is TopologyType.POD_AFFINITY for d in demands.hosts
        ):
            return False
        if self._spread is not None:  # with a larger skew the emptiest claim of any zone decides
            return len(demands.domains) == 1 and self._spread.spec.max_skew == 1
        return all(
            d.group.kind is TopologyType.POD_AFFINITY or (_is_spread(d) and not d.self_selecting)
            for d in demands.domains
        )

    def place(self, count: int) -> list[int]:
        """Place up to `count` pods on claims; return the claims, each as often as it took a pod."""
        scheduler, pod_data = self._scheduler, self._pod_data
        claims = scheduler.claims
        if not self._ready or not claims.count:
            return []
        candidates = claims.with_room(pod_data.pod_class.want)
        caps = pod_data.host_caps(scheduler.nodes.count, scheduler.nodes.count + claims.count)
        if caps is not None:
            candidates = candidates[caps[candidates] > 0]
        if not len(candidates) or not scheduler.may_all_grow(len(candidates)):
            return []
        held = claims.pods[candidates]
        most, domain, level = self._room(candidates, held)
        if caps is not None:
            most = np.minimum(most, caps[candidates])
        most = np.clip(level - held, 0, most)
        given = (
            self._evenly(held, most, count)
            if self._spread is None
            else self._by_domain(held, most, domain, count)
        )
        found: list[int] = []
        for position in np.flatnonzero(given).tolist():
            claim, taken = int(candidates[position]), int(given[position])
            scheduler.put_on_claim(pod_data, claim, claims.states[claim], taken)
            found += [claim] * taken
        return found

    def _room(
        self, candidates: NDArray[np.int64], held: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
        """Return the room of each claim, its domain, and up to which level only these claims are asked."""
        scheduler, pod_data = self._scheduler, self._pod_data
        numbers = scheduler.claims.state[candidates]
        most = np.zeros(len(candidates), np.int64)
        domain = np.full(len(candidates), -1)
        level = _NO_LEVEL
        narrowings = scheduler.narrowings(pod_data)
        narrowings.refresh()
        places = self._places()
        for number in np.unique(numbers).tolist():
            state = scheduler.states.all[number]
            if not pod_data.tolerates(state.template):
                continue
            members = np.flatnonzero(numbers == number)
            after = scheduler.states.step(state, pod_data.requirements)
            if after is None:
                continue
            if after is not state or not self._is_settled(state):
                level = min(level, int(held[members].min()))
                continue
            if self._spread is not None:
                domain[members] = places.get(next(iter(state.domains(self._spread.key) or ())), -1)
            if self._spread is not None or narrowings.current(state):
                most[members] = room_for_many(
                    scheduler, state, candidates[members], pod_data.pod_class.vector
                )
        return most, domain, level

    def _places(self) -> dict[str, int]:
        """Return a number for each domain that the spread counts."""
        if self._spread is None:
            return {}
        strict = self._pod_data.strict[self._spread.key]
        return {name: number for number, name in enumerate(filter(strict.allows, self._spread.counts))}

    def _is_settled(self, state: ClaimState) -> bool:
        """Return whether pods on claims in a state count in one domain each, which stays."""
        return all(
            len(state.domains(d.group.key) or ()) == 1
            and self._scheduler.topology.counts_labels(
                d.group, state.requirements, state.template.pool.taints
            )
            for d in self._pod_data.demands.domains
        )

    def _by_domain(
        self, held: NDArray[np.int64], most: NDArray[np.int64], domain: NDArray[np.int64], count: int
    ) -> NDArray[np.int64]:
        """Return how many pods each claim gets when all domains are raised to one level."""
        assert self._spread is not None
        counts = np.array([self._spread.counts[name] for name in self._places()], np.int64)
        given = np.zeros(len(held), np.int64)
        if len(counts) < max(self._spread.spec.min_domains, 1):
            return given
        room = np.bincount(domain[domain >= 0], most[domain >= 0], len(counts)).astype(np.int64)
        level = min(int((counts + room).min()), int(counts.max()) + count)
        while int(np.maximum(level - counts, 0).sum()) > count:
            level -= max(1, (int(np.maximum(level - counts, 0).sum()) - count) // len(counts))
        for number in np.flatnonzero(level > counts).tolist():
            mine = np.flatnonzero(domain == number)
            given[mine] = distribute_evenly(held[mine], most[mine], level - int(counts[number]))
        return given

    def _evenly(self, held: NDArray[np.int64], most: NDArray[np.int64], count: int) -> NDArray[np.int64]:
        """Return how many pods each claim gets, where the allowed domains do not change."""
        for demand in self._pod_data.demands.domains:
            group, strict = demand.group, self._pod_data.strict[demand.group.key]
            if group.allowed_domains(strict, self_selecting=demand.self_selecting) is None:
                return np.zeros(len(held), np.int64)  # the first pod chooses the domain of the others
        return distribute_evenly(held, most, count)


def _is_spread(demand: TopologyDemand) -> bool:
    return demand.group.kind is TopologyType.SPREAD
