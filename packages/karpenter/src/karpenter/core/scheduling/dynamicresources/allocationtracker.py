"""
Who has what: devices held before the run, and devices promised during it.

A claim of the run may still become one of several kinds of machine, and each kind may get
different devices. So a promise is made per bin and per strand, a strand being the kinds that
will have the same devices. Two strands of one bin may be promised the same device, since only
one of them will come true; two bins may not. For what can be shared, a bin takes as much as the
most demanding of its strands, strand by strand summed over its pods.

What a machine brings along itself concerns nobody but its own bin and strand.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from karpenter.base.quantity import QuantityError, parse_quantity
from karpenter.core.model.requirements import NOTHING_REQUIRED, Requirements
from karpenter.core.scheduling.dynamicresources.types import DeviceId, DeviceInfo, qualified

if TYPE_CHECKING:
    from collections.abc import Iterable
    from collections.abc import Set as AbstractSet

    from karpenter.core.scheduling.dynamicresources.types import AllocatedClaim, CounterConsumption, PoolId

Key: TypeAlias = Hashable


class DeviceAllocation(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A device that a claim would be given."""

    claim: str
    ask: str
    device: DeviceInfo
    portions: Mapping[str, int] = {}
    """What it takes of each capacity, where the device is shared."""

    admin: bool = False
    term: Requirements = NOTHING_REQUIRED
    """Where the node must be for the device to be reached."""


class PriorAllocations(msgspec.Struct, frozen=True, kw_only=True):
    """What was given away before the run."""

    exclusive: frozenset[DeviceId] = frozenset()
    shared: frozenset[DeviceId] = frozenset()
    portions: Mapping[tuple[DeviceId, str], int] = {}

    @property
    def devices(self) -> frozenset[DeviceId]:
        """Every device that somebody has."""
        return self.exclusive | self.shared


def prior_allocations(holdings: Iterable[AllocatedClaim], let_go: AbstractSet[str]) -> PriorAllocations:
    """Return what is given away, claims that are let go aside."""
    exclusive: set[DeviceId] = set()
    shared: set[DeviceId] = set()
    portions: dict[tuple[DeviceId, str], int] = {}
    for holding in holdings:
        for result in holding.results if holding.claim not in let_go else ():
            device = DeviceId(result.driver, result.pool, result.device)
            if result.admin_access:
                continue
            if not result.consumed_capacity and result.share_id is None:
                exclusive.add(device)
                continue
            shared.add(device)
            for name, amount in result.consumed_capacity.items():
                key = device, qualified(name, result.driver)
                try:
                    portions[key] = portions.get(key, 0) + parse_quantity(amount).nanos
                except QuantityError:
                    exclusive.add(device)  # nobody knows what is left of it
    return PriorAllocations(exclusive=frozenset(exclusive), shared=frozenset(shared), portions=portions)


class ConsumptionTracker:
    """Amounts that bins take of things: the most that any strand of a bin needs, over all bins."""

    def __init__(self) -> None:
        self._taken: dict[Key, dict[int, dict[int, int]]] = {}
        self._total: dict[Key, int] = {}
        self._keys: dict[int, set[Key]] = {}

    def used(self, key: Key, bin_: int, strand: int) -> int:
        """Return what is gone of something from where one strand of one bin stands."""
        total = self._total.get(key, 0)
        own = self._taken[key].get(bin_) if total else None
        return total if own is None else total - max(own.values()) + own.get(strand, 0)

    def take(self, key: Key, bin_: int, strand: int, amount: int) -> None:
        """Let a strand of a bin have more of something."""
        own = self._taken.setdefault(key, {}).setdefault(bin_, {})
        before = max(own.values(), default=0)
        own[strand] = own.get(strand, 0) + amount
        self._total[key] = self._total.get(key, 0) + max(own.values()) - before
        self._keys.setdefault(bin_, set()).add(key)

    def keep(self, bin_: int, strands: AbstractSet[int]) -> bool:
        """Give back what other strands of a bin have; return whether there is more of anything now."""
        freed = False
        for key in list(self._keys.get(bin_, ())):
            own = self._taken[key][bin_]
            before = max(own.values())
            for strand in own.keys() - strands:
                del own[strand]
            after = max(own.values(), default=0)
            self._total[key] += after - before
            freed |= after < before
            if not own:
                del self._taken[key][bin_]
                self._keys[bin_].discard(key)
        return freed


class ClaimAllocation(msgspec.Struct):
    """Where a claim was given its devices in this run."""

    bin: int
    strands: dict[int, tuple[DeviceAllocation, ...]]

    @property
    def stays(self) -> bool:
        """Whether only its own bin can use the claim."""
        return any(g.device.id.template or g.device.home for grants in self.strands.values() for g in grants)

    @property
    def requirements(self) -> Requirements:
        """Where a node must be to use the claim, whatever the machine becomes."""
        found = NOTHING_REQUIRED
        for grants in self.strands.values():
            for grant in grants:
                found = found.intersect(grant.term)
        return found


class AllocationTracker:
    """The devices of one run."""

    def __init__(self, before: PriorAllocations, drawn: Mapping[tuple[PoolId, str, str], int]) -> None:
        """Start from what was held before; `drawn` is what those devices take of their pools' counters."""
        self._before = before
        self._known = before.devices
        self._drawn = drawn
        self._reserved: dict[Key, tuple[int, set[int]]] = {}
        self._owned: dict[int, set[Key]] = {}
        self._portions = ConsumptionTracker()
        self._counters = ConsumptionTracker()
        self._held: dict[tuple[int, int], set[DeviceId]] = {}
        self._bins: dict[int, dict[int, set[str]]] = {}
        self._seated: dict[int, list[ClaimAllocation]] = {}
        self.seats: dict[str, ClaimAllocation] = {}
        self.stamp = 0
        """Changes whenever something that was refused might be granted now."""

    def is_free(self, device: DeviceInfo, bin_: int, strand: int) -> bool:
        """Return whether a device can be given to a strand of a bin alone."""
        if device.id in self._known:
            return False
        reserved = self._reserved.get(_key(device, bin_))
        return reserved is None or (reserved[0] == bin_ and strand not in reserved[1])

    def is_shareable(self, device: DeviceInfo) -> bool:
        """Return whether nobody had a device to itself before."""
        return device.id not in self._before.exclusive

    def portion_used(self, device: DeviceInfo, name: str, bin_: int, strand: int) -> int:
        """Return what is gone of a capacity of a shared device."""
        before = self._before.portions.get((device.id, name), 0)
        return before + self._portions.used((_key(device, bin_), name), bin_, strand)

    def is_drawing(self, device: DeviceInfo, bin_: int, strand: int) -> bool:
        """Return whether what a device draws is counted already."""
        return device.id in self._known or device.id in self._held.get((bin_, strand), ())

    def drawn(self, device: DeviceInfo, draw: CounterConsumption, bin_: int, strand: int) -> int:
        """Return what is gone of a counter that a device draws from."""
        before = self._drawn.get((device.id.pool_id, draw.counter_set, draw.counter), 0)
        return before + self._counters.used(_counter(device, draw, bin_), bin_, strand)

    def strands(self, bin_: int) -> AbstractSet[int] | None:
        """Return the strands of a bin that have been promised devices; None where nobody asked yet."""
        known = self._bins.get(bin_)
        return known.keys() if known is not None else None

    def drivers(self, bin_: int) -> list[str]:
        """Return the drivers that a machine must run for what it was promised to bring along."""
        return sorted(set().union(*self._bins.get(bin_, {}).values()))

    def commit(self, bin_: int, strand: int, grants: Iterable[DeviceAllocation]) -> None:
        """Promise devices to a strand of a bin."""
        drivers = self._bins.setdefault(bin_, {}).setdefault(strand, set())
        for grant in grants:
            device = grant.device
            if device.id.template:
                drivers.add(device.id.driver)
            if not grant.admin:
                self._take(grant, bin_, strand)

    def _take(self, grant: DeviceAllocation, bin_: int, strand: int) -> None:
        device = grant.device
        if not self.is_drawing(device, bin_, strand):
            for draw in device.draws:
                self._counters.take(_counter(device, draw, bin_), bin_, strand, draw.amount)
        self._held.setdefault((bin_, strand), set()).add(device.id)
        if not device.shared:
            key = _key(device, bin_)
            self._reserved.setdefault(key, (bin_, set()))[1].add(strand)
            self._owned.setdefault(bin_, set()).add(key)
        for name, amount in grant.portions.items():
            self._portions.take((_key(device, bin_), name), bin_, strand, amount)

    def seat(
        self, claim: str, bin_: int, by_strand: Mapping[int, tuple[DeviceAllocation, ...]], *, shared: bool
    ) -> None:
        """Note where a claim has its devices; others may wait for a claim that is `shared`."""
        seat = self.seats[claim] = ClaimAllocation(bin_, dict(by_strand))
        self._seated.setdefault(bin_, []).append(seat)
        self.stamp += shared

    def keep(self, bin_: int, strands: AbstractSet[int]) -> None:
        """Give back what was promised to other strands of a bin: the machine cannot become those any more."""
        known = self._bins.get(bin_)
        lost = known.keys() - strands if known is not None else frozenset()
        if known is None or not lost:
            return
        freed = self._portions.keep(bin_, strands)
        freed |= self._counters.keep(bin_, strands)
        for strand in lost:
            del known[strand]
            self._held.pop((bin_, strand), None)
        for key in list(self._owned.get(bin_, ())):
            held = self._reserved[key][1]
            held -= lost
            if not held:
                del self._reserved[key]
                self._owned[bin_].discard(key)
                freed = True
        for seat in self._seated.get(bin_, ()):
            for strand in lost:
                freed |= bool(seat.strands.pop(strand, ()))
        self.stamp += freed


def _key(device: DeviceInfo, bin_: int) -> Key:
    """Return what a device is known by; machines bring along devices of the same names."""
    return (bin_, device.id) if device.id.template else device.id


def _counter(device: DeviceInfo, draw: CounterConsumption, bin_: int) -> Key:
    pool = device.id.pool_id
    return (bin_ if pool.template else -1, pool, draw.counter_set, draw.counter)
