"""
One run of the solver: the bins, the counts, and the three moves a packer can make.

A packer may put a pod on an existing node, on a claim of this run, or open a claim. Each
move is checked here against everything that can forbid it, and recorded here in everything
that later moves depend on, so that no packer can produce an invalid plan.

Mutable and short-lived; made from a problem, read out as a plan.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from karpenter.core.model.hostportusage import first_conflict
from karpenter.core.scheduling.dynamicresources.allocator import Allocator
from karpenter.core.scheduling.encode.existingnode import NodeGroups, relevant_label_keys
from karpenter.core.scheduling.encode.offerings import amounts_of
from karpenter.core.scheduling.pack.bins import Claims, Nodes, PodPlacements
from karpenter.core.scheduling.pack.greedy import ResourceRatio
from karpenter.core.scheduling.pack.limits import pool_limits
from karpenter.core.scheduling.pack.nodeclaim import ClaimState, ClaimStates, Narrowings
from karpenter.core.scheduling.pack.reservationmanager import (
    ReservationManager,
    cheapest_types,
    distinct_values,
    fitting_offerings,
    violates_min_values,
)
from karpenter.core.scheduling.pack.topologygroup import TopologyCounts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from karpenter.core.model.hostportusage import HostPort
    from karpenter.core.scheduling.encode.encode import EncodedProblem
    from karpenter.core.scheduling.encode.nodeclaimtemplate import Template
    from karpenter.core.scheduling.encode.offerings import Bits
    from karpenter.core.scheduling.encode.preferences import PodData
    from karpenter.core.scheduling.pack.topologygroup import TopologyGroup


class NewClaim(msgspec.Struct, frozen=True):
    """How a new claim would start."""

    state: ClaimState
    least: dict[str, int] = {}
    """The minimum of values per key, lowered where the policy allows it."""

    relaxed: bool = False


class Scheduler:
    """The state of one search."""

    def __init__(self, encoded: EncodedProblem) -> None:
        problem = encoded.problem
        self.problem = problem
        self.encoded = encoded
        self.templates: Sequence[Template] = encoded.templates
        self.topology = encoded.fresh_topology()
        self.wishes = encoded.wishes(self.topology)
        every = {id(wish.reading): wish.reading for wishes in self.wishes.values() for wish in wishes}
        self.nodes = Nodes(amounts_of([node.free for node in problem.nodes], encoded.axis))
        usual = problem.options.usual
        self._likeness = ResourceRatio(encoded.axis, self.nodes.free, usual) if usual is not None else None
        self.kinds = NodeGroups(problem.nodes, relevant_label_keys(every.values()))
        self.quiet = np.array([node.quiet for node in problem.nodes], bool)
        self.states = ClaimStates(encoded.well_known)
        self.claims = Claims(len(encoded.axis))
        self._nothing = (0,) * len(encoded.axis)
        self.moves = PodPlacements()
        self.least: dict[int, dict[str, int]] = {}
        self.relaxed: set[int] = set()
        self.reservations = ReservationManager(self.templates, strict=problem.options.reserved == "strict")
        self.ledgers = pool_limits(self.templates)
        world = encoded.devices
        self.devices = Allocator(world, self.states, problem.nodes) if world is not None else None
        self._ports: dict[int, tuple[HostPort, ...]] = {}
        self._volumes: dict[int, dict[str, frozenset[str]]] = {}
        self._tallies = TopologyCounts(self.topology, problem.nodes)
        self._choices: dict[int, Narrowings] = {}
        self.stop = problem.options.stop or (lambda: False)
        self.is_complete = True
        """Whether every pod was looked at."""

        self.must_wait = False
        """Set when a pod was refused only because reservations are taken: it looks no further for now."""

    def choices(self, wish: PodData) -> Narrowings:
        """Return the ways of a wish, remembered."""
        found = self._choices.get(id(wish.reading))
        if found is None:
            found = self._choices[id(wish.reading)] = Narrowings(wish.reading, self.states)
        return found

    # Existing nodes.

    def nodes_for(self, wish: PodData) -> NDArray[np.int64]:
        """Return the existing nodes that suit a wish and have room, company aside, the best first."""
        suits = np.array([kind.suits(wish) for kind in self.kinds.all], bool)
        room: NDArray[np.bool_] = suits[self.kinds.of]
        if room.any():
            room = room & self.nodes.with_room(wish.of.want)
        return self.in_order(np.flatnonzero(room & ~self.quiet if wish.of.moved else room), wish)

    def in_order(self, nodes: NDArray[np.int64], wish: PodData) -> NDArray[np.int64]:
        """Return existing nodes as a wish should ask them, the best first."""
        if self._likeness is None:
            return nodes
        return self._likeness.ordered(nodes, self.nodes.free, wish.of.want)

    def node_takes(self, wish: PodData, node: int) -> bool:
        """Return whether an existing node takes one more pod; its kind has been asked before."""
        each = wish.of
        if not self.nodes.fits(node, each.want) or wish.host_cap(node) < 1:
            return False
        if not self.fits_ports(wish, node) or not self.fits_volumes(wish, node):
            return False
        return self.devices is None or self.has_devices(wish, node)

    def put_on_node(self, wish: PodData, node: int, count: int = 1) -> None:
        """Put pods on an existing node."""
        each = wish.of
        self.nodes.take(node, each.vector, count)
        if self.devices is not None and each.devices:
            self.devices.commit(each, node, None, ())
        self._record(wish, node, count)
        self._tallies.on_node(wish, node, count)
        if each.volumes.claims:
            held = self._volumes_on(node)
            for driver, claims in each.volumes.claims.items():
                held[driver] = held.get(driver, frozenset()) | claims

    def fits_ports(self, wish: PodData, number: int) -> bool:
        """Return whether the host ports of a pod are free on a bin."""
        return not wish.of.ports or first_conflict(wish.of.ports, self._ports_on(number)) is None

    def fits_volumes(self, wish: PodData, node: int) -> bool:
        """Return whether a node can attach the volumes of a pod."""
        limits = self.problem.nodes[node].volume_limits
        held = self._volumes_on(node) if wish.of.volumes.claims else {}
        return all(
            len(held.get(driver, frozenset()) | claims) <= limits[driver]
            for driver, claims in wish.of.volumes.claims.items()
            if driver in limits
        )

    # Claims of this run.

    def claim_way(self, wish: PodData, claim: int) -> ClaimState | None:
        """Return what a claim would become by taking one more pod, or None when it cannot."""
        number = self.nodes.count + claim
        if wish.host_cap(number) < 1 or not self.fits_ports(wish, number):
            return None
        total = self.claims.total(claim, wish.of.want)
        for state in self.choices(wish).ways(self.claims.states[claim]):
            narrowed = self.beside_daemon_ports(wish, state)
            if self.devices is not None:
                narrowed = self.with_devices(wish, number, narrowed, total)
            if narrowed is not None and self.holds(claim, narrowed, total):
                return narrowed
        return None

    def put_on_claim(self, wish: PodData, claim: int, state: ClaimState, count: int = 1) -> None:
        """Put pods on a claim, which thereby becomes `state`."""
        changed = state is not self.claims.states[claim]
        self.claims.take(claim, state, wish.of.vector, count)
        if self.devices is not None:
            total = self.claims.total(claim, self._nothing, 0)
            self.devices.put(wish.of, self.nodes.count + claim, state, total)
        if state.template.reserves:
            bits = self.within_limits(claim, state, self.claims.total(claim, wish.of.want, 0))
            found = self.reservations.obtainable(claim, state.template, bits)
            self.reservations.hold(claim, found or frozenset())
        ledger = self.ledgers.get(state.template.number)
        if ledger is not None and ledger.is_exact:
            ledger.take(claim, self._footing(claim))
        number = self.nodes.count + claim
        self._record(wish, number, count)
        self._tallies.on_claim(wish, claim, state, count, changed=changed)

    def opening(self, wish: PodData, template: Template) -> NewClaim | None:
        """Return how a new claim of a template for a pod would start, or None when it cannot."""
        if not self.may_open(template):
            return None
        if wish.host_cap(self.nodes.count + self.claims.count) < 1:
            return None
        for state in self.choices(wish).ways(self.base(template)):
            narrowed = self.beside_daemon_ports(wish, state)
            if self.devices is not None:
                number = self.nodes.count + self.claims.count
                narrowed = self.with_devices(wish, number, narrowed, wish.of.want)
            if narrowed is not None and narrowed.fits(wish.of.want):
                found = self._start(wish, narrowed)
                if found is not None:
                    return found
        return None

    def may_open(self, template: Template) -> bool:
        """Return whether the pool's limit on machines leaves one more."""
        ledger = self.ledgers.get(template.number)
        return ledger is None or ledger.allows_another

    def base(self, template: Template) -> ClaimState:
        """Return the state in which an empty claim of a template starts."""
        return self.states.of(template, template.pool.requirements, template.bits)

    def open(self, opening: NewClaim) -> int:
        """Open a claim; the first pod is yet to be put on it."""
        self.is_scarce(opening.state.template)  # a limit that may bind is counted before it does
        claim = self.claims.open(opening.state)
        if opening.least:
            self.least[claim] = opening.least
        if opening.relaxed:
            self.relaxed.add(claim)
        ledger = self.ledgers.get(opening.state.template.number)
        if ledger is not None:
            ledger.opened(claim)
        return claim

    def starts(self, state: ClaimState, want: Sequence[int]) -> bool:
        """Return whether a new claim in `state` could hold a first pod."""
        return (
            bool(self.buyable(None, state, want))
            if self.is_scarce(state.template)
            else state.fits(tuple(want))
        )

    def fill(self, wish: PodData, claim: int, state: ClaimState, count: int) -> int:
        """Put as many of `count` pods as fit on a claim, which becomes `state`; return how many."""
        most = min(count, wish.host_cap(self.nodes.count + claim))
        if not self.is_scarce(state.template):
            most = min(most, self.claims.room_for(claim, state, wish.of.want))
            if most > 0:
                self.put_on_claim(wish, claim, state, most)
            return most
        taken = 0
        while taken < most and self.holds(claim, state, self.claims.total(claim, wish.of.want)):
            self.put_on_claim(wish, claim, state)
            taken += 1
        return taken

    def is_scarce(self, template: Template) -> bool:
        """Whether every pod on a claim of this template needs an exact look at its types."""
        return not self.limits_bear(template, 1) or bool(template.min_values) or template.reserves

    def limits_bear(self, template: Template, claims: int) -> bool:
        """Whether so many claims of a template may become whatever they like within its pool's limits."""
        ledger = self.ledgers.get(template.number)
        if ledger is None:
            return True
        if not ledger.is_exact and ledger.is_tight():
            ledger.tighten(self._footing)
        return ledger.bears(claims)

    def may_release(self) -> bool:
        """Whether claims may give back something that other pods wait for, when they are narrowed."""
        return bool(self.reservations.left) or any(ledger.is_exact for ledger in self.ledgers.values())

    def _footing(self, claim: int) -> list[int]:
        """Return the types by which a claim counts against its pool's limits."""
        state = self.claims.states[claim]
        total = self.claims.total(claim, self._nothing, 0)
        if not self.is_scarce(state.template):
            return [state.cheapest(total)]
        bits = self.within_limits(claim, state, total)
        if state.template.reserves:
            bits = self.reservations.usable(self.reservations.held(claim), state.template, bits)
        return cheapest_types(state.template, bits, self.least.get(claim, {}))

    # What is shared.

    def counting(self, wish: PodData) -> tuple[TopologyGroup, ...]:
        """Return the groups that count the pods of a wish."""
        return self._tallies.groups(wish)

    def _record(self, wish: PodData, number: int, count: int) -> None:
        self.moves.add(wish, number, count)
        if wish.of.ports:
            self._ports[number] = self._ports_on(number) + wish.of.ports

    def holds(self, claim: int, state: ClaimState, total: tuple[int, ...]) -> bool:
        """Return whether a claim in `state` could hold `total`, limits and reservations considered."""
        if not self.is_scarce(state.template):
            return state.fits(total)
        bits = self.buyable(claim, state, total)
        return bool(bits) and not violates_min_values(
            distinct_values(state.template, bits), self.least.get(claim, {})
        )

    def within_limits(self, claim: int | None, state: ClaimState, total: Sequence[int]) -> Bits:
        """Return the offerings of a state that hold `total` and that the pool's limits can bear."""
        bits = fitting_offerings(state, total)
        ledger = self.ledgers.get(state.template.number)
        if ledger is not None and ledger.is_exact:
            bits = state.template.universe.keep_types(bits, ledger.bearable(claim))
        return bits

    def buyable(self, claim: int | None, state: ClaimState, total: Sequence[int]) -> Bits:
        """Return what a claim could be bought as, limits and reservations considered."""
        bits = self.within_limits(claim, state, total)
        if not state.template.reserves:
            return bits
        held = self.reservations.obtainable(claim, state.template, bits)
        return 0 if held is None else self.reservations.usable(held, state.template, bits)

    def _start(self, wish: PodData, state: ClaimState) -> NewClaim | None:
        template = state.template
        if not self.is_scarce(template):
            return NewClaim(state)
        bits = self.buyable(None, state, wish.of.want)
        if not bits:
            if template.reserves and self.reservations.strict:
                fine = self.within_limits(None, state, wish.of.want)
                self.must_wait |= bool(fine) and self.reservations.obtainable(None, template, fine) is None
            return None
        found = distinct_values(template, bits)
        if not violates_min_values(found, template.min_values):
            return NewClaim(state, dict(template.min_values))
        if self.problem.options.min_values == "Strict":
            return None
        return NewClaim(
            state, {key: min(found[key], least) for key, least in template.min_values.items()}, relaxed=True
        )

    def beside_daemon_ports(self, wish: PodData, state: ClaimState) -> ClaimState | None:
        """Leave out the types on which a daemon has taken a host port of the pod."""
        template = state.template
        if not wish.of.ports or not template.has_daemon_ports:
            return state
        free = np.array([first_conflict(wish.of.ports, ports) is None for ports in template.ports], bool)
        bits: Bits = template.universe.keep_types(state.bits, free)
        return self.states.of(template, state.requirements, bits) if bits else None

    def has_devices(self, wish: PodData, number: int, state: ClaimState | None = None) -> bool:
        """Return whether a node, or a claim that stays in `state`, has devices for one more pod."""
        if self.devices is None or not wish.of.devices:
            return True
        claim = number - self.nodes.count
        total = self.claims.total(claim, wish.of.want) if state is not None else ()
        return self.devices.takes_again(wish.of, number, state, total)

    def lacks_devices(self, wish: PodData, number: int) -> bool:
        """Return whether a bin was asked for devices in vain, so that asking again is as good as useless."""
        if self.devices is None or not wish.of.devices or not self.devices.refuses(wish.of, number):
            return False
        # Elsewhere, where company may let the pod go later, a claim might still have some.
        return number < self.nodes.count or not (wish.demands.domains or wish.volumes)

    def with_devices(
        self, wish: PodData, number: int, state: ClaimState | None, total: tuple[int, ...]
    ) -> ClaimState | None:
        """Return what a claim becomes by giving one more pod its devices."""
        if self.devices is None or not wish.of.devices or state is None:
            return state
        return self.devices.narrowed(wish.of, number, state, total)

    def _ports_on(self, number: int) -> tuple[HostPort, ...]:
        if number not in self._ports:
            self._ports[number] = self.problem.nodes[number].ports if number < self.nodes.count else ()
        return self._ports[number]

    def _volumes_on(self, node: int) -> dict[str, frozenset[str]]:
        if node not in self._volumes:
            self._volumes[node] = dict(self.problem.nodes[node].volumes)
        return self._volumes[node]
