"""
Allocates devices for the pods of one run: what a bin becomes by serving a pod's claims, and the allocation.

The scheduler asks before it places a pod and commits when it has. A pod fits a node when every claim of it
has devices there; a claim of the run is narrowed to the instance types, and to the zones, for which that is
so. Instance types are served by price: the cheapest first; a dearer one may narrow the claim further but
never rules out a cheaper one.

The search itself is in :mod:`~karpenter.core.scheduling.dynamicresources.search`, the bookkeeping in
:mod:`~karpenter.core.scheduling.dynamicresources.allocationtracker`.
"""

from __future__ import annotations

from collections import Counter
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from karpenter.api.labels import HOSTNAME
from karpenter.core.scheduling.dynamicresources.search import (
    MAX_STEPS,
    DeviceSearch,
    FoundDevices,
    PendingClaim,
    StepBudget,
)
from karpenter.core.scheduling.dynamicresources.types import NODE_NAME, NodeTerms, PodClaim
from karpenter.core.scheduling.pack.nodeclaim import ClaimState, ClaimStates
from karpenter.core.scheduling.pack.reservationmanager import fitting_offerings

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from karpenter.core.model.requirements import Requirements
    from karpenter.core.scheduling.encode.devices import DeviceInventory
    from karpenter.core.scheduling.encode.encode import PodClass
    from karpenter.core.scheduling.encode.offerings import Bits
    from karpenter.core.scheduling.problem import ExistingNode


_NODE_DEVICE_SET: Final = 0
_NO_BIN: Final = -1
_NOT_BEGUN: Final = (-2, 0)
"""Less than any search reaches."""

_MAX_STEPS: Final = 10 * MAX_STEPS
"""How many devices one pod may look at for one bin, over all its device sets."""


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """The devices that the next pod of a class would be allocated on a bin."""

    of: int
    bin: int
    state: ClaimState | None
    """What the claim becomes; None for a node."""

    found: dict[int, FoundDevices]
    claims: tuple[PodClaim, ...]
    """The claims that are allocated devices."""


class _Demand(msgspec.Struct, frozen=True):
    """What a pod still needs on a bin: places that its claims are bound to, and claims without devices."""

    required_terms: list[NodeTerms]
    pending_claims: list[PendingClaim]
    claims: tuple[PodClaim, ...]


class Allocator:
    """Allocates devices to the pods of one run, and remembers what was refused until devices are released."""

    def __init__(
        self, inventory: DeviceInventory, states: ClaimStates, nodes: Sequence[ExistingNode]
    ) -> None:
        self._inventory = inventory
        self._states = states
        self._nodes = nodes
        self._tracker = inventory.fresh_tracker()
        self._placed: Counter[int] = Counter()
        self._refused: dict[tuple[int, int, int], tuple[int, str]] = {}
        self._exhausted: dict[tuple[int, int], int] = {}
        self._proposal: Proposal | None = None

    def refuses(self, of: PodClass, bin_: int) -> bool:
        """Return whether a bin had no devices for a pod of a class, and none were released since."""
        return self._exhausted.get((of.number, bin_)) == self._tracker.version

    def fits_node(self, of: PodClass, node: int) -> bool:
        """Return whether an existing node has devices for the next pod of a class."""
        known = self._refused.get((of.number, node, -1))
        if known is not None and known[0] == self._tracker.version:
            return False
        demand, reason = self._demand(of, node)
        found = None
        if demand is not None:
            target, candidates = self._inventory.node(self._nodes[node])
            search = DeviceSearch(candidates, self._tracker, node, _NODE_DEVICE_SET, StepBudget())
            found = search.run(target, demand.required_terms, demand.pending_claims)
        if demand is None or found is None:
            return self._refuse((of.number, node, -1), reason)
        self._proposal = Proposal(
            of=of.number, bin=node, state=None, found={_NODE_DEVICE_SET: found}, claims=demand.claims
        )
        return True

    def narrowed(self, of: PodClass, bin_: int, state: ClaimState, total: Sequence[int]) -> ClaimState | None:
        """Return what a claim becomes with devices for the next pod of a class; None if it has none."""
        key = of.number, bin_, state.number
        known = self._refused.get(key)
        if known is not None and known[0] == self._tracker.version:
            return None
        demand, reason = self._demand(of, bin_)
        if demand is not None:
            found, reached, reason = self._spread(demand, bin_, state, fitting_offerings(state, total))
            if found:
                self._proposal = Proposal(
                    of=of.number, bin=bin_, state=reached, found=found, claims=demand.claims
                )
                return reached
        self._refuse(key, reason)
        return None

    def commit(self, of: PodClass, bin_: int, state: ClaimState | None, total: Sequence[int]) -> None:
        """Allocate the devices of the next pod of a class on a bin, which was found possible before."""
        if not self._is_proposed(of, bin_, state):
            assert self.takes_again(of, bin_, state, total)
        proposal = self._proposal
        assert proposal is not None
        self._proposal = None
        self._placed[of.number] += 1
        for device_set, found in proposal.found.items():
            self._tracker.commit(bin_, device_set, found.allocations)
        for claim in proposal.claims:
            given = {
                device_set: tuple(
                    allocation for allocation in found.allocations if allocation.claim == claim.key
                )
                for device_set, found in proposal.found.items()
            }
            self._tracker.record_claim(claim.key, bin_, given, shared=not claim.generated)
        self._tracker.keep(bin_, proposal.found.keys())

    def takes_again(self, of: PodClass, bin_: int, state: ClaimState | None, total: Sequence[int]) -> bool:
        """Return whether a pod can be placed as it was in another run: on a node, or on a claim as it is."""
        if state is None:
            return self.fits_node(of, bin_)
        return self.narrowed(of, bin_, state, total) is state

    def put(self, of: PodClass, bin_: int, state: ClaimState, total: Sequence[int]) -> None:
        """
        Record that a claim has taken a pod and is in `state` now.

        Devices of instance types that it cannot become any more are released.
        """
        if of.devices:
            self.commit(of, bin_, state, total)
        if self._tracker.device_sets(bin_) is not None:
            kinds = state.template.table.types_of(fitting_offerings(state, total))
            self._tracker.keep(bin_, self._inventory.device_sets(state.template).kinds(kinds).keys())

    def drivers(self, bin_: int) -> list[str]:
        """Return the drivers that must run on a new node before its pods can."""
        return self._tracker.drivers(bin_)

    def shortfall(self, of: PodClass, bin_: int, states: Iterable[ClaimState]) -> str:
        """Return why a claim that was narrowed to none of some states could not be; nothing if it could."""
        reasons = []
        for state in states:
            if self.narrowed(of, bin_, state, of.want) is not None:
                return ""
            reasons.append(self._refused[of.number, bin_, state.number][1])
        return reasons[0]

    def possible(self, of: PodClass, state: ClaimState) -> Bits:
        """Return the offerings of a state on which a pod could have its devices, other pods aside."""
        claims = self._inventory.pod_claims(of.pods[0]).claims if of.devices else ()
        fresh = [claim for claim in claims if not self._inventory.is_allocated(claim)]
        if not fresh or not all(
            claim.generated for claim in fresh
        ):  # another pod may have the claim allocated
            return state.bits
        required_terms = [
            claim.node_terms for claim in claims if claim.node_terms is not None and claim not in fresh
        ]
        pending_claims = [self._inventory.pending(claim) for claim in fresh]
        device_sets, tracker, bits = (
            self._inventory.device_sets(state.template),
            self._inventory.fresh_tracker(),
            0,
        )
        for number, kinds in device_sets.kinds(state.template.table.types_of(state.bits)).items():
            whole = _masks(state, state.bits, kinds)[2]
            search = DeviceSearch(device_sets.candidates[number], tracker, _NO_BIN, number, StepBudget())
            if (
                search.run(ClaimTarget(self._states, state, [whole]), required_terms, pending_claims)
                is not None
            ):
                bits |= whole
            elif search.is_given_up:
                return state.bits
        return bits

    def _refuse(self, key: tuple[int, int, int], reason: str) -> bool:
        self._refused[key] = self._tracker.version, reason
        self._exhausted[key[:2]] = self._tracker.version
        return False

    def _is_proposed(self, of: PodClass, bin_: int, state: ClaimState | None) -> bool:
        known = self._proposal
        return known is not None and (known.of, known.bin, known.state) == (of.number, bin_, state)

    def _demand(self, of: PodClass, bin_: int) -> tuple[_Demand | None, str]:
        """Return what the next pod of a class still needs on a bin, or why the bin cannot serve it."""
        required_terms: list[NodeTerms] = []
        pending_claims: list[PendingClaim] = []
        claims: list[PodClaim] = []
        for claim in self._inventory.pod_claims(of.pods[self._placed[of.number]]).claims:
            claim_allocation = self._tracker.claim_allocations.get(claim.key)
            if self._inventory.is_allocated(claim):
                assert claim.node_terms is not None
                required_terms.append(claim.node_terms)
            elif claim_allocation is None:
                pending_claims.append(self._inventory.pending(claim))
                claims.append(claim)
            elif claim_allocation.bin != bin_ and claim_allocation.is_node_local:
                return None, f"claim {claim.name} has its devices on another node"
            elif claim_allocation.bin != bin_:
                required_terms.append((claim_allocation.requirements,))
        return _Demand(required_terms, pending_claims, tuple(claims)), ""

    def _spread(
        self, demand: _Demand, bin_: int, state: ClaimState, bits: Bits
    ) -> tuple[dict[int, FoundDevices], ClaimState, str]:
        """Return the devices of each device set that has them, what is left of the claim, or why none has."""
        table = state.template.table
        device_sets = self._inventory.device_sets(state.template)
        kinds = device_sets.kinds(table.types_of(bits))
        masks = {number: _masks(state, bits, mine) for number, mine in kinds.items()}
        found: dict[int, FoundDevices] = {}
        kept: list[Bits] = []
        left = _MAX_STEPS
        best, reason = _NOT_BEGUN, "the devices that its claims have are out of reach"
        for number in sorted(masks, key=lambda each: masks[each][0]):
            _, first, whole = masks[number]
            search = DeviceSearch(
                device_sets.candidates[number], self._tracker, bin_, number, StepBudget(min(MAX_STEPS, left))
            )
            # The cheapest instance type of the device set comes first, then all of them.
            for must in dict.fromkeys((first, whole)):
                if not state.bits & must:
                    continue
                target = ClaimTarget(self._states, state, [*kept, must])
                answer = search.run(target, demand.required_terms, demand.pending_claims)
                if answer is not None:
                    assert isinstance(answer.target, ClaimTarget)
                    found[number], state = answer, answer.target.state
                    kept.append(whole)
                if answer is not None or not search.is_out_of_reach:
                    break
            left -= search.steps.spent
            if search.reached > best and search.shortfall:
                best, reason = search.reached, search.shortfall
        if found:
            remaining = reduce(or_, kept) & state.bits
            state = self._states.of(state.template, state.requirements, remaining)
        return found, state, reason


def _masks(
    state: ClaimState, bits: Bits, kinds: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> tuple[float, Bits, Bits]:
    """Return the lowest price of some types, the offerings of the type that has it, and those of all."""
    table = state.template.table
    wanted = np.zeros(len(table.types), bool)
    wanted[kinds] = True
    whole = table.keep_types(bits, wanted)
    offerings = np.flatnonzero(table.flags(whole))
    cheapest = offerings[table.price[offerings].argmin()]
    wanted[:] = False
    wanted[table.owner[cheapest]] = True
    return float(table.price[cheapest]), table.keep_types(bits, wanted), whole


class ClaimTarget:
    """A claim of the run; a device that only one zone reaches narrows it to that zone."""

    __slots__ = ("_must", "_states", "state")

    def __init__(self, states: ClaimStates, state: ClaimState, must: Sequence[Bits]) -> None:
        """Some offering of each set in `must` has to stay possible."""
        self._states = states
        self._must = must
        self.state = state

    def narrow(self, wanted: Requirements) -> ClaimTarget | None:
        """Return the claim narrowed; a node that is not launched yet has no name."""
        for key in (NODE_NAME, HOSTNAME):
            if key in wanted:
                if not wanted[key].complement:
                    return None
                wanted = wanted.without(key)
        state = self._states.step(self.state, wanted) if len(wanted) else self.state
        if state is None or not all(state.bits & each for each in self._must):
            return None
        return ClaimTarget(self._states, state, self._must)
