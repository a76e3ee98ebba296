"""
One way through the search: devices chosen so far, what they take together, and how to take them back.

Everything that is taken is noted in order, so that the last choice can be undone exactly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from karpenter.core.scheduling.devices.bindings import peer_group
from karpenter.core.scheduling.devices.portions import is_large_enough, portions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karpenter.core.scheduling.devices.device import Attribute, Device, DeviceId, PoolId
    from karpenter.core.scheduling.devices.ledger import Grant, Ledger
    from karpenter.core.scheduling.devices.places import Place
    from karpenter.core.scheduling.devices.requests import Ask, Constraint
    from karpenter.core.scheduling.devices.stock import Stock

Pin: TypeAlias = "Attribute | int"
"""What devices under a constraint must agree on: a value, or the group of those that will agree."""


class Path:
    """The choices for one strand of one bin."""

    def __init__(self, place: Place, stock: Stock, ledger: Ledger, bin_: int, strand: int) -> None:
        self.place = place
        self.grants: list[Grant] = []
        self._stock = stock
        self._ledger = ledger
        self._at = bin_, strand
        self._places: list[Place] = []
        self._chosen: dict[DeviceId, int] = {}
        self._portions: dict[tuple[DeviceId, str], int] = {}
        self._draws: dict[tuple[PoolId, str, str], int] = {}
        self._pins: dict[tuple[str, int], Pin] = {}
        self._pinned: list[list[tuple[str, int]]] = []

    def offer(self, ask: Ask, device: Device) -> dict[str, int] | None:
        """Return what a device would give to a request, or None when it cannot."""
        if ask.admin:
            return {}
        if not device.shared:
            free = device.id not in self._chosen and self._ledger.is_free(device, *self._at)
            return {} if free and is_large_enough(device, ask.capacity) and self._can_draw(device) else None
        found = portions(device, ask.capacity) if self._ledger.is_shareable(device) else None
        if found is None or not all(self._has(device, name, amount) for name, amount in found.items()):
            return None
        return found if self._can_draw(device) else None

    def agrees(self, claim: str, constraints: Sequence[Constraint], ask: Ask, device: Device) -> bool:
        """Return whether a device agrees with those chosen before on what they must have in common."""
        for number, each in enumerate(constraints):
            if each.covers(ask):
                pin = self.pin(each, device)
                if pin is None or self._pins.get((claim, number), pin) != pin:
                    return False
        return True

    def take(self, grant: Grant, constraints: Sequence[Constraint], ask: Ask, place: Place) -> None:
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

    def _count(self, grant: Grant, sign: int) -> None:
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

    def _has(self, device: Device, name: str, amount: int) -> bool:
        used = self._ledger.portion_used(device, name, *self._at) + self._portions.get((device.id, name), 0)
        return used + amount <= device.capacity[name].value

    def _can_draw(self, device: Device) -> bool:
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

    def pin(self, each: Constraint, device: Device) -> Pin | None:
        """Return what a device says about an attribute that others must agree on; None when it is silent."""
        value = device.attributes.get(each.attribute)
        return peer_group(self._stock.peers, each.attribute, device.id) if value is None else value
