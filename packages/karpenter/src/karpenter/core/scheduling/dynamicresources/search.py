"""
The search for devices: one for every request of every claim, depth first, within a step budget.

Claims are served in order, and requests within a claim; an alternative of a request is tried when the one
before it cannot be served; each slot of an alternative takes the first device that leaves a solution for the
rest. Slots of one alternative are interchangeable, so each set of devices is looked at once, not in every
order. Devices that the search cannot tell apart are tried once.

Looking at a device is a step, and the steps are limited; there is no clock, so the same question always ends
at the same step. Upstream's allocator ends after a time limit instead.

Which devices are free is in :mod:`.allocationtracker`; which match a request is in :mod:`.pool`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import msgspec

from karpenter.core.scheduling.dynamicresources.allocationtracker import AllocationTracker, DeviceAllocation
from karpenter.core.scheduling.dynamicresources.attributebindings import attribute_group
from karpenter.core.scheduling.dynamicresources.consumable_capacity import consumed_capacity, is_large_enough
from karpenter.core.scheduling.dynamicresources.request import (
    MAX_DEVICES_PER_CLAIM,
    MatchAttribute,
    ParsedClaim,
    ParsedRequest,
    RequestAlternative,
)
from karpenter.core.scheduling.dynamicresources.types import (
    AllocationTarget,
    Attribute,
    DeviceId,
    DeviceInfo,
    NodeTerms,
    PoolId,
)

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from karpenter.core.scheduling.dynamicresources.pool import CandidateDevices

AttributeValue: TypeAlias = "Attribute | int"
"""What devices under a matchAttribute share: a value, or the number of the group that will have one value."""


class AllocationPath:
    """The devices chosen so far for one bin as one device set; the last choice can be undone exactly."""

    def __init__(
        self,
        target: AllocationTarget,
        candidates: CandidateDevices,
        tracker: AllocationTracker,
        bin_: int,
        device_set: int,
    ) -> None:
        self.target = target
        self.allocations: list[DeviceAllocation] = []
        self._candidates = candidates
        self._tracker = tracker
        self._at = bin_, device_set
        self._targets: list[AllocationTarget] = []
        self._chosen: dict[DeviceId, int] = {}
        self._capacity: dict[tuple[DeviceId, str], int] = {}
        self._counters: dict[tuple[PoolId, str, str], int] = {}
        self._values: dict[tuple[str, int], AttributeValue] = {}
        self._set_values: list[list[tuple[str, int]]] = []

    def offer(self, alternative: RequestAlternative, device: DeviceInfo) -> dict[str, int] | None:
        """Return the capacity that a request would consume of a device, or None when it cannot have it."""
        if alternative.admin:
            return {}
        if not device.shared:
            free = device.id not in self._chosen and self._tracker.is_free(device, *self._at)
            fits = free and is_large_enough(device, alternative.capacity) and self._can_consume(device)
            return {} if fits else None
        shareable = self._tracker.is_shareable(device)
        found = consumed_capacity(device, alternative.capacity) if shareable else None
        if found is None or not all(self._has(device, name, amount) for name, amount in found.items()):
            return None
        return found if self._can_consume(device) else None

    def agrees(
        self,
        claim: str,
        constraints: Sequence[MatchAttribute],
        alternative: RequestAlternative,
        device: DeviceInfo,
    ) -> bool:
        """Return whether a device has the attribute values of the devices chosen before."""
        for number, each in enumerate(constraints):
            if each.covers(alternative):
                value = self.attribute_value(each, device)
                if value is None or self._values.get((claim, number), value) != value:
                    return False
        return True

    def take(
        self,
        allocation: DeviceAllocation,
        constraints: Sequence[MatchAttribute],
        alternative: RequestAlternative,
        target: AllocationTarget,
    ) -> None:
        """Choose a device that :meth:`offer` and :meth:`agrees` allow."""
        self._targets.append(self.target)
        self.target = target
        self.allocations.append(allocation)
        newly_set = []
        for number, each in enumerate(constraints):
            key = allocation.claim, number
            if each.covers(alternative) and key not in self._values:
                value = self.attribute_value(each, allocation.device)
                assert value is not None
                self._values[key] = value
                newly_set.append(key)
        self._set_values.append(newly_set)
        if not allocation.admin:
            self._count(allocation, 1)

    def undo(self) -> None:
        allocation = self.allocations.pop()
        self.target = self._targets.pop()
        for key in self._set_values.pop():
            del self._values[key]
        if not allocation.admin:
            self._count(allocation, -1)

    def _count(self, allocation: DeviceAllocation, sign: int) -> None:
        device = allocation.device
        times = self._chosen.get(device.id, 0) + sign
        self._chosen[device.id] = times
        if times == 0:
            del self._chosen[device.id]
        for name, amount in allocation.consumed_capacity.items():
            self._capacity[device.id, name] = self._capacity.get((device.id, name), 0) + sign * amount
        # A shared device consumes the counters of its pool once, however many claims have a share of it.
        if times == (1 if sign > 0 else 0) and not self._tracker.is_consuming(device, *self._at):
            for each in device.consumes_counters:
                key = device.id.pool_id, each.counter_set, each.counter
                self._counters[key] = self._counters.get(key, 0) + sign * each.amount

    def _has(self, device: DeviceInfo, name: str, amount: int) -> bool:
        used = self._tracker.capacity_used(device, name, *self._at)
        return used + self._capacity.get((device.id, name), 0) + amount <= device.capacity[name].value

    def _can_consume(self, device: DeviceInfo) -> bool:
        """Return whether the counters of the pool allow the device."""
        consumes = device.consumes_counters
        if not consumes or device.id in self._chosen or self._tracker.is_consuming(device, *self._at):
            return True
        pool = device.id.pool_id
        for each in consumes:
            total = self._candidates.counters(pool)[each.counter_set, each.counter]
            used = self._tracker.counter_used(device, each, *self._at)
            used += self._counters.get((pool, each.counter_set, each.counter), 0)
            if used + each.amount > total:
                return False
        return True

    def attribute_value(self, each: MatchAttribute, device: DeviceInfo) -> AttributeValue | None:
        """Return what a device shares under a constraint; None when nothing is known of the attribute."""
        value = device.attributes.get(each.attribute)
        if value is not None:
            return value
        return attribute_group(self._candidates.attribute_groups, each.attribute, device.id)


MAX_STEPS: Final = 10_000
"""How many devices one pod may look at for one set of instance types, or for one node."""

_GIVEN_UP: Final = f"the search was given up after {MAX_STEPS} steps"
_LISTED_PER_STEP: Final = 8
"""Listing devices costs this many times less than trying them."""


class StepBudget:
    """The steps that a search may still take."""

    def __init__(self, most: int = MAX_STEPS) -> None:
        self._most = most
        self.spent = 0

    @property
    def are_spent(self) -> bool:
        return self.spent >= self._most

    def spend(self, steps: int = 1) -> bool:
        """Take some steps; return whether there was one left."""
        had = not self.are_spent
        self.spent += steps
        return had


class PendingClaim(msgspec.Struct, frozen=True):
    """A claim that needs devices, and what the pod calls it."""

    key: str
    name: str
    parsed: ParsedClaim


class FoundDevices(msgspec.Struct, frozen=True):
    """Devices for every claim, and the target once it reaches all of them."""

    allocations: tuple[DeviceAllocation, ...]
    target: AllocationTarget


class _RequestGoal(NamedTuple):
    """A request for which no alternative was chosen yet."""

    claim: PendingClaim
    request: ParsedRequest


class _Slot(NamedTuple):
    """Devices of one alternative that are still to be chosen, from `at` on."""

    claim: PendingClaim
    alternative: RequestAlternative
    devices: Sequence[DeviceInfo]
    at: int
    left: int
    last: int
    """Behind the last device that may be the next; beyond it too few are left for the rest."""


_Goal: TypeAlias = "NodeTerms | _RequestGoal | _Slot"
_Agenda: TypeAlias = "tuple[_Goal, _Agenda] | None"
"""What is still to be done, the next goal first."""


class _Move(NamedTuple):
    """A choice that was made, and what is left to do after it."""

    rest: _Agenda


class DeviceSearch:
    """The search for one bin as one device set."""

    def __init__(
        self,
        candidates: CandidateDevices,
        tracker: AllocationTracker,
        bin_: int,
        device_set: int,
        steps: StepBudget,
    ) -> None:
        self._candidates = candidates
        self._tracker = tracker
        self._at = bin_, device_set
        self.steps = steps
        self._claims: Sequence[PendingClaim] = ()
        self._equivalence: dict[DeviceInfo, Hashable] = {}
        self.reached = -1, 0
        """How many devices were found before the search got stuck, and how many were there to go on with."""

        self.shortfall = ""
        """What the request lacks at which the search got stuck, as one sentence."""

        self.is_out_of_reach = False
        """Whether a device was passed over only because the target cannot reach it."""

    @property
    def is_given_up(self) -> bool:
        """Whether there may be devices that were not looked at."""
        return self.steps.are_spent

    def run(
        self, target: AllocationTarget, required_terms: Sequence[NodeTerms], claims: Sequence[PendingClaim]
    ) -> FoundDevices | None:
        """Return the first devices found for all `claims`, on a target that meets the `required_terms`."""
        path = AllocationPath(target, self._candidates, self._tracker, *self._at)
        self._claims = claims
        self._equivalence.clear()
        goals: list[_Goal] = [*required_terms]
        goals += [_RequestGoal(claim, request) for claim in claims for request in claim.parsed.requests]
        agenda: _Agenda = None
        for goal in reversed(goals):
            agenda = goal, agenda
        if agenda is None:
            return FoundDevices((), target)
        stack = [self._moves(path, *agenda)]
        while stack:
            move = next(stack[-1], None)
            if move is None:
                stack.pop()
            elif move.rest is None:
                return FoundDevices(tuple(path.allocations), path.target)
            else:
                stack.append(self._moves(path, *move.rest))
        return None

    def _moves(self, path: AllocationPath, goal: _Goal, rest: _Agenda) -> Iterator[_Move]:
        """Yield after every choice that can be made for a goal; the choice is undone before the next."""
        if isinstance(goal, _Slot):
            return self._fill_slot(path, goal, rest)
        if isinstance(goal, _RequestGoal):
            return self._choose_alternative(path, goal, rest)
        return self._choose_term(path, goal, rest)

    def _choose_term(self, path: AllocationPath, terms: NodeTerms, rest: _Agenda) -> Iterator[_Move]:
        was = path.target
        for term in terms:
            target = was.narrow(term)
            if target is None:
                self.is_out_of_reach = True
            else:
                path.target = target
                yield _Move(rest)
                path.target = was

    def _choose_alternative(self, path: AllocationPath, goal: _RequestGoal, rest: _Agenda) -> Iterator[_Move]:
        claim = goal.claim
        given = sum(allocation.claim == claim.key for allocation in path.allocations)
        reasons, most = [], 0
        for alternative in goal.request.alternatives:
            devices, reason = self._available(path, alternative)
            most = max(most, len(devices))
            count = len(devices) if alternative.count is None else alternative.count
            if not reason and given + count > MAX_DEVICES_PER_CLAIM:
                reason = f"a claim can have at most {MAX_DEVICES_PER_CLAIM} devices, not {given + count}"
            if reason:
                reasons.append(f"request {alternative.name} of claim {claim.name}: {reason}")
                continue
            # Past the last of these, too few devices are left for the slots that are.
            spare = len(devices) if any(device.shared for device in devices) else len(devices) - count + 1
            last = 1 if alternative.count is None else spare
            yield _Move((_Slot(claim, alternative, devices, 0, count, last), rest))
            reason = _GIVEN_UP if self.is_given_up else _not_together(alternative, devices)
            reasons.append(f"request {alternative.name} of claim {claim.name}: {reason}")
        if (len(path.allocations), most) > self.reached:
            self.reached = len(path.allocations), most
            self.shortfall = "; ".join(reasons)

    def _available(
        self, path: AllocationPath, alternative: RequestAlternative
    ) -> tuple[Sequence[DeviceInfo], str]:
        """Return the devices that an alternative may be served with, or why it cannot be."""
        matching = self._candidates.matching(alternative)
        if not self.steps.spend(1 + len(matching) // _LISTED_PER_STEP):
            return (), _GIVEN_UP
        if alternative.count is None:
            reason = self._candidates.uncertain(alternative, path.target)
            here = [d for d in matching if any(path.target.narrow(t) is not None for t in d.node_terms)]
            missing = "" if here else f"no device matches DeviceClass {alternative.class_name}"
            return here, reason or missing
        free = [device for device in matching if path.offer(alternative, device) is not None]
        if len(free) < alternative.count and not any(device.shared for device in free):
            wants = f"wants {alternative.count} of DeviceClass {alternative.class_name}"
            return free, f"{wants}, {len(matching)} match and {len(free)} of them can be had"
        return free, ""

    def _fill_slot(self, path: AllocationPath, slot: _Slot, rest: _Agenda) -> Iterator[_Move]:
        claim, alternative = slot.claim, slot.alternative
        constraints = claim.parsed.constraints
        failed: set[Hashable] = set()
        for at in range(slot.at, slot.last):
            device = slot.devices[at]
            if failed and self._equivalence_key(device, path) in failed:
                continue
            if not self.steps.spend():
                return
            consumed = path.offer(alternative, device)
            if consumed is None or not path.agrees(claim.key, constraints, alternative, device):
                continue
            again = device.shared and not alternative.admin and alternative.count is not None
            after = at if again else at + 1
            more = slot._replace(at=after, left=slot.left - 1, last=min(slot.last + 1, len(slot.devices)))
            for term in device.node_terms:
                target = path.target.narrow(term)
                if target is None:
                    self.is_out_of_reach = True
                    continue
                allocation = DeviceAllocation(
                    claim=claim.key,
                    request=alternative.name,
                    device=device,
                    consumed_capacity=consumed,
                    admin=alternative.admin,
                    term=term,
                )
                path.take(allocation, constraints, alternative, target)
                yield _Move((more, rest) if more.left else rest)
                path.undo()
            if not device.shared:
                failed.add(self._equivalence_key(device, path))

    def _equivalence_key(self, device: DeviceInfo, path: AllocationPath) -> Hashable:
        """Return everything by which the search could tell a free device from another one."""
        if device not in self._equivalence:
            requests = [request for claim in self._claims for request in claim.parsed.requests]
            alternatives = [each for request in requests for each in request.alternatives]
            constraints = [each for claim in self._claims for each in claim.parsed.constraints]
            self._equivalence[device] = (
                device.id.pool_id if device.consumes_counters else device.id.template,
                device.shared,
                device.consumes_counters,
                device.node_terms,
                frozenset((name, has.value) for name, has in device.capacity.items()),
                tuple(path.attribute_value(each, device) for each in constraints),
                tuple(device in self._candidates.matching_set(each) for each in alternatives),
            )
        return self._equivalence[device]


def _not_together(alternative: RequestAlternative, devices: Sequence[DeviceInfo]) -> str:
    if alternative.count is None:
        return f"not all {len(devices)} devices of DeviceClass {alternative.class_name} can be had together"
    return f"no {alternative.count} of the {len(devices)} devices that match can be had together"
