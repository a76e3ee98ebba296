"""
Attribute bindings: template devices that will have the same value of an attribute.

The PCIe root of a device is only known once the node runs, but a provider knows which devices of an
instance type will share one. Devices that are named together have the same value; so have devices that
share it with a third.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karpenter.core.model.catalog import AttributeBinding, DeviceName
    from karpenter.core.scheduling.dynamicresources.types import DeviceId

AttributeGroups: TypeAlias = "dict[tuple[str, str, str, str], int]"
"""Attribute, driver, pool and device to the number of the group that will have one value."""


def attribute_groups(bindings: Iterable[AttributeBinding]) -> AttributeGroups:
    """Return which devices will have equal attributes; a device alone is in no group."""
    groups: dict[str, list[set[DeviceName]]] = {}
    for each in bindings:
        together = set(each.devices)
        if len(together) > 1:
            apart = []
            for group in groups.get(each.attribute, []):
                if group & together:
                    together |= group
                else:
                    apart.append(group)
            groups[each.attribute] = [*apart, together]
    found: AttributeGroups = {}
    for attribute, members in groups.items():
        for number, group in enumerate(members):
            found |= {(attribute, d.driver, d.pool, d.device): number for d in group}
    return found


def attribute_group(known: AttributeGroups, attribute: str, device: DeviceId) -> int | None:
    """Return the group of a template device for an attribute, if there is one."""
    return known.get((attribute, device.driver, device.pool, device.name)) if device.template else None
