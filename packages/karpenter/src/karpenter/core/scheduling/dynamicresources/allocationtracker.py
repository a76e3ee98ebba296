"""
The allocations of one run: devices that claims had before, and devices allocated during it.

A claim of the run may still become one of several instance types, and each may have different devices. So
devices are allocated per bin and per device set, a device set being the instance types that will have the
same devices. Two device sets of one bin may be allocated the same device, since only one of them comes
true; two bins may not. Of what can be shared (capacity, counters), a bin consumes as much as the most
demanding of its device sets.

Template devices (those that a new node will have) are counted per bin. Which devices match a request is in
:mod:`.pool`; which are chosen is in :mod:`.search`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import TypeAlias

import msgspec

from karpenter.base.quantity import QuantityError, parse_quantity
from karpenter.core.model.requirements import NOTHING_REQUIRED, Requirements
from karpenter.core.scheduling.dynamicresources.types import (
    AllocatedClaim,
    CounterConsumption,
    DeviceId,
    DeviceInfo,
    PoolId,
    qualified,
)

Key: TypeAlias = Hashable


class DeviceAllocation(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A device that is allocated to a request of a claim."""

    claim: str
    request: str
    device: DeviceInfo
    consumed_capacity: Mapping[str, int] = {}
    """What it consumes of each capacity, where the device is shared."""

    admin: bool = False
    term: Requirements = NOTHING_REQUIRED
    """What a node must satisfy to reach the device."""


class PriorAllocations(msgspec.Struct, frozen=True, kw_only=True):
    """What claims were allocated before the run."""

    exclusive: frozenset[DeviceId] = frozenset()
    shared: frozenset[DeviceId] = frozenset()
    consumed_capacity: Mapping[tuple[DeviceId, str], int] = {}

    @property
    def devices(self) -> frozenset[DeviceId]:
        return self.exclusive | self.shared


def prior_allocations(
    allocated_claims: Iterable[AllocatedClaim], released_claims: AbstractSet[str]
) -> PriorAllocations:
    exclusive: set[DeviceId] = set()
    shared: set[DeviceId] = set()
    consumed: dict[tuple[DeviceId, str], int] = {}
    for allocated in allocated_claims:
        for result in allocated.results if allocated.claim not in released_claims else ():
            device = DeviceId(result.driver, result.pool, result.device)
            # adminAccess uses a device beside the claim that has it, so it consumes nothing.
            if result.admin_access:
                continue
            # A result with a share or with consumed capacity is one of several allocations of a shared
            # device.
            if not result.consumed_capacity and result.share_id is None:
                exclusive.add(device)
                continue
            shared.add(device)
            for name, amount in result.consumed_capacity.items():
                key = device, qualified(name, result.driver)
                try:
                    consumed[key] = consumed.get(key, 0) + parse_quantity(amount).nanos
                except QuantityError:
                    exclusive.add(device)  # what is left of it is unknown
    return PriorAllocations(
        exclusive=frozenset(exclusive), shared=frozenset(shared), consumed_capacity=consumed
    )


class ConsumptionTracker:
    """
    Amounts that bins consume: per bin the most that any of its device sets needs, summed over the bins.

    A bin becomes one instance type in the end, so its device sets never consume at the same time.
    """

    def __init__(self) -> None:
        self._taken: dict[Key, dict[int, dict[int, int]]] = {}
        self._total: dict[Key, int] = {}
        self._keys: dict[int, set[Key]] = {}

    def used(self, key: Key, bin_: int, device_set: int) -> int:
        """Return what is consumed of `key` from the view of one device set of one bin."""
        total = self._total.get(key, 0)
        own = self._taken[key].get(bin_) if total else None
        return total if own is None else total - max(own.values()) + own.get(device_set, 0)

    def take(self, key: Key, bin_: int, device_set: int, amount: int) -> None:
        """Let a device set of a bin consume more of `key`."""
        own = self._taken.setdefault(key, {}).setdefault(bin_, {})
        prior = max(own.values(), default=0)
        own[device_set] = own.get(device_set, 0) + amount
        self._total[key] = self._total.get(key, 0) + max(own.values()) - prior
        self._keys.setdefault(bin_, set()).add(key)

    def keep(self, bin_: int, device_sets: AbstractSet[int]) -> bool:
        """Release what other device sets of a bin consume; return whether anything was released."""
        freed = False
        for key in list(self._keys.get(bin_, ())):
            own = self._taken[key][bin_]
            prior = max(own.values())
            for device_set in own.keys() - device_sets:
                del own[device_set]
            after = max(own.values(), default=0)
            self._total[key] += after - prior
            freed |= after < prior
            if not own:
                del self._taken[key][bin_]
                self._keys[bin_].discard(key)
        return freed


class ClaimAllocation(msgspec.Struct):
    """The bin on which a claim got its devices in this run, and the devices per device set."""

    bin: int
    device_sets: dict[int, tuple[DeviceAllocation, ...]]

    @property
    def is_node_local(self) -> bool:
        """Whether only pods of the same bin can use the claim."""
        return any(
            g.device.id.template or g.device.node_name
            for allocations in self.device_sets.values()
            for g in allocations
        )

    @property
    def requirements(self) -> Requirements:
        """What a node must satisfy to use the claim, whatever instance type its bin becomes."""
        found = NOTHING_REQUIRED
        for allocations in self.device_sets.values():
            for allocation in allocations:
                found = found.intersect(allocation.term)
        return found


class AllocationTracker:
    """The allocations of one run."""

    def __init__(
        self, prior: PriorAllocations, consumed_counters: Mapping[tuple[PoolId, str, str], int]
    ) -> None:
        """Start from `prior` allocations; `consumed_counters` is what those consume of their pools."""
        self._prior = prior
        self._known = prior.devices
        self._consumed_counters = consumed_counters
        self._reserved: dict[Key, tuple[int, set[int]]] = {}
        self._owned: dict[int, set[Key]] = {}
        self._capacity_used = ConsumptionTracker()
        self._counters = ConsumptionTracker()
        self._held: dict[tuple[int, int], set[DeviceId]] = {}
        self._bins: dict[int, dict[int, set[str]]] = {}
        self._by_bin: dict[int, list[ClaimAllocation]] = {}
        self.claim_allocations: dict[str, ClaimAllocation] = {}
        self.version = 0
        """Changes whenever a request that was refused might be served now."""

    def is_free(self, device: DeviceInfo, bin_: int, device_set: int) -> bool:
        """Return whether a device can be allocated exclusively to a device set of a bin."""
        if device.id in self._known:
            return False
        reserved = self._reserved.get(_key(device, bin_))
        return reserved is None or (reserved[0] == bin_ and device_set not in reserved[1])

    def is_shareable(self, device: DeviceInfo) -> bool:
        """Return whether no claim had the device exclusively before the run."""
        return device.id not in self._prior.exclusive

    def capacity_used(self, device: DeviceInfo, name: str, bin_: int, device_set: int) -> int:
        """Return what is consumed of a capacity of a shared device."""
        prior = self._prior.consumed_capacity.get((device.id, name), 0)
        return prior + self._capacity_used.used((_key(device, bin_), name), bin_, device_set)

    def is_consuming(self, device: DeviceInfo, bin_: int, device_set: int) -> bool:
        """Return whether the counters that a device consumes are counted already."""
        return device.id in self._known or device.id in self._held.get((bin_, device_set), ())

    def counter_used(
        self, device: DeviceInfo, consumption: CounterConsumption, bin_: int, device_set: int
    ) -> int:
        """Return what is consumed of a counter of the device's pool."""
        prior = self._consumed_counters.get(
            (device.id.pool_id, consumption.counter_set, consumption.counter), 0
        )
        return prior + self._counters.used(_counter(device, consumption, bin_), bin_, device_set)

    def device_sets(self, bin_: int) -> AbstractSet[int] | None:
        """Return the device sets of a bin that have allocations; None where no pod asked for devices yet."""
        known = self._bins.get(bin_)
        return known.keys() if known is not None else None

    def drivers(self, bin_: int) -> list[str]:
        """Return the drivers of the template devices that are allocated on a bin."""
        return sorted(set().union(*self._bins.get(bin_, {}).values()))

    def commit(self, bin_: int, device_set: int, allocations: Iterable[DeviceAllocation]) -> None:
        drivers = self._bins.setdefault(bin_, {}).setdefault(device_set, set())
        for allocation in allocations:
            device = allocation.device
            if device.id.template:
                drivers.add(device.id.driver)
            if not allocation.admin:
                self._take(allocation, bin_, device_set)

    def _take(self, allocation: DeviceAllocation, bin_: int, device_set: int) -> None:
        device = allocation.device
        if not self.is_consuming(device, bin_, device_set):
            for consumption in device.consumes_counters:
                self._counters.take(_counter(device, consumption, bin_), bin_, device_set, consumption.amount)
        self._held.setdefault((bin_, device_set), set()).add(device.id)
        if not device.shared:
            key = _key(device, bin_)
            self._reserved.setdefault(key, (bin_, set()))[1].add(device_set)
            self._owned.setdefault(bin_, set()).add(key)
        for name, amount in allocation.consumed_capacity.items():
            self._capacity_used.take((_key(device, bin_), name), bin_, device_set, amount)

    def record_claim(
        self,
        claim: str,
        bin_: int,
        by_device_set: Mapping[int, tuple[DeviceAllocation, ...]],
        *,
        shared: bool,
    ) -> None:
        """Record where a claim has its devices; other pods may wait for a claim that is `shared`."""
        claim_allocation = self.claim_allocations[claim] = ClaimAllocation(bin_, dict(by_device_set))
        self._by_bin.setdefault(bin_, []).append(claim_allocation)
        self.version += shared

    def keep(self, bin_: int, device_sets: AbstractSet[int]) -> None:
        """Release the allocations of other device sets of a bin, which cannot become those any more."""
        known = self._bins.get(bin_, {})
        lost = known.keys() - device_sets
        if not lost:
            return
        freed = self._capacity_used.keep(bin_, device_sets)
        freed |= self._counters.keep(bin_, device_sets)
        for device_set in lost:
            del known[device_set]
            self._held.pop((bin_, device_set), None)
        for key in list(self._owned.get(bin_, ())):
            held = self._reserved[key][1]
            held -= lost
            if not held:
                del self._reserved[key]
                self._owned[bin_].discard(key)
                freed = True
        for claim_allocation in self._by_bin.get(bin_, ()):
            for device_set in lost:
                freed |= bool(claim_allocation.device_sets.pop(device_set, ()))
        self.version += freed


def _key(device: DeviceInfo, bin_: int) -> Key:
    """Return the identity of a device; template devices of different bins have the same names."""
    return (bin_, device.id) if device.id.template else device.id


def _counter(device: DeviceInfo, consumption: CounterConsumption, bin_: int) -> Key:
    pool = device.id.pool_id
    return (bin_ if pool.template else -1, pool, consumption.counter_set, consumption.counter)
