"""
The scheduler: the bins, the counts, and the three moves that a packer can make.

A packer puts a pod on an existing node, puts it on a claim of this run, or opens a claim. Each move is
checked here against everything that can forbid it, and recorded here in everything that later moves depend
on, so that no packer can produce an invalid plan.

Mutable and short-lived: made from an encoded problem, read out by ``decode`` and ``solve``.

Bins: everything that a pod can be placed on, as columns of arrays.

Existing nodes come first and keep their numbers; claims follow in the order in which they are opened. A
column holds one figure of every bin, so that "which bins have room" is a handful of array operations for
any number of bins.

Exact integers throughout.
"""

from __future__ import annotations

from array import array
from heapq import heappush
from operator import add, sub
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
import numpy as np

from karpenter.core.model.hostportusage import HostPortUsage
from karpenter.core.scheduling.encode.offerings import Bits, amounts_of
from karpenter.core.scheduling.pack.allocator import Allocator
from karpenter.core.scheduling.pack.existingnode import NodeGroups, Nodes, ResourceRatio, relevant_label_keys
from karpenter.core.scheduling.pack.nodeclaim import ClaimState, ClaimStates, Narrowings, pool_limits
from karpenter.core.scheduling.pack.poddata import compile_pod_data
from karpenter.core.scheduling.pack.reservationmanager import (
    ReservationManager,
    cheapest_types,
    distinct_values,
    fitting_offerings,
    violates_min_values,
)
from karpenter.core.scheduling.pack.topology import Topology
from karpenter.core.scheduling.pack.topologycounts import TopologyCounts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from karpenter.core.scheduling.encode.encode import EncodedProblem
    from karpenter.core.scheduling.encode.nodeclaimtemplate import Template
    from karpenter.core.scheduling.pack.poddata import PodData
    from karpenter.core.scheduling.pack.topologygroup import TopologyGroup

CLAIM_BITS: Final = 32
"""The bits of an entry of a queue that hold the number of the claim; the pods of the claim are above them."""

_START: Final = 64
_PLENTY: Final = int(np.iinfo(np.int64).max)
_MOST_REFUSALS: Final = 16
_PASSED_OVER: Final = 32
"""After this many classes without, claims are asked one after the other again."""

_NOTHING_BOUGHT: Final[tuple[int, NDArray[np.int64]]] = (0, np.zeros(0, np.int64))
_FEW: Final = 4
"""Up to this many claims, writing them into the arrays one after the other is faster than all at once."""


def _goes_on() -> bool:
    """Whether a search is to stop that nothing stops."""
    return False


class Claims:
    """
    The claims of this run: their usage and their states.

    A question about one claim reads Python values, which is faster than reading one element of an array.
    A question about all claims reads arrays, which are brought up to date when they are asked for.
    """

    def __init__(self, width: int) -> None:
        self.count = 0
        self.states: list[ClaimState] = []
        self.held: list[int] = []
        """The number of pods on each claim."""

        self.queues: dict[int, list[int]] = {}
        """
        The claims in each state, by the number of the state: a heap of ``pods << CLAIM_BITS | claim``. An
        entry with another number of pods than its claim has by now is out of date.
        """

        self.totals: list[tuple[int, ...]] = []
        """What the pods on each claim request."""

        self._nothing = (0,) * width
        self._changed: set[int] = set()
        """The claims of which the arrays do not know everything."""

        self._used = np.zeros((width, _START), np.int64)
        self._head = np.zeros((width, _START), np.int64)
        self._pods = np.zeros(_START, np.int64)
        self._state = np.zeros(_START, np.int64)

    @property
    def used(self) -> NDArray[np.int64]:
        """``used[resource, claim]``."""
        self._update()
        return self._used

    @property
    def head(self) -> NDArray[np.int64]:
        """An upper bound of what is left, ``head[resource, claim]``; the frontier of the state is exact."""
        self._update()
        return self._head

    @property
    def pods(self) -> NDArray[np.int64]:
        self._update()
        return self._pods

    @property
    def state(self) -> NDArray[np.int64]:
        self._update()
        return self._state

    def open(self, state: ClaimState) -> int:
        """Add an empty claim and return its number."""
        number = self.count
        self.count += 1
        self.states.append(state)
        self.held.append(0)
        self.totals.append(self._nothing)
        self._changed.add(number)
        heappush(self.queues.setdefault(state.number, []), number)
        return number

    def with_room(self, want: Sequence[int], first: int = 0) -> NDArray[np.int64]:
        """Return which claims, from the `first` on, may have room for one more pod."""
        room = np.ones(self.count - first, bool)
        for row, amount in zip(self.head, want, strict=True):
            if amount > 0:
                room &= row[first : self.count] >= amount
        return np.flatnonzero(room) + first

    def total(self, claim: int, want: Sequence[int], count: int = 1) -> tuple[int, ...]:
        """Return what a claim would use with `count` more pods."""
        used = self.totals[claim]
        if count == 1:
            return tuple(map(add, used, want))
        return tuple(u + w * count for u, w in zip(used, want, strict=True))

    def room_for(self, claim: int, state: ClaimState, want: Sequence[int], most: int = _PLENTY) -> int:
        """Return how many pods like this a claim in `state` has room for, but no more than `most`."""
        used = self.totals[claim]
        best = 0
        for row in state.rows:
            count = most
            for room, amount, wanted in zip(row, used, want, strict=True):
                left = room - amount
                if left < 0:
                    count = 0
                elif wanted > 0 and left < wanted * count:
                    count = left // wanted
                if count <= best:
                    break
            else:
                best = count
                if best == most:
                    break
        return best

    def take(self, claim: int, state: ClaimState, want: Sequence[int], count: int = 1) -> None:
        """Put `count` pods on a claim, which becomes `state`."""
        self.totals[claim] = self.total(claim, want, count)
        self.states[claim] = state
        held = self.held[claim] = self.held[claim] + count
        self._changed.add(claim)
        queue = self.queues.get(state.number)
        if queue is None:
            queue = self.queues[state.number] = []
        heappush(queue, held << CLAIM_BITS | claim)

    def _update(self) -> None:
        if not self._changed:
            return
        length = len(self._pods)
        if self.count > length:
            while length < self.count:
                length *= 2
            self._used, self._head = _wider(self._used, length), _wider(self._head, length)
            self._pods, self._state = (
                _wider(self._pods[None], length)[0],
                _wider(self._state[None], length)[0],
            )
        if len(self._changed) <= _FEW:
            for claim in self._changed:
                state, total = self.states[claim], self.totals[claim]
                self._used[:, claim] = total
                self._head[:, claim] = tuple(map(sub, state.most, total))
                self._pods[claim], self._state[claim] = self.held[claim], state.number
        else:
            some = list(self._changed)
            states = [self.states[claim] for claim in some]
            totals = np.array([self.totals[claim] for claim in some], np.int64).T
            self._used[:, some] = totals
            self._head[:, some] = np.array([state.most for state in states], np.int64).T - totals
            self._pods[some] = [self.held[claim] for claim in some]
            self._state[some] = [state.number for state in states]
        self._changed.clear()


def _wider(table: NDArray[np.int64], length: int) -> NDArray[np.int64]:
    wide = np.zeros((table.shape[0], length), np.int64)
    wide[:, : table.shape[1]] = table
    return wide


class SearchLimit:
    """
    How many claims may refuse a pod, before all claims are looked at with arrays.

    Where many claims are full, asking one after the other is useless for the next pods too.
    """

    def __init__(self) -> None:
        self.refusals = _MOST_REFUSALS
        self._passed_over = 0

    def begin(self) -> bool:
        """Return whether claims are asked one after the other for the next class."""
        if self.refusals:
            return True
        self._passed_over += 1
        if self._passed_over % _PASSED_OVER == 0:
            self.refusals = _FEW
        return False

    def learn(self, *, gave_up: bool) -> None:
        """Remember whether a claim was found, or the search was given up."""
        self.refusals = self.refusals // 2 if gave_up else min(self.refusals + 1, _MOST_REFUSALS)


class PodPlacement(NamedTuple):
    """Pods of one class that were placed on one bin."""

    pod_data: PodData
    bin: int
    pod_count: int


class PodPlacements:
    """Every placement of one run, in order; columns, since there may be as many as pods."""

    def __init__(self) -> None:
        self._pod_data: list[PodData] = []
        self._bins = array("q")
        self._many = array("q")

    def add(self, pod_data: PodData, number: int, pod_count: int) -> None:
        """Record that pods were placed on a bin."""
        self._pod_data.append(pod_data)
        self._bins.append(number)
        self._many.append(pod_count)

    def __len__(self) -> int:
        return len(self._pod_data)

    def rows(self) -> Iterator[tuple[PodData, int, int]]:
        """Yield the placements as plain tuples: what was placed, on which bin, how many pods."""
        return zip(self._pod_data, self._bins, self._many, strict=True)

    def __iter__(self) -> Iterator[PodPlacement]:
        return map(PodPlacement, self._pod_data, self._bins, self._many)


class NewClaim(msgspec.Struct, frozen=True):
    """The state in which a new claim starts, and its minValues."""

    state: ClaimState
    least: dict[str, int] = {}
    """minValues per key, lowered where the policy is BestEffort."""

    relaxed: bool = False


class Scheduler:
    """One schedule in the making: bins, counts, limits, reservations and devices."""

    def __init__(self, encoded: EncodedProblem) -> None:
        problem = encoded.problem
        self.problem = problem
        self.encoded = encoded
        self.templates: Sequence[Template] = encoded.templates
        self.topology = Topology(problem, encoded.templates)
        self.pod_data = compile_pod_data(encoded.classes, self.topology)
        every = {
            id(pod_data.compiled): pod_data.compiled
            for by_relaxation in self.pod_data.values()
            for pod_data in by_relaxation
        }
        self.nodes = Nodes(amounts_of([node.free for node in problem.nodes], encoded.axis))
        usual = problem.options.usual
        self._resource_ratio = ResourceRatio(encoded.axis, self.nodes, usual) if usual is not None else None
        self.node_groups = NodeGroups(problem.nodes, relevant_label_keys(every.values()))
        self.quiet = np.array([node.quiet for node in problem.nodes], bool)
        self.states = ClaimStates(encoded.well_known)
        self.claims = Claims(len(encoded.axis))
        self.search_limit = SearchLimit()
        self.placements = PodPlacements()
        self.bought = _NOTHING_BOUGHT
        """The offering of every claim, and after how many placements that was."""

        self.least: dict[int, dict[str, int]] = {}
        self.relaxed: set[int] = set()
        self.reservations = ReservationManager(self.templates, strict=problem.options.reserved == "strict")
        self.pool_limits = pool_limits(self.templates)
        self._unrestricted = {
            each.number
            for each in self.templates
            if not (each.min_values or each.reserves or self._may_bind(each.number))
        }
        """The templates of which one more claim may become any type, whatever else is placed."""

        world = encoded.devices
        self.devices = Allocator(world, self.states, problem.nodes) if world is not None else None
        self._ports: dict[int, HostPortUsage] = {}
        self._volumes: dict[int, dict[str, frozenset[str]]] = {}
        self._topology_counts = TopologyCounts(self.topology, problem.nodes)
        self._narrowings: dict[int, Narrowings] = {}
        self.stop = problem.options.stop or _goes_on
        self.is_complete = True
        """Whether every pod was considered."""

        self.must_wait = False
        """Set when a pod was refused only because reservations are used up: it waits for them."""

    def is_stopped(self) -> bool:
        """Whether the time is up; then pods are left that were not considered."""
        if self.stop():
            self.is_complete = False
        return not self.is_complete

    def narrowings(self, pod_data: PodData) -> Narrowings:
        """Return the narrowings of a relaxation, which are remembered."""
        found = self._narrowings.get(id(pod_data.compiled))
        if found is None:
            found = self._narrowings[id(pod_data.compiled)] = Narrowings(pod_data.compiled, self.states)
        return found

    # Existing nodes.

    def nodes_for(self, pod_data: PodData) -> NDArray[np.int64]:
        """Return the existing nodes that match and have room, topology aside, the best first."""
        suits = np.array([kind.suits(pod_data) for kind in self.node_groups.all], bool)
        room: NDArray[np.bool_] = suits[self.node_groups.of]
        if room.any():
            room = room & self.nodes.with_room(pod_data.pod_class.want)
        return self.in_order(room & ~self.quiet if pod_data.pod_class.moved else room, pod_data)

    def in_order(self, fine: NDArray[np.bool_], pod_data: PodData) -> NDArray[np.int64]:
        """Return the existing nodes that are `fine` in the order in which they are tried, the best first."""
        if self._resource_ratio is None:
            return np.flatnonzero(fine)
        return self._resource_ratio.ordered(fine, pod_data.pod_class.want)

    def node_takes(self, pod_data: PodData, node: int) -> bool:
        """Return whether an existing node takes one more pod; its group was checked before."""
        each = pod_data.pod_class
        if not self.nodes.fits(node, each.want) or pod_data.host_cap(node) < 1:
            return False
        if not self.fits_ports(pod_data, node) or not self.fits_volumes(pod_data, node):
            return False
        return self.has_devices(pod_data, node)

    def put_on_node(self, pod_data: PodData, node: int, count: int = 1) -> None:
        each = pod_data.pod_class
        self.nodes.take(node, each.vector, count)
        if self.devices is not None and each.devices:
            self.devices.commit(each, node, None, ())
        self._record(pod_data, node, count)
        self._topology_counts.on_node(pod_data, node, count)
        if each.volumes.claims:
            held = self._volumes_on(node)
            for driver, claims in each.volumes.claims.items():
                held[driver] = held.get(driver, frozenset()) | claims

    def fits_ports(self, pod_data: PodData, number: int) -> bool:
        """Return whether the host ports of a pod are free on a bin."""
        return not pod_data.pod_class.ports or not self._ports_on(number).conflicts_with(
            pod_data.pod_class.ports
        )

    def fits_volumes(self, pod_data: PodData, node: int) -> bool:
        # CSINode limits the volumes per driver: https://kubernetes.io/docs/concepts/storage/storage-limits/
        limits = self.problem.nodes[node].volume_limits
        held = self._volumes_on(node) if pod_data.pod_class.volumes.claims else {}
        return all(
            len(held.get(driver, frozenset()) | claims) <= limits[driver]
            for driver, claims in pod_data.pod_class.volumes.claims.items()
            if driver in limits
        )

    # Claims of this run.

    def next_state(self, pod_data: PodData, claim: int) -> ClaimState | None:
        """Return what a claim would become by taking one more pod, or None when it cannot."""
        return self.first_that_holds(pod_data, claim, self.narrowings(pod_data).of(self.claims.states[claim]))

    def first_that_holds(
        self, pod_data: PodData, claim: int, next_states: Sequence[ClaimState]
    ) -> ClaimState | None:
        """Return the first of some states in which a claim can hold one more pod."""
        number, ports = self.nodes.count + claim, pod_data.pod_class.ports
        if (ports or pod_data.demands.hosts) and (
            pod_data.host_cap(number) < 1 or not self.fits_ports(pod_data, number)
        ):
            return None
        total = self.claims.total(claim, pod_data.pod_class.want)
        for state in next_states:
            narrowed = self.beside_daemon_ports(pod_data, state) if ports else state
            if self.devices is not None:
                narrowed = self.with_devices(pod_data, number, narrowed, total)
            if narrowed is not None and (
                narrowed.fits(total)
                if narrowed.template.number in self._unrestricted
                else self.holds(claim, narrowed, total)
            ):
                return narrowed
        return None

    def put_on_claim(self, pod_data: PodData, claim: int, state: ClaimState, count: int = 1) -> None:
        """Put pods on a claim, which thereby becomes `state`."""
        changed = state is not self.claims.states[claim]
        self.claims.take(claim, state, pod_data.pod_class.want, count)
        if self.devices is not None:
            self.devices.put(pod_data.pod_class, self.nodes.count + claim, state, self.claims.totals[claim])
        if state.template.reserves:
            bits = self.within_limits(claim, state, self.claims.totals[claim])
            found = self.reservations.obtainable(claim, state.template, bits)
            self.reservations.hold(claim, found or frozenset())
        if state.template.number not in self._unrestricted:
            limits = self.pool_limits.get(state.template.number)
            if limits is not None and limits.is_exact:
                limits.take(claim, self._counted_types(claim))
        self._record(pod_data, self.nodes.count + claim, count)
        self._topology_counts.on_claim(pod_data, claim, state, count, changed=changed)

    @property
    def next_bin(self) -> int:
        """The number of the bin that a claim has which is opened next."""
        return self.nodes.count + self.claims.count

    def new_claim(self, pod_data: PodData, template: Template) -> NewClaim | None:
        """Return how a new claim of a template would start with a pod, or None when it cannot."""
        if not self.may_open(template):
            return None
        if pod_data.host_cap(self.next_bin) < 1:
            return None
        for state in self.narrowings(pod_data).of(self.base(template)):
            narrowed = self.beside_daemon_ports(pod_data, state)
            if self.devices is not None:
                narrowed = self.with_devices(pod_data, self.next_bin, narrowed, pod_data.pod_class.want)
            if narrowed is not None and narrowed.fits(pod_data.pod_class.want):
                found = self._start(pod_data, narrowed)
                if found is not None:
                    return found
        return None

    def may_open(self, template: Template) -> bool:
        """Return whether the limit of the NodePool on nodes leaves one more."""
        limits = self.pool_limits.get(template.number)
        return limits is None or limits.allows_another

    def base(self, template: Template) -> ClaimState:
        """Return the state in which an empty claim of a template starts."""
        return self.states.of(template, template.pool.requirements, template.bits)

    def open(self, new_claim: NewClaim) -> int:
        """Open a claim without pods and return its number."""
        self.needs_exact_check(
            new_claim.state.template
        )  # a limit that may bind is counted exactly before it does
        claim = self.claims.open(new_claim.state)
        if new_claim.least:
            self.least[claim] = new_claim.least
        if new_claim.relaxed:
            self.relaxed.add(claim)
        limits = self.pool_limits.get(new_claim.state.template.number)
        if limits is not None:
            limits.opened(claim)
            if limits.may_bind():
                self._unrestricted.discard(new_claim.state.template.number)
        return claim

    def starts(self, state: ClaimState, want: Sequence[int]) -> bool:
        """Return whether a new claim in `state` could hold a first pod."""
        return (
            bool(self.buyable(None, state, want))
            if self.needs_exact_check(state.template)
            else state.fits(tuple(want))
        )

    def fill(self, pod_data: PodData, claim: int, state: ClaimState, count: int) -> int:
        """Put as many of `count` pods as fit on a claim, which becomes `state`; return how many."""
        most = min(count, pod_data.host_cap(self.nodes.count + claim))
        if not self.needs_exact_check(state.template):
            most = self.claims.room_for(claim, state, pod_data.pod_class.want, most)
            if most > 0:
                self.put_on_claim(pod_data, claim, state, most)
            return most
        taken = 0
        while taken < most and self.holds(claim, state, self.claims.total(claim, pod_data.pod_class.want)):
            self.put_on_claim(pod_data, claim, state)
            taken += 1
        return taken

    def counts_claims(self, template: Template) -> bool:
        """Whether a new claim of a template may leave too little for the next, of limits or reservations."""
        return not self.may_open(template) or self.needs_exact_check(template)

    def needs_exact_check(self, template: Template) -> bool:
        """Whether limits, minValues or reservations are checked for each pod on a claim of a template."""
        return template.number not in self._unrestricted and (
            not self.limits_allow(template, 1) or bool(template.min_values) or template.reserves
        )

    def limits_allow(self, template: Template, claims: int) -> bool:
        """Whether `claims` claims of a template may become any type within the limits of the NodePool."""
        limits = self.pool_limits.get(template.number)
        if limits is None:
            return True
        if not limits.is_exact and limits.may_bind():
            limits.count_exactly(self._counted_types)
        return limits.allow_any(claims)

    def may_all_grow(self, claims: int) -> bool:
        """Whether this many claims may become any type without checking limits in between."""
        return not any(map(self.needs_exact_check, self.templates)) and all(
            self.limits_allow(template, claims) for template in self.templates
        )

    def _may_bind(self, number: int) -> bool:
        """Whether a limit of a template may keep its next claim from becoming any type."""
        return number in self.pool_limits and self.pool_limits[number].may_bind()

    def may_release(self) -> bool:
        """Whether narrowing a claim may release a reservation or a limit that other pods wait for."""
        return bool(self.reservations.left) or any(limits.is_exact for limits in self.pool_limits.values())

    def _counted_types(self, claim: int) -> list[int]:
        """Return the types by which a claim counts against the limits of its NodePool."""
        state = self.claims.states[claim]
        total = self.claims.totals[claim]
        if not self.needs_exact_check(state.template):
            return [state.cheapest(total)]
        bits = self.within_limits(claim, state, total)
        if state.template.reserves:
            bits = self.reservations.usable(self.reservations.held(claim), state.template, bits)
        return cheapest_types(state.template, bits, self.least.get(claim, {}))

    # What claims share: counts, limits, reservations, ports, devices and volumes.

    def counting(self, pod_data: PodData) -> tuple[TopologyGroup, ...]:
        return self._topology_counts.groups(pod_data)

    def _record(self, pod_data: PodData, number: int, count: int) -> None:
        self.placements.add(pod_data, number, count)
        if pod_data.pod_class.ports:
            self._ports_on(number).add(pod_data.pod_class.ports)

    def holds(self, claim: int, state: ClaimState, total: tuple[int, ...]) -> bool:
        """Return whether a claim in `state` could hold `total`, limits and reservations considered."""
        if not self.needs_exact_check(state.template):
            return state.fits(total)
        bits = self.buyable(claim, state, total)
        return bool(bits) and not violates_min_values(
            distinct_values(state.template, bits), self.least.get(claim, {})
        )

    def within_limits(self, claim: int | None, state: ClaimState, total: Sequence[int]) -> Bits:
        """Return the offerings of a state that hold `total` within the limits of the NodePool."""
        bits = fitting_offerings(state, total)
        limits = self.pool_limits.get(state.template.number)
        if limits is not None and limits.is_exact:
            bits = state.template.table.keep_types(bits, limits.types_within(claim))
        return bits

    def buyable(self, claim: int | None, state: ClaimState, total: Sequence[int]) -> Bits:
        """Return the offerings that a claim could be launched as, limits and reservations considered."""
        bits = self.within_limits(claim, state, total)
        if not state.template.reserves:
            return bits
        held = self.reservations.obtainable(claim, state.template, bits)
        return 0 if held is None else self.reservations.usable(held, state.template, bits)

    def _start(self, pod_data: PodData, state: ClaimState) -> NewClaim | None:
        template = state.template
        if not self.needs_exact_check(template):
            return NewClaim(state)
        bits = self.buyable(None, state, pod_data.pod_class.want)
        if not bits:
            # In strict mode a pod waits for reserved capacity instead of falling back to on-demand in the
            # same run.
            if template.reserves:
                fine = self.within_limits(None, state, pod_data.pod_class.want)
                self.must_wait |= self.reservations.obtainable(None, template, fine) is None
            return None
        found = distinct_values(template, bits)
        if not violates_min_values(found, template.min_values):
            return NewClaim(state, dict(template.min_values))
        # minValuesPolicy BestEffort lowers minValues to what is left instead of refusing the pod:
        # https://karpenter.sh/docs/reference/settings/
        if self.problem.options.min_values == "Strict":
            return None
        return NewClaim(
            state, {key: min(found[key], least) for key, least in template.min_values.items()}, relaxed=True
        )

    def beside_daemon_ports(self, pod_data: PodData, state: ClaimState) -> ClaimState | None:
        """Return the state without the types on which a daemon has a host port of the pod."""
        template = state.template
        if not pod_data.pod_class.ports or not template.has_daemon_ports:
            return state
        free = np.array(
            [not ports.conflicts_with(pod_data.pod_class.ports) for ports in template.taken_ports], bool
        )
        bits: Bits = template.table.keep_types(state.bits, free)
        return self.states.of(template, state.requirements, bits) if bits else None

    def has_devices(self, pod_data: PodData, number: int, state: ClaimState | None = None) -> bool:
        """Return whether a node, or a claim that stays in `state`, has devices for one more pod."""
        if self.devices is None or not pod_data.pod_class.devices:
            return True
        claim = number - self.nodes.count
        total = self.claims.total(claim, pod_data.pod_class.want) if state is not None else ()
        return self.devices.takes_again(pod_data.pod_class, number, state, total)

    def lacks_devices(self, pod_data: PodData, number: int) -> bool:
        """Return whether a bin had no devices for such a pod and cannot have any now."""
        if (
            self.devices is None
            or not pod_data.pod_class.devices
            or not self.devices.refuses(pod_data.pod_class, number)
        ):
            return False
        # Where topology or volumes may lead the pod to another zone, a claim might still have some.
        return number < self.nodes.count or not (pod_data.demands.domains or pod_data.volumes)

    def with_devices(
        self, pod_data: PodData, number: int, state: ClaimState | None, total: tuple[int, ...]
    ) -> ClaimState | None:
        """Return what a claim becomes by allocating the devices of one more pod."""
        if self.devices is None or not pod_data.pod_class.devices or state is None:
            return state
        return self.devices.narrowed(pod_data.pod_class, number, state, total)

    def _ports_on(self, number: int) -> HostPortUsage:
        found = self._ports.get(number)
        if found is None:
            taken = self.problem.nodes[number].ports if number < self.nodes.count else ()
            found = self._ports[number] = HostPortUsage(taken)
        return found

    def _volumes_on(self, node: int) -> dict[str, frozenset[str]]:
        if node not in self._volumes:
            self._volumes[node] = dict(self.problem.nodes[node].volumes)
        return self._volumes[node]
