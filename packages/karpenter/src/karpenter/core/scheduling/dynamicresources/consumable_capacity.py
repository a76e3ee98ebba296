"""
Consumable capacity: how much of a device a request consumes under the request policy of the device.

A device that one claim has exclusively only has to be large enough. A device that several claims share
(allowMultipleAllocations) is consumed in amounts: a request is rounded up to the next valid amount, and a
capacity that is not requested is consumed by the policy's default, or whole
(https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/).

What other claims have consumed is in :mod:`.allocationtracker`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.core.scheduling.dynamicresources.types import Capacity, DeviceInfo, RequestPolicy, qualified

if TYPE_CHECKING:
    from collections.abc import Mapping


def is_large_enough(device: DeviceInfo, asked: Mapping[str, int]) -> bool:
    """Return whether a device has at least what is asked of each capacity."""
    for name, amount in asked.items():
        has = device.capacity.get(qualified(name, device.id.driver))
        if has is None or has.value < amount:
            return False
    return True


def consumed_capacity(device: DeviceInfo, asked: Mapping[str, int]) -> dict[str, int] | None:
    """Return how much of each capacity a request would consume, or None when it cannot be served."""
    wanted = {qualified(name, device.id.driver): amount for name, amount in asked.items()}
    if not wanted.keys() <= device.capacity.keys():
        return None
    found: dict[str, int] = {}
    for name, capacity in device.capacity.items():
        portion = _consumed(capacity, wanted.get(name))
        if portion is None or portion > capacity.value:
            return None
        found[name] = portion
    return found


def _consumed(capacity: Capacity, asked: int | None) -> int | None:
    policy = capacity.policy
    if asked is None:
        return capacity.value if policy is None or policy.default is None else policy.default
    return asked if policy is None or asked == policy.default else _rounded(policy, asked)


def _rounded(policy: RequestPolicy, asked: int) -> int | None:
    """Return the smallest valid amount that is enough, or None when there is none."""
    # validValues and validRange exclude each other; validRange may have a step counted from its minimum.
    if policy.values:
        return next((value for value in policy.values if value >= asked), None)
    portion = max(asked, policy.least or 0)
    if policy.step:
        start = policy.least or 0
        portion = start - (start - portion) // policy.step * policy.step
    return None if policy.most is not None and portion > policy.most else portion
