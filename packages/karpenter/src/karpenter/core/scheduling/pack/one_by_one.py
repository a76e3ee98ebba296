"""
Packing pod by pod, for classes whose possible bins depend on topology counts.

A zone that is full now is open again once the others have caught up, so every pod asks again; but bins that
can never take another pod of the class are dropped, and what spread and affinity allow is asked per node
group and per claim state, not per bin.

Most classes have few pods, and mostly one of the first claims that are asked takes one:
:class:`ClaimSearch` asks claim after claim. After too many refusals it gives up, and the claims with room
are found with arrays of all claims.

A pod goes to the claim with the fewest pods that takes it, so many pods raise the emptiest claims to one
level, with a spread over zones the zones first: :class:`ClaimFill` does that in one pass, with the same
result. That holds for claims that stay what they are; before a claim whose zone is still open has its turn,
the pass ends, and the next pod is placed alone.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

import numpy as np

from karpenter.core.scheduling.pack.scheduler import CLAIM_BITS, Scheduler
from karpenter.core.scheduling.pack.topologygroup import TopologyType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from karpenter.core.scheduling.pack.nodeclaim import ClaimState
    from karpenter.core.scheduling.pack.poddata import PodData
    from karpenter.core.scheduling.pack.topology import TopologyDemand

_TAKEN: Final = int(np.iinfo(np.int64).max)
_NO_CLAIM: Final = (_TAKEN, -1)
_NONE: Final[NDArray[np.int64]] = np.zeros(0, np.int64)
_CLAIM: Final = (1 << CLAIM_BITS) - 1
_FEW: Final = 8
"""Up to this many pods, one at a time is faster than all at once."""

_MOST_QUEUES: Final = 64
"""With more different claim states than this, arrays of all claims are faster than a look at each state."""


class ClaimSearch:
    """Finds the claim with the fewest pods that takes one more pod, the first of equals."""

    __slots__ = ("_closed", "_final", "_narrowings", "_pod_data", "_refusals", "_scheduler", "gave_up")

    def __init__(self, scheduler: Scheduler, pod_data: PodData, *, final: bool) -> None:
        """`final` says that a claim that refuses one pod refuses every other pod of the class."""
        self._scheduler = scheduler
        self._pod_data = pod_data
        self._narrowings = scheduler.narrowings(pod_data)
        self._final = final
        self._refusals = 0
        self._closed: list[tuple[list[int], int]] = []
        """Entries that were taken from the queues, since their claims can never take such a pod."""

        self.gave_up = len(scheduler.claims.queues) > _MOST_QUEUES or not scheduler.search_limit.begin()

    def find(self) -> tuple[int, ClaimState] | None:
        """Return the claim and what it becomes; None when there is none, or when the search gave up."""
        scheduler, pod_data = self._scheduler, self._pod_data
        self._narrowings.refresh()
        passed: list[tuple[list[int], int]] = []
        found: tuple[int, ClaimState] | None = None
        while (place := self._emptiest()) is not None:
            queue, entry, next_states = place
            claim = entry & _CLAIM
            state = scheduler.first_that_holds(pod_data, claim, next_states)
            if state is not None:
                found = claim, state
                if self._refusals:
                    self._refusals -= 1
                    scheduler.search_limit.learn(gave_up=False)
                break
            self._refusals += 1
            if self._refusals > scheduler.search_limit.refusals:
                self.gave_up = True
                scheduler.search_limit.learn(gave_up=True)
                break
            heappop(queue)
            closed = self._final or is_closed(scheduler, pod_data, claim)
            (self._closed if closed else passed).append((queue, entry))
        for queue, entry in passed:
            heappush(queue, entry)
        return found

    def end(self) -> None:
        """Put back what was taken from the queues."""
        while self._closed:
            heappush(*self._closed.pop())

    def _emptiest(self) -> tuple[list[int], int, tuple[ClaimState, ...]] | None:
        """Return the queue and the entry of the claim with the fewest pods, and what it may become."""
        claims, known, states = self._scheduler.claims, self._narrowings.known, self._scheduler.states.all
        held, best = claims.held, _TAKEN
        found: tuple[list[int], int, tuple[ClaimState, ...]] | None = None
        for number, queue in claims.queues.items():
            while queue and held[queue[0] & _CLAIM] != queue[0] >> CLAIM_BITS:
                heappop(queue)
            if queue and queue[0] < best:
                next_states = known.get(number)
                if next_states is None:
                    next_states = self._narrowings.current(states[number])
                if next_states:
                    best = queue[0]
                    found = queue, best, next_states
        return found


def is_closed(scheduler: Scheduler, pod_data: PodData, claim: int) -> bool:
    """Return whether a claim can never take another such pod."""
    number = scheduler.nodes.count + claim
    if pod_data.is_closed(number) or scheduler.lacks_devices(pod_data, number):
        return True
    state = scheduler.states.step(scheduler.claims.states[claim], pod_data.requirements)
    return state is None or not state.fits(scheduler.claims.total(claim, pod_data.pod_class.want))


class OneByOne:
    """Places the pods of one class one after the other, each under the first relaxation that works."""

    def __init__(self, scheduler: Scheduler, by_relaxation: Sequence[PodData]) -> None:
        self._scheduler = scheduler
        self._changes: list[int] = []
        self._by_relaxation = by_relaxation
        self._candidates = [_Candidates(scheduler, by_relaxation[0], self._changes)]
        """By relaxation, as far as any pod had to go."""

        self._many = ClaimFill(scheduler, by_relaxation[0])

    def place(self, count: int) -> int:
        """Place up to `count` pods; return how many are left."""
        pause, longest = 0, 1
        first = self._candidates[0]
        while count and not self._scheduler.is_stopped():
            if pause:
                pause -= 1
            elif count > _FEW and not first.has_nodes:
                taken = self._many.place(count)
                self._changes += taken
                count -= len(taken)
                longest = 1 if len(taken) > _FEW else 2 * longest
                pause = longest
            if count and not self._place_one():
                break
            count -= bool(count)
        first.end_search()
        return count

    def _place_one(self) -> bool:
        """Place one pod, relaxing its preferences one after the other."""
        self._scheduler.must_wait = False
        for position in range(len(self._by_relaxation)):
            if position and self._scheduler.is_stopped():
                return False
            candidates = self._under(position)
            placed = candidates.place_one()
            if position:  # the first relaxation, which the next pod begins with, must find all claims
                candidates.end_search()
            if placed:
                return True
            if self._scheduler.must_wait:
                return False
        return False

    def _under(self, position: int) -> _Candidates:
        if position == len(self._candidates):
            pod_data = self._by_relaxation[position]
            self._candidates.append(_Candidates(self._scheduler, pod_data, self._changes))
        return self._candidates[position]


class _ClaimQueue:
    """The claims in one state by number of pods; knows the one with the fewest, the first of equals."""

    __slots__ = ("_claims", "_first", "_held", "_late", "_pods", "best")

    def __init__(self) -> None:
        self._claims = self._pods = _NONE
        self._first = _NO_CLAIM
        """The claim with the fewest pods among these."""

        self._held: dict[int, int] = {}
        """Claims that were added one by one, and their pods."""

        self._late: list[tuple[int, int]] = []
        """The same as a heap ordered by pods; stale entries are dropped when they come up."""

        self.best = _NO_CLAIM
        """The pods and the number of the claim with the fewest pods."""

    def add(self, claims: NDArray[np.int64], pods: NDArray[np.int64]) -> None:
        """Add claims that were opened after all claims added like this before."""
        self._claims, self._pods = (
            np.concatenate([self._claims, claims]),
            np.concatenate([self._pods, pods]),
        )
        self._look()

    def put(self, claim: int, pods: int) -> None:
        """Add one claim, whenever it was opened."""
        self._held[claim] = pods
        heappush(self._late, (pods, claim))
        self.best = min(self.best, (pods, claim))

    def take(self, claim: int) -> None:
        if self._held.pop(claim, None) is None:
            position = int(np.searchsorted(self._claims, claim))
            if position < len(self._claims) and self._claims[position] == claim:
                self._pods[position] = _TAKEN
                self._look()
                return
        if self.best[1] == claim:
            self._compare()

    def _look(self) -> None:
        position = int(self._pods.argmin())
        self._first = int(self._pods[position]), int(self._claims[position])
        self._compare()

    def _compare(self) -> None:
        late = self._late
        while late and self._held.get(late[0][1]) != late[0][0]:
            heappop(late)
        self.best = min(self._first, late[0]) if late else self._first


class _Candidates:
    """The bins that may still take a pod of one class under one relaxation."""

    def __init__(self, scheduler: Scheduler, pod_data: PodData, changes: list[int]) -> None:
        self._scheduler = scheduler
        self._pod_data = pod_data
        self._narrowings = scheduler.narrowings(pod_data)
        self._changes = changes
        """Claims that took a pod under any relaxation."""

        self._read = len(changes)
        self._nodes = scheduler.nodes_for(pod_data) if scheduler.nodes.count else _NONE
        self._rows: dict[int, _ClaimQueue] = {}
        self._seen = 0
        self._search = ClaimSearch(scheduler, pod_data, final=False)

    @property
    def has_nodes(self) -> bool:
        """Whether an existing node may still take a pod."""
        return bool(len(self._nodes))

    def place_one(self) -> bool:
        """Place one pod, or say that it cannot be placed."""
        return self._onto_node() or self._onto_claim() or self._onto_new()

    def _onto_node(self) -> bool:
        if not len(self._nodes):
            return False
        scheduler, pod_data = self._scheduler, self._pod_data
        want = pod_data.pod_class.want
        kinds = scheduler.node_groups.of[self._nodes]
        permitted = np.zeros(len(scheduler.node_groups.all), bool)
        for number in np.unique(kinds).tolist():
            permitted[number] = scheduler.node_groups.all[number].permits(pod_data)
        full = []
        found = False
        for position in np.flatnonzero(permitted[kinds]).tolist():
            node = int(self._nodes[position])
            if scheduler.node_takes(pod_data, node):
                scheduler.put_on_node(pod_data, node)
                found = True
                break
            if scheduler.lacks_devices(pod_data, node) or not scheduler.nodes.fits(node, want):
                full.append(position)
        if full:
            self._nodes = np.delete(self._nodes, full)
        return found

    def end_search(self) -> None:
        """Put back what the search has taken from the queues of the claims."""
        self._search.end()

    def _onto_claim(self) -> bool:
        return self._onto_claim_by_search() or (self._search.gave_up and self._onto_claim_by_arrays())

    def _onto_claim_by_search(self) -> bool:
        found = None if self._search.gave_up else self._search.find()
        if found is None:
            self._search.end()
            return False
        self._scheduler.put_on_claim(self._pod_data, *found)
        self._changes.append(found[0])
        return True

    def _onto_claim_by_arrays(self) -> bool:
        scheduler, pod_data = self._scheduler, self._pod_data
        if self._seen < scheduler.claims.count:
            self._notice(scheduler.claims.with_room(pod_data.pod_class.want, self._seen))
            self._seen = scheduler.claims.count
        self._catch_up()
        passed: list[tuple[_ClaimQueue, int, int]] = []
        state: ClaimState | None = None
        claim = -1
        while state is None and (place := self._emptiest()) is not None:
            pods, claim, row = place
            row.take(claim)
            state = scheduler.next_state(pod_data, claim)
            if state is None and not is_closed(scheduler, pod_data, claim):
                passed.append((row, claim, pods))
        for row, other, pods in passed:
            row.put(other, pods)
        if state is None:
            return False
        scheduler.put_on_claim(pod_data, claim, state)
        self._changes.append(claim)
        self._read = len(self._changes)
        self._row(state.number).put(claim, scheduler.claims.held[claim])
        return True

    def _notice(self, claims: NDArray[np.int64]) -> None:
        """Sort claims that were opened since the last pod by their state."""
        if not len(claims):
            return
        states, pods = self._scheduler.claims.state[claims], self._scheduler.claims.pods[claims]
        for number in np.flatnonzero(np.bincount(states)).tolist():
            mine = states == number
            self._row(number).add(claims[mine], pods[mine])

    def _catch_up(self) -> None:
        """Update claims that have taken pods of the class under another relaxation."""
        for claim in sorted(set(self._changes[self._read :])):
            for row in self._rows.values():
                row.take(claim)
            if not is_closed(self._scheduler, self._pod_data, claim):
                claims = self._scheduler.claims
                self._row(claims.states[claim].number).put(claim, claims.held[claim])
        self._read = len(self._changes)

    def _row(self, number: int) -> _ClaimQueue:
        if number not in self._rows:
            self._rows[number] = _ClaimQueue()
        return self._rows[number]

    def _emptiest(self) -> tuple[int, int, _ClaimQueue] | None:
        """Return the claim with the fewest pods that counts allow, the first of equals."""
        narrowings, states = self._narrowings, self._scheduler.states.all
        narrowings.refresh()
        best, found = _NO_CLAIM, None
        for number, row in self._rows.items():
            if row.best < best and narrowings.current(states[number]):
                best, found = row.best, row
        return (*best, found) if found is not None else None

    def _onto_new(self) -> bool:
        scheduler, pod_data = self._scheduler, self._pod_data
        for template in scheduler.templates:
            new_claim = scheduler.new_claim(pod_data, template)
            if new_claim is not None:
                claim = scheduler.open(new_claim)
                scheduler.put_on_claim(pod_data, claim, new_claim.state)
                self._changes.append(claim)
                return True
            if scheduler.must_wait:
                return False
        return False


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
    level = _level(held, most, count)
    given = np.clip(level - held, 0, most)
    rest = count - int(given.sum())
    open_ = np.flatnonzero((given < most) & (held + given == level))
    given[open_[:rest]] += 1
    return given


def _level(held: NDArray[np.int64], most: NDArray[np.int64], count: int) -> int:
    """Return the highest level to which `count` pods raise all that can take more."""
    low, high = int(held.min()), int(held.max()) + count
    while low < high:
        middle = high - (high - low) // 2
        if int(np.clip(middle - held, 0, most).sum()) <= count:
            low = middle
        else:
            high = middle - 1
    return low


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
        level = _TAKEN
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
        if len(counts) < self._spread.spec.min_domains:
            return given
        room = np.bincount(domain[domain >= 0], most[domain >= 0], len(counts)).astype(np.int64)
        missing = np.maximum((counts + room).min() - counts, 0)  # until the first domain is full
        raised = np.clip(_level(counts, missing, count) - counts, 0, missing)
        for number in np.flatnonzero(raised).tolist():
            mine = np.flatnonzero(domain == number)
            given[mine] = distribute_evenly(held[mine], most[mine], int(raised[number]))
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
