"""
AMI families, and how they differ.

A family decides the format of user data, how the kubelet computes its reserved resources, and the default
volumes. User data is rendered in :mod:`.bootstrap`.

https://karpenter.sh/docs/concepts/nodeclasses/
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.ec2nodeclass import AL2, AL2023, BOTTLEROCKET, CUSTOM, BlockDevice, BlockDeviceMapping

if TYPE_CHECKING:
    from collections.abc import Mapping

WINDOWS_PODS: Final = 110
"""The pod limit of Windows nodes, which does not depend on network interfaces."""


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """An AMI family."""

    name: str
    reserves_by_interfaces: bool = True
    """Whether memory is reserved for as many pods as the network interfaces allow, or for maxPods."""

    limits_pods_per_core: bool = True
    limits_pods_by_interfaces: bool = True
    takes_any_kubelet_setting: bool = False
    checks_kubelet_settings: bool = True
    """Whether its kubelet settings are validated; a Custom AMI may take any."""

    ephemeral_device: str = ""
    """The device of the volume that pods write to; empty where it is not known."""

    disks: tuple[BlockDeviceMapping, ...] = ()
    """The volumes of nodes whose class names none."""

    windows_build: str = ""
    marks_taints: bool = True
    """Whether its kubelet registers with all taints, so that they are not synced later."""

    @property
    def is_windows(self) -> bool:
        return bool(self.windows_build)


def _disk(device: str, size: str) -> BlockDeviceMapping:
    return BlockDeviceMapping(
        device_name=device, ebs=BlockDevice(encrypted=True, volume_type="gp3", volume_size=size)
    )


# The build is the value of the label node.kubernetes.io/windows-build, which the kubelet sets:
# https://kubernetes.io/docs/reference/labels-annotations-taints/
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
                # Bottlerocket has a volume for the OS and one for data: https://bottlerocket.dev/en/faq/
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
    """Return a family by its name; an unknown name counts as AL2, as in Karpenter."""
    return FAMILIES.get(name, FAMILIES[AL2])
