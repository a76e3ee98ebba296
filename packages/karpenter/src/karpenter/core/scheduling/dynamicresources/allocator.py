"""
Devices for the pods of one run: what a bin would become by giving a pod its devices, and the giving.

A run asks before it places a pod and tells when it has. A pod fits a node when every claim of it
has devices there; a claim of the run is narrowed to the kinds of machine, and to the places, for
which that is so. The order of kinds is by price: what the cheapest needs is settled first, and
a dearer kind may narrow the claim further but never rules out a cheaper one.

Remembers what was refused until something is given back.

Everything about devices that a run never changes: pools, strands, and what is held already.

Made once per problem. Kinds of machine that bring along the same devices are one strand, so that
a catalogue of a thousand types is a handful of questions.
"""

from __future__ import annotations

from collections import Counter
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from karpenter.core.scheduling.dynamicresources.allocationtracker import AllocationTracker, prior_allocations
from karpenter.core.scheduling.dynamicresources.pool import (
    NO_TEMPLATE_DEVICES,
    CandidateDevices,
    PublishedPools,
    TemplateDevices,
    published_pools,
)
from karpenter.core.scheduling.dynamicresources.request import compile_claim
from karpenter.core.scheduling.dynamicresources.search import (
    MAX_STEPS,
    DeviceSearch,
    FoundDevices,
    PendingClaim,
    StepBudget,
)
from karpenter.core.scheduling.dynamicresources.selectors import SelectorMatcher
from karpenter.core.scheduling.dynamicresources.types import ClaimTarget, NodeTarget, NodeTerms, PodClaim
from karpenter.core.scheduling.pack.nodeclaim import ClaimState
from karpenter.core.scheduling.pack.reservationmanager import fitting_offerings

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from karpenter.api.pod import Pod
    from karpenter.core.model.catalog import InstanceType
    from karpenter.core.scheduling.dynamicresources.request import ParsedClaim
    from karpenter.core.scheduling.dynamicresources.types import (
        DeviceInfo,
        DynamicResources,
        PodClaims,
        PoolId,
    )
    from karpenter.core.scheduling.encode.nodeclaimtemplate import Template
    from karpenter.core.scheduling.encode.offerings import Bits
    from karpenter.core.scheduling.encode.pod_classes import PodClass
    from karpenter.core.scheduling.pack.nodeclaim import ClaimStates
    from karpenter.core.scheduling.problem import ExistingNode


_NODE_DEVICE_SET: Final = 0
_NO_BIN: Final = -1
_MAX_STEPS: Final = 10 * MAX_STEPS
"""How many devices one pod may look at for one bin, whatever it may become."""


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """What the next pod of a class would be given on a bin."""

    of: int
    bin: int
    state: ClaimState | None
    """What the claim becomes; None for a node."""

    found: dict[int, FoundDevices]
    claims: tuple[PodClaim, ...]
    """The claims that are given devices."""


class _Demand(msgspec.Struct, frozen=True):
    """What a pod still needs on a bin."""

    reaches: list[NodeTerms]
    wishes: list[PendingClaim]
    claims: tuple[PodClaim, ...]


class Allocator:
    """Who gets which devices."""

    def __init__(self, world: DeviceInventory, states: ClaimStates, nodes: Sequence[ExistingNode]) -> None:
        self._world = world
        self._states = states
        self._nodes = nodes
        self._ledger = world.fresh_ledger()
        self._placed: Counter[int] = Counter()
        self._refused: dict[tuple[int, int, int], tuple[int, str]] = {}
        self._in_vain: dict[tuple[int, int], int] = {}
        self._proposal: Proposal | None = None

    def refuses(self, of: PodClass, bin_: int) -> bool:
        """Return whether a bin had no devices for a pod of a class, and nothing was given back since."""
        return self._in_vain.get((of.number, bin_)) == self._ledger.stamp

    def fits_node(self, of: PodClass, node: int) -> bool:
        """Return whether an existing node has devices for the next pod of a class."""
        known = self._refused.get((of.number, node, -1))
        if known is not None and known[0] == self._ledger.stamp:
            return False
        demand, why = self._demand(of, node)
        found = None
        if demand is not None:
            place, stock = self._world.node(self._nodes[node])
            search = DeviceSearch(stock, self._ledger, node, _NODE_DEVICE_SET, StepBudget())
            found = search.run(place, demand.reaches, demand.wishes)
        if demand is None or found is None:
            return self._refuse((of.number, node, -1), why)
        self._proposal = Proposal(
            of=of.number, bin=node, state=None, found={_NODE_DEVICE_SET: found}, claims=demand.claims
        )
        return True

    def narrowed(self, of: PodClass, bin_: int, state: ClaimState, total: Sequence[int]) -> ClaimState | None:
        """Return what a claim becomes by giving the next pod of a class its devices; None if it cannot."""
        key = of.number, bin_, state.number
        known = self._refused.get(key)
        if known is not None and known[0] == self._ledger.stamp:
            return None
        demand, why = self._demand(of, bin_)
        if demand is not None:
            found, reached, why = self._spread(demand, bin_, state, fitting_offerings(state, total))
            if found:
                self._proposal = Proposal(
                    of=of.number, bin=bin_, state=reached, found=found, claims=demand.claims
                )
                return reached
        self._refuse(key, why)
        return None

    def commit(self, of: PodClass, bin_: int, state: ClaimState | None, total: Sequence[int]) -> None:
        """Give the next pod of a class its devices on a bin; it was asked before whether that can be."""
        if not self._is_proposed(of, bin_, state):
            assert self.takes_again(of, bin_, state, total)
        proposal = self._proposal
        assert proposal is not None
        self._proposal = None
        self._placed[of.number] += 1
        for strand, found in proposal.found.items():
            self._ledger.commit(bin_, strand, found.grants)
        for claim in proposal.claims:
            given = {
                strand: tuple(grant for grant in found.grants if grant.claim == claim.key)
                for strand, found in proposal.found.items()
            }
            self._ledger.seat(claim.key, bin_, given, shared=not claim.own)
        self._ledger.keep(bin_, proposal.found.keys())

    def takes_again(self, of: PodClass, bin_: int, state: ClaimState | None, total: Sequence[int]) -> bool:
        """Return whether a pod can be placed as it was in another run: on a node, or on a claim as it is."""
        if state is None:
            return self.fits_node(of, bin_)
        return self.narrowed(of, bin_, state, total) is state

    def put(self, of: PodClass, bin_: int, state: ClaimState, total: Sequence[int]) -> None:
        """
        Note that a claim has taken a pod and is in `state` now.

        What it was promised as a machine that it cannot become any more is given back.
        """
        if of.devices:
            self.commit(of, bin_, state, total)
        if self._ledger.strands(bin_) is not None:
            kinds = state.template.universe.types_of(fitting_offerings(state, total))
            self._ledger.keep(bin_, self._world.strands(state.template).kinds(kinds).keys())

    def drivers(self, bin_: int) -> list[str]:
        """Return the drivers that must run on a new machine before its pods can."""
        return self._ledger.drivers(bin_)

    def shortfall(self, of: PodClass, bin_: int, states: Iterable[ClaimState]) -> str:
        """Return why a claim that was narrowed to none of some states could not be; nothing if it could."""
        whys = []
        for state in states:
            if self.narrowed(of, bin_, state, of.want) is not None:
                return ""
            whys.append(self._refused[of.number, bin_, state.number][1])
        return whys[0]

    def possible(self, of: PodClass, state: ClaimState) -> Bits:
        """Return the offerings of a state on which a pod of a class could have its devices, others aside."""
        claims = self._world.needs(of.pods[0]).claims if of.devices else ()
        fresh = [claim for claim in claims if not self._world.is_settled(claim)]
        if not fresh or not all(claim.own for claim in fresh):  # somebody else may bring the devices
            return state.bits
        reaches = [claim.reach for claim in claims if claim.reach is not None and claim not in fresh]
        wishes = [self._world.wish(claim) for claim in fresh]
        strands, ledger, bits = self._world.strands(state.template), self._world.fresh_ledger(), 0
        for number, kinds in strands.kinds(state.template.universe.types_of(state.bits)).items():
            whole = _masks(state, state.bits, kinds)[2]
            search = DeviceSearch(strands.stocks[number], ledger, _NO_BIN, number, StepBudget())
            if search.run(ClaimTarget(self._states, state, [whole]), reaches, wishes) is not None:
                bits |= whole
            elif search.is_given_up:
                return state.bits
        return bits

    def _refuse(self, key: tuple[int, int, int], why: str) -> bool:
        self._refused[key] = self._ledger.stamp, why
        self._in_vain[key[:2]] = self._ledger.stamp
        return False

    def _is_proposed(self, of: PodClass, bin_: int, state: ClaimState | None) -> bool:
        known = self._proposal
        return known is not None and (known.of, known.bin, known.state) == (of.number, bin_, state)

    def _demand(self, of: PodClass, bin_: int) -> tuple[_Demand | None, str]:
        """Return what the next pod of a class still needs on a bin, or why nothing there can help."""
        reaches: list[NodeTerms] = []
        wishes: list[PendingClaim] = []
        claims: list[PodClaim] = []
        for claim in self._world.needs(of.pods[self._placed[of.number]]).claims:
            seat = self._ledger.seats.get(claim.key)
            if self._world.is_settled(claim):
                assert claim.reach is not None
                reaches.append(claim.reach)
            elif seat is None:
                wishes.append(self._world.wish(claim))
                claims.append(claim)
            elif seat.bin != bin_ and seat.stays:
                return None, f"claim {claim.name} has its devices on another node"
            elif seat.bin != bin_:
                reaches.append((seat.requirements,))
        return _Demand(reaches, wishes, tuple(claims)), ""

    def _spread(
        self, demand: _Demand, bin_: int, state: ClaimState, bits: Bits
    ) -> tuple[dict[int, FoundDevices], ClaimState, str]:
        """Return the devices of each strand that can have them, what is left of the claim, or why nothing."""
        universe = state.template.universe
        strands = self._world.strands(state.template)
        kinds = strands.kinds(universe.types_of(bits))
        masks = {number: _masks(state, bits, mine) for number, mine in kinds.items()}
        found: dict[int, FoundDevices] = {}
        kept: list[Bits] = []
        left = _MAX_STEPS
        best, why = (-2, 0), "the devices that its claims have are out of reach"
        for number in sorted(masks, key=lambda each: masks[each][0]):
            _, first, whole = masks[number]
            search = DeviceSearch(
                strands.stocks[number], self._ledger, bin_, number, StepBudget(min(MAX_STEPS, left))
            )
            # As the cheapest kind of the strand if that can be, else as any of them.
            for must in dict.fromkeys((first, whole)):
                if not state.bits & must:
                    continue
                place = ClaimTarget(self._states, state, [*kept, must])
                answer = search.run(place, demand.reaches, demand.wishes)
                if answer is not None:
                    assert isinstance(answer.place, ClaimTarget)
                    found[number], state = answer, answer.place.state
                    kept.append(whole)
                if answer is not None or not search.is_out_of_place:
                    break
            left -= search.steps.spent
            if search.reached > best and search.shortfall:
                best, why = search.reached, search.shortfall
        if found:
            remaining = reduce(or_, kept) & state.bits
            state = self._states.of(state.template, state.requirements, remaining)
        return found, state, why


def _masks(
    state: ClaimState, bits: Bits, kinds: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> tuple[float, Bits, Bits]:
    """Return the lowest price of some kinds, the offerings of the kind that has it, and those of all."""
    universe = state.template.universe
    wanted = np.zeros(len(universe.types), bool)
    wanted[kinds] = True
    whole = universe.keep_types(bits, wanted)
    offerings = np.flatnonzero(universe.flags(whole))
    cheapest = offerings[universe.price[offerings].argmin()]
    wanted[:] = False
    wanted[universe.owner[cheapest]] = True
    return float(universe.price[cheapest]), universe.keep_types(bits, wanted), whole


_ENCODER: Final = msgspec.json.Encoder(order="sorted")


class DeviceSets:
    """The kinds of one pool, by the devices that they bring along."""

    def __init__(self, types: Sequence[InstanceType], world: DeviceInventory) -> None:
        numbers: dict[bytes, int] = {}
        self.of = np.zeros(len(types), np.int64)
        """``of[kind]``."""

        self.stocks: list[CandidateDevices] = []
        for kind, each in enumerate(types):
            content = _ENCODER.encode(each.devices)
            number = numbers.setdefault(content, len(numbers))
            if number == len(self.stocks):
                self.stocks.append(world.stock_of(TemplateDevices(each.devices)))
            self.of[kind] = number

    def kinds(self, kinds: NDArray[np.int64]) -> dict[int, NDArray[np.int64]]:
        """Return some kinds by their strand."""
        mine = self.of[kinds]
        return {number: kinds[mine == number] for number in np.unique(mine).tolist()}


class DeviceInventory:
    """Devices as one problem describes them."""

    def __init__(self, devices: DynamicResources, pods: Sequence[Pod], templates: Sequence[Template]) -> None:
        self._devices = devices
        self._matcher = SelectorMatcher()
        self._published = PublishedPools(published_pools(devices.slices))
        self._local: dict[str, list[DeviceInfo]] = {}
        self._general: list[DeviceInfo] = []
        sound = [device for pool in self._published.sound for device in pool.devices]
        for device in sound:
            (self._local.setdefault(device.home, []) if device.home else self._general).append(device)
        self._let_go = devices.let_go(pods)
        self._before = prior_allocations(devices.holdings, self._let_go)
        self._drawn: dict[tuple[PoolId, str, str], int] = {}
        held = self._before.devices
        for device in sound:
            for draw in device.draws if device.id in held else ():
                key = device.id.pool_id, draw.counter_set, draw.counter
                self._drawn[key] = self._drawn.get(key, 0) + draw.amount
        self._strands = {each.number: DeviceSets(each.pool.types, self) for each in templates}
        self._nodes: dict[str, tuple[NodeTarget, CandidateDevices]] = {}
        self._wanted: dict[bytes, ParsedClaim] = {}

    def needs(self, pod: Pod) -> PodClaims:
        """Return the claims of a pod that has some."""
        return self._devices.needs[pod.key]

    def is_settled(self, claim: PodClaim) -> bool:
        """Return whether a claim has devices and keeps them."""
        return claim.reach is not None and claim.key not in self._let_go

    def wish(self, claim: PodClaim) -> PendingClaim:
        """Return what a claim asks for; claims made alike ask for the very same thing."""
        content = _ENCODER.encode(claim.devices)
        if content not in self._wanted:
            self._wanted[content] = compile_claim(claim.devices, self._devices.classes)
        return PendingClaim(claim.key, claim.name, self._wanted[content])

    def fresh_ledger(self) -> AllocationTracker:
        """Return who has what before anything is placed."""
        return AllocationTracker(self._before, self._drawn)

    def strands(self, template: Template) -> DeviceSets:
        """Return the strands of a pool."""
        return self._strands[template.number]

    def stock_of(self, templates: TemplateDevices) -> CandidateDevices:
        """Return what a new machine has to choose from."""
        return CandidateDevices(self._matcher, self._published, self._general, templates)

    def node(self, node: ExistingNode) -> tuple[NodeTarget, CandidateDevices]:
        """Return a node that is there, and what it has to choose from."""
        if node.name not in self._nodes:
            place = NodeTarget(node)
            near = [*self._local.get(node.name, ())]
            near += [d for d in self._general if any(place.narrow(term) is not None for term in d.reach)]
            coming = self._devices.templates.get(node.name)
            templates = TemplateDevices(coming) if coming is not None else NO_TEMPLATE_DEVICES
            self._nodes[node.name] = place, CandidateDevices(self._matcher, self._published, near, templates)
        return self._nodes[node.name]
