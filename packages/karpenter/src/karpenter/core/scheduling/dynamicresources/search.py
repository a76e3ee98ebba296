"""
The search: devices for every request of every claim, depth first, with a bound on the work.

Claims are served in order, and requests within a claim; an alternative of a request is tried
when the one before it cannot be served; each place of an alternative is filled with the first
device that leaves the rest a chance. Places of one alternative are interchangeable, so each set
of devices is looked at once, not in every order; so are devices that nothing in the search can
tell apart, so where one was tried in vain its likes are not tried again.

There is no clock here. Looking at a device is a step, and there are so many; the same question
always ends at the same step.

One way through the search: devices chosen so far, what they take together, and how to take them back.

Everything that is taken is noted in order, so that the last choice can be undone exactly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import msgspec

from karpenter.core.scheduling.dynamicresources.allocationtracker import DeviceAllocation
from karpenter.core.scheduling.dynamicresources.attributebindings import attribute_group
from karpenter.core.scheduling.dynamicresources.consumable_capacity import consumed_capacity, is_large_enough
from karpenter.core.scheduling.dynamicresources.request import MAX_DEVICES_PER_CLAIM, ParsedClaim
from karpenter.core.scheduling.dynamicresources.types import AllocationTarget

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from karpenter.core.scheduling.dynamicresources.allocationtracker import AllocationTracker
    from karpenter.core.scheduling.dynamicresources.pool import CandidateDevices
    from karpenter.core.scheduling.dynamicresources.request import (
        MatchAttribute,
        ParsedRequest,
        RequestAlternative,
    )
    from karpenter.core.scheduling.dynamicresources.types import (
        Attribute,
        DeviceId,
        DeviceInfo,
        NodeTerms,
        PoolId,
    )


AttributeValue: TypeAlias = "Attribute | int"
"""What devices under a constraint must agree on: a value, or the group of those that will agree."""


class AllocationPath:
    """The choices for one strand of one bin."""

    def __init__(
        self,
        place: AllocationTarget,
        stock: CandidateDevices,
        ledger: AllocationTracker,
        bin_: int,
        strand: int,
    ) -> None:
        self.place = place
        self.grants: list[DeviceAllocation] = []
        self._stock = stock
        self._ledger = ledger
        self._at = bin_, strand
        self._places: list[AllocationTarget] = []
        self._chosen: dict[DeviceId, int] = {}
        self._portions: dict[tuple[DeviceId, str], int] = {}
        self._draws: dict[tuple[PoolId, str, str], int] = {}
        self._pins: dict[tuple[str, int], AttributeValue] = {}
        self._pinned: list[list[tuple[str, int]]] = []

    def offer(self, ask: RequestAlternative, device: DeviceInfo) -> dict[str, int] | None:
        """Return what a device would give to a request, or None when it cannot."""
        if ask.admin:
            return {}
        if not device.shared:
            free = device.id not in self._chosen and self._ledger.is_free(device, *self._at)
            return {} if free and is_large_enough(device, ask.capacity) and self._can_draw(device) else None
        found = consumed_capacity(device, ask.capacity) if self._ledger.is_shareable(device) else None
        if found is None or not all(self._has(device, name, amount) for name, amount in found.items()):
            return None
        return found if self._can_draw(device) else None

    def agrees(
        self, claim: str, constraints: Sequence[MatchAttribute], ask: RequestAlternative, device: DeviceInfo
    ) -> bool:
        """Return whether a device agrees with those chosen before on what they must have in common."""
        for number, each in enumerate(constraints):
            if each.covers(ask):
                pin = self.pin(each, device)
                if pin is None or self._pins.get((claim, number), pin) != pin:
                    return False
        return True

    def take(
        self,
        grant: DeviceAllocation,
        constraints: Sequence[MatchAttribute],
        ask: RequestAlternative,
        place: AllocationTarget,
    ) -> None:
        """Choose a device that was found to be fine."""
        device = grant.device
        self._places.append(self.place)
        self.place = place
        self.grants.append(grant)
        pinned = []
        for number, each in enumerate(constraints):
            key = grant.claim, number
            if each.covers(ask) and key not in self._pins:
                pin = self.pin(each, device)
                assert pin is not None
                self._pins[key] = pin
                pinned.append(key)
        self._pinned.append(pinned)
        if not grant.admin:
            self._count(grant, 1)

    def undo(self) -> None:
        """Take the last choice back."""
        grant = self.grants.pop()
        self.place = self._places.pop()
        for key in self._pinned.pop():
            del self._pins[key]
        if not grant.admin:
            self._count(grant, -1)

    def _count(self, grant: DeviceAllocation, sign: int) -> None:
        device = grant.device
        times = self._chosen.get(device.id, 0) + sign
        self._chosen[device.id] = times
        if times == 0:
            del self._chosen[device.id]
        for name, amount in grant.portions.items():
            self._portions[device.id, name] = self._portions.get((device.id, name), 0) + sign * amount
        # A device that is shared draws from its pool once, whoever else has a share of it.
        if times == (1 if sign > 0 else 0) and not self._ledger.is_drawing(device, *self._at):
            for draw in device.draws:
                key = device.id.pool_id, draw.counter_set, draw.counter
                self._draws[key] = self._draws.get(key, 0) + sign * draw.amount

    def _has(self, device: DeviceInfo, name: str, amount: int) -> bool:
        used = self._ledger.portion_used(device, name, *self._at) + self._portions.get((device.id, name), 0)
        return used + amount <= device.capacity[name].value

    def _can_draw(self, device: DeviceInfo) -> bool:
        if not device.draws or device.id in self._chosen or self._ledger.is_drawing(device, *self._at):
            return True
        pool = device.id.pool_id
        for draw in device.draws:
            budget = self._stock.counters(pool)[draw.counter_set, draw.counter]
            used = self._ledger.drawn(device, draw, *self._at)
            used += self._draws.get((pool, draw.counter_set, draw.counter), 0)
            if used + draw.amount > budget:
                return False
        return True

    def pin(self, each: MatchAttribute, device: DeviceInfo) -> AttributeValue | None:
        """Return what a device says about an attribute that others must agree on; None when it is silent."""
        value = device.attributes.get(each.attribute)
        return attribute_group(self._stock.peers, each.attribute, device.id) if value is None else value


MAX_STEPS: Final = 10_000
"""How many devices one pod may look at for one kind of machine, or for one node."""


_GIVEN_UP: Final = f"the search was given up after {MAX_STEPS} steps"
_LISTED_PER_STEP: Final = 8
"""Making a list of devices is quicker than trying them."""


class StepBudget:
    """Work that is left."""

    def __init__(self, most: int = MAX_STEPS) -> None:
        self._most = most
        self.spent = 0

    @property
    def are_spent(self) -> bool:
        """Whether nothing is left."""
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
    wanted: ParsedClaim


class FoundDevices(msgspec.Struct, frozen=True):
    """Devices for everything, and what became of the place."""

    grants: tuple[DeviceAllocation, ...]
    place: AllocationTarget


class _Pending(NamedTuple):
    """A request that nobody has looked at yet."""

    wish: PendingClaim
    request: ParsedRequest


class _Slot(NamedTuple):
    """Devices of one alternative that are still to be chosen, from `at` on."""

    wish: PendingClaim
    ask: RequestAlternative
    devices: Sequence[DeviceInfo]
    at: int
    left: int
    last: int
    """Behind the last device that may be the next; beyond it too few are left for the rest."""


_Goal: TypeAlias = "NodeTerms | _Pending | _Slot"
_Agenda: TypeAlias = "tuple[_Goal, _Agenda] | None"
"""What is still to be done, the next thing first."""


class _Move(NamedTuple):
    """A choice that was made, and what is left to do after it."""

    rest: _Agenda


class DeviceSearch:
    """The search for one strand of one bin."""

    def __init__(
        self, stock: CandidateDevices, ledger: AllocationTracker, bin_: int, strand: int, steps: StepBudget
    ) -> None:
        self._stock = stock
        self._ledger = ledger
        self._at = bin_, strand
        self.steps = steps
        self._wishes: Sequence[PendingClaim] = ()
        self._signs: dict[DeviceInfo, Hashable] = {}
        self.reached = -1, 0
        """How many devices were found before the search got stuck, and how many were there to go on with."""

        self.shortfall = ""
        """What the request lacks at which the search got stuck, as one sentence."""

        self.is_out_of_place = False
        """Whether something was passed over only because of where it is."""

    @property
    def is_given_up(self) -> bool:
        """Whether there may be devices that were not looked at."""
        return self.steps.are_spent

    def run(
        self, place: AllocationTarget, reaches: Sequence[NodeTerms], wishes: Sequence[PendingClaim]
    ) -> FoundDevices | None:
        """Return the first devices found, the node being where every one of `reaches` lets it be."""
        path = AllocationPath(place, self._stock, self._ledger, *self._at)
        self._wishes = wishes
        self._signs.clear()
        goals: list[_Goal] = [*reaches]
        goals += [_Pending(wish, request) for wish in wishes for request in wish.wanted.requests]
        agenda: _Agenda = None
        for goal in reversed(goals):
            agenda = goal, agenda
        if agenda is None:
            return FoundDevices((), place)
        stack = [self._moves(path, *agenda)]
        while stack:
            move = next(stack[-1], None)
            if move is None:
                stack.pop()
            elif move.rest is None:
                return FoundDevices(tuple(path.grants), path.place)
            else:
                stack.append(self._moves(path, *move.rest))
        return None

    def _moves(self, path: AllocationPath, goal: _Goal, rest: _Agenda) -> Iterator[_Move]:
        """Yield after every choice that can be made for a goal; the choice is undone before the next."""
        if isinstance(goal, _Slot):
            return self._filled(path, goal, rest)
        return self._begun(path, goal, rest) if isinstance(goal, _Pending) else self._stood(path, goal, rest)

    def _stood(self, path: AllocationPath, reach: NodeTerms, rest: _Agenda) -> Iterator[_Move]:
        was = path.place
        for term in reach:
            place = was.narrow(term)
            if place is None:
                self.is_out_of_place = True
            else:
                path.place = place
                yield _Move(rest)
                path.place = was

    def _begun(self, path: AllocationPath, pending: _Pending, rest: _Agenda) -> Iterator[_Move]:
        wish = pending.wish
        given = sum(grant.claim == wish.key for grant in path.grants)
        whys, most = [], 0
        for ask in pending.request.asks:
            devices, why = self._candidates(path, ask)
            most = max(most, len(devices))
            count = len(devices) if ask.count is None else ask.count
            if not why and given + count > MAX_DEVICES_PER_CLAIM:
                why = f"a claim can have at most {MAX_DEVICES_PER_CLAIM} devices, not {given + count}"
            if why:
                whys.append(f"request {ask.name} of claim {wish.name}: {why}")
                continue
            # Past the last of these, too few are left for the places that are.
            spare = len(devices) if any(device.shared for device in devices) else len(devices) - count + 1
            yield _Move((_Slot(wish, ask, devices, 0, count, 1 if ask.count is None else spare), rest))
            why = _GIVEN_UP if self.is_given_up else _together(ask, devices)
            whys.append(f"request {ask.name} of claim {wish.name}: {why}")
        if (len(path.grants), most) > self.reached:
            self.reached = len(path.grants), most
            self.shortfall = "; ".join(whys)

    def _candidates(self, path: AllocationPath, ask: RequestAlternative) -> tuple[Sequence[DeviceInfo], str]:
        """Return the devices that an alternative may be served with, or why it cannot be."""
        suiting = self._stock.suiting(ask)
        if not self.steps.spend(1 + len(suiting) // _LISTED_PER_STEP):
            return (), _GIVEN_UP
        if ask.count is None:
            why = self._stock.uncertain(ask, path.place)
            here = [d for d in suiting if any(path.place.narrow(term) is not None for term in d.reach)]
            return here, why or ("" if here else f"no device matches DeviceClass {ask.class_name}")
        free = [device for device in suiting if path.offer(ask, device) is not None]
        if len(free) < ask.count and not any(device.shared for device in free):
            wants = f"wants {ask.count} of DeviceClass {ask.class_name}"
            return free, f"{wants}, {len(suiting)} match and {len(free)} of them can be had"
        return free, ""

    def _filled(self, path: AllocationPath, slot: _Slot, rest: _Agenda) -> Iterator[_Move]:
        wish, ask = slot.wish, slot.ask
        constraints = wish.wanted.constraints
        in_vain: set[Hashable] = set()
        for at in range(slot.at, slot.last):
            device = slot.devices[at]
            if in_vain and self._sign(device, path) in in_vain:
                continue
            if not self.steps.spend():
                return
            consumed = path.offer(ask, device)
            if consumed is None or not path.agrees(wish.key, constraints, ask, device):
                continue
            again = device.shared and not ask.admin and ask.count is not None
            after = at if again else at + 1
            more = slot._replace(at=after, left=slot.left - 1, last=min(slot.last + 1, len(slot.devices)))
            for term in device.reach:
                place = path.place.narrow(term)
                if place is None:
                    self.is_out_of_place = True
                    continue
                grant = DeviceAllocation(
                    claim=wish.key, ask=ask.name, device=device, portions=consumed, admin=ask.admin, term=term
                )
                path.take(grant, constraints, ask, place)
                yield _Move((more, rest) if more.left else rest)
                path.undo()
            if not device.shared:
                in_vain.add(self._sign(device, path))

    def _sign(self, device: DeviceInfo, path: AllocationPath) -> Hashable:
        """Return everything by which the search could tell a free device from another one."""
        if device not in self._signs:
            asks = [ask for wish in self._wishes for request in wish.wanted.requests for ask in request.asks]
            constraints = [each for wish in self._wishes for each in wish.wanted.constraints]
            self._signs[device] = (
                device.id.pool_id if device.draws else device.id.template,
                device.shared,
                device.draws,
                device.reach,
                frozenset((name, has.value) for name, has in device.capacity.items()),
                tuple(path.pin(each, device) for each in constraints),
                tuple(device in self._stock.suiting_set(ask) for ask in asks),
            )
        return self._signs[device]


def _together(ask: RequestAlternative, devices: Sequence[DeviceInfo]) -> str:
    if ask.count is None:
        return f"not all {len(devices)} devices of DeviceClass {ask.class_name} can be had together"
    return f"no {ask.count} of the {len(devices)} devices that match can be had together"
