"""
Families of machine images, and how they differ.

A family decides how a machine is told what to do, how its kubelet counts, and which disks it has. Anything
else about images is in :mod:`.images`.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.ec2nodeclass import AL2, AL2023, BOTTLEROCKET, CUSTOM, BlockDevice, BlockDeviceMapping

if TYPE_CHECKING:
    from collections.abc import Mapping

WINDOWS_PODS: Final = 110
"""How many pods a Windows node takes, whatever its network interfaces."""


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """A family of machine images."""

    name: str
    reserves_by_interfaces: bool = True
    """Whether the kubelet reserves memory for as many pods as the interfaces allow, or for its own limit."""

    limits_pods_per_core: bool = True
    limits_pods_by_interfaces: bool = True
    takes_any_kubelet_setting: bool = False
    checks_kubelet_settings: bool = True
    """Whether we know which settings it takes at all."""

    ephemeral_device: str = ""
    """The disk that holds what pods write; empty where we do not know."""

    disks: tuple[BlockDeviceMapping, ...] = ()
    """The disks of machines whose class names none."""

    windows_build: str = ""
    marks_taints: bool = True
    """Whether its kubelet registers with all taints, so that nobody has to add them later."""

    @property
    def is_windows(self) -> bool:
        """Whether its machines run Windows."""
        return bool(self.windows_build)


def _disk(device: str, size: str) -> BlockDeviceMapping:
    return BlockDeviceMapping(
        device_name=device, ebs=BlockDevice(encrypted=True, volume_type="gp3", volume_size=size)
    )


def _windows(name: str, build: str) -> Family:
    return Family(
        name=name,
        reserves_by_interfaces=False,
        limits_pods_by_interfaces=False,
        ephemeral_device="/dev/sda1",
        disks=(_disk("/dev/sda1", "50Gi"),),
        windows_build=build,
    )


FAMILIES: Final[Mapping[str, Family]] = MappingProxyType(
    {
        each.name: each
        for each in (
            Family(name=AL2, ephemeral_device="/dev/xvda", disks=(_disk("/dev/xvda", "20Gi"),)),
            Family(
                name=AL2023,
                takes_any_kubelet_setting=True,
                ephemeral_device="/dev/xvda",
                disks=(_disk("/dev/xvda", "20Gi"),),
            ),
            Family(
                name=BOTTLEROCKET,
                reserves_by_interfaces=False,
                limits_pods_per_core=False,
                ephemeral_device="/dev/xvdb",
                disks=(_disk("/dev/xvda", "4Gi"), _disk("/dev/xvdb", "20Gi")),
            ),
            Family(name=CUSTOM, checks_kubelet_settings=False, marks_taints=False),
            _windows("Windows2019", "10.0.17763"),
            _windows("Windows2022", "10.0.20348"),
            _windows("Windows2025", "10.0.26100"),
        )
    }
)


def family_of(name: str) -> Family:
    """Return a family by its name; one that nobody knows counts as AL2."""
    return FAMILIES.get(name, FAMILIES[AL2])
