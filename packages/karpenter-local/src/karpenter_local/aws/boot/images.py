"""
Which system an image holds, by its name, and who reads user data there.

As with real images, this has nothing to do with what a node class says about its family.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from karpenter_local.aws.boot.al2 import read_al2
from karpenter_local.aws.boot.bootconfig import BootConfig, CannotJoin
from karpenter_local.aws.boot.bottlerocket import read_bottlerocket
from karpenter_local.aws.boot.nodeadm import read_al2023
from karpenter_local.aws.boot.windows import read_windows

if TYPE_CHECKING:
    from collections.abc import Callable


class System(msgspec.Struct, frozen=True, kw_only=True):
    """Content of an image."""

    name: str
    """As nodes report it."""

    disk: str = ""
    """The device that pods write to; empty means the root device."""

    disk_gib: int = 20
    """Its size by default."""

    windows_build: str = ""
    reserves_by_interfaces: bool = True
    """Whether the kubelet reserves memory for as many pods as the interfaces allow, or for its own limit."""

    @property
    def is_windows(self) -> bool:
        return bool(self.windows_build)


AL2: Final = System(name="Amazon Linux 2")
AL2023: Final = System(name="Amazon Linux 2023")
BOTTLEROCKET: Final = System(name="Bottlerocket OS", disk="/dev/xvdb", reserves_by_interfaces=False)
_BUILDS: Final = {"2019": "10.0.17763", "2022": "10.0.20348", "2025": "10.0.26100"}
_READERS: Final[dict[str, Callable[[str], BootConfig]]] = {
    AL2.name: read_al2,
    AL2023.name: read_al2023,
    BOTTLEROCKET.name: read_bottlerocket,
}


def system_of(image: str) -> System | None:
    """Return the system of an image, by the image's name; None when it is none that we know."""
    name = image.lower()
    if "windows_server" in name:
        year = next((year for year in _BUILDS if year in name), "2022")
        return System(
            name=f"Windows Server {year} Datacenter",
            disk_gib=50,
            windows_build=_BUILDS[year],
            reserves_by_interfaces=False,
        )
    if "bottlerocket" in name:
        return BOTTLEROCKET
    if "al2023" in name or "amazon-linux-2023" in name:
        return AL2023
    if "amazon-linux-2" in name or "amazon-eks" in name:
        return AL2
    return None


def read_user_data(system: System, user_data: str) -> BootConfig:
    """
    Return what a machine is told, in the words of its system.

    Raises:
        CannotJoin: what its console says about that.
    """
    if not user_data.strip():
        raise CannotJoin("there is no user data, so the kubelet was not started")
    reader = read_windows if system.is_windows else _READERS[system.name]
    return reader(user_data)
