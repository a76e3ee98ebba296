"""What a machine has to be told to become a node, whatever its image."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any

import msgspec

from karpenter.api.node import Taint
from karpenter.cloud.aws.kubelet.subset import KubeletSubset


class BadUserData(ValueError):  # noqa: N818  says what is wrong
    """The user data of a class cannot be merged with ours; the text says why."""


class Bootstrap(msgspec.Struct, frozen=True, kw_only=True):
    """What a machine has to be told."""

    cluster: str
    endpoint: str
    ca_bundle: str
    """In base64."""

    service_cidr: str = ""
    labels: Mapping[str, str] = {}
    taints: tuple[Taint, ...] = ()
    kubelet: KubeletSubset = KubeletSubset()
    """The settings that we understand, with everything worked out."""

    all_kubelet: Mapping[str, Any] = {}
    """All settings, with everything worked out; for images that take any."""

    raid0: bool = False
    binds_directories: bool = False
    """Whether the image has to be told which directories go to local disks; only old Bottlerocket does."""

    custom: str = ""
    """What the user has to say."""

    @property
    def dns(self) -> str:
        """The address of the cluster's DNS; empty when it is not known."""
        return self.kubelet.cluster_dns[0] if self.kubelet.cluster_dns else ""

    @property
    def is_ipv6(self) -> bool:
        """Whether pods have IPv6 addresses."""
        return is_ipv6(self.dns)


def is_ipv6(address: str) -> bool:
    """Say whether an address is an IPv6 one."""
    try:
        return ip_address(address).version == 6  # noqa: PLR2004  the number is the name
    except ValueError:
        return False


def render_labels(labels: Mapping[str, str]) -> str:
    """Return labels as a kubelet's flag takes them, sorted."""
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels))


def render_taint(taint: Taint) -> str:
    """Return a taint as a kubelet's flag takes it."""
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"
