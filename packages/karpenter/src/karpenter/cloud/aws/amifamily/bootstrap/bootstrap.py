"""
What a node needs to join the cluster, whatever its AMI, and kubelet settings as flags.

Flags are for AMIs whose bootstrap script takes nothing else: AL2 and Windows.
https://kubernetes.io/docs/reference/command-line-tools-reference/kubelet/
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from typing import Any, Final

import msgspec

from karpenter.api.node import Taint
from karpenter.api.validation.nodeclaim_validation import is_label_value, is_qualified_name
from karpenter.base.pretty import excerpt
from karpenter.cloud.aws.kubelet.expressions import KubeletSubset


class BadUserData(ValueError):  # noqa: N818  says what is wrong
    """The user data of a node class cannot be merged with Karpenter's; the text says why."""


class Bootstrap(msgspec.Struct, frozen=True, kw_only=True):
    """Facts and settings that a node needs to join."""

    cluster: str
    endpoint: str
    ca_bundle: str
    """In base64."""

    service_cidr: str = ""
    labels: Mapping[str, str] = {}
    taints: tuple[Taint, ...] = ()
    kubelet: KubeletSubset = KubeletSubset()
    """The kubelet settings that every family takes, resolved for the instance type."""

    all_kubelet: Mapping[str, Any] = {}
    """All kubelet settings, resolved for the instance type; for AL2023, which takes any."""

    raid0: bool = False
    binds_directories: bool = False
    """Whether the directories on local disks have to be named; only old versions of Bottlerocket need it."""

    custom: str = ""
    """The user data of the node class."""

    @property
    def dns(self) -> str:
        """The address of the cluster's DNS; empty when it is not known."""
        return self.kubelet.cluster_dns[0] if self.kubelet.cluster_dns else ""

    @property
    def is_ipv6(self) -> bool:
        return is_ipv6(self.dns)


def is_ipv6(address: str) -> bool:
    try:
        return ip_address(address).version == 6  # noqa: PLR2004  the number is the name
    except ValueError:
        return False


_WORD: Final = re.compile(r"[A-Za-z0-9._/:%+=@,~\[\]-]*")
"""What no shell, no PowerShell and no list with commas in quotes takes for anything but itself."""


def check_words(bootstrap: Bootstrap) -> None:
    """
    Refuse what would be more than a value in a script of a node.

    Labels may come from pods, by way of requirements, and kubelet settings from node classes. The API server
    refuses what is no label or no quantity; this holds where its rules are older than ours, or are missing.

    Raises:
        BadUserData: naming the value.
    """
    for key, value in bootstrap.labels.items():
        if not is_qualified_name(key) or not is_label_value(value):
            raise BadUserData(f"the label {excerpt(key)} with the value {excerpt(value)} is no label")
    for taint in bootstrap.taints:
        if not is_qualified_name(taint.key) or not is_label_value(taint.value) or not taint.effect.isalpha():
            raise BadUserData(
                f"the taint {excerpt(taint.key)} with the value {excerpt(taint.value)} is no taint"
            )
    kubelet = bootstrap.kubelet
    words = {
        "the name of the cluster": [bootstrap.cluster],
        "the endpoint of the cluster": [bootstrap.endpoint],
    }
    words |= {"the CA bundle": [bootstrap.ca_bundle], "clusterDNS": list(kubelet.cluster_dns)}
    for field in ("system_reserved", "kube_reserved", "eviction_hard", "eviction_soft"):
        words[field] = [each for entry in getattr(kubelet, field).items() for each in entry]
    grace = kubelet.eviction_soft_grace_period
    words["eviction_soft_grace_period"] = [each for entry in grace.items() for each in entry]
    for what, values in words.items():
        for value in values:
            if not _WORD.fullmatch(value):
                raise BadUserData(f"{what}: {excerpt(value)} holds characters that a shell takes for its own")


def render_labels(labels: Mapping[str, str]) -> str:
    """Return labels as the flag --node-labels takes them, sorted."""
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels))


def render_taint(taint: Taint) -> str:
    """Return a taint as the flag --register-with-taints takes it."""
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"


def kubelet_flags(bootstrap: Bootstrap) -> str:
    """Return the flags, joined by spaces, always in the same order."""
    return " ".join(_flags(bootstrap))


def _flags(bootstrap: Bootstrap) -> Iterator[str]:
    kubelet = bootstrap.kubelet
    if bootstrap.labels:
        yield f'--node-labels="{render_labels(bootstrap.labels)}"'
    # The taint that keeps pods off until registration is among them, so the flag is never empty:
    # https://karpenter.sh/docs/concepts/nodeclaims/
    yield f'--register-with-taints="{",".join(map(render_taint, bootstrap.taints))}"'
    yield from _number("max-pods", kubelet.max_pods)
    yield from _number("pods-per-core", kubelet.pods_per_core)
    yield from _pairs("system-reserved", kubelet.system_reserved, "=")
    yield from _pairs("kube-reserved", kubelet.kube_reserved, "=")
    # A threshold is written as signal<quantity; a reservation as resource=quantity:
    # https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/
    yield from _pairs("eviction-hard", kubelet.eviction_hard, "<")
    yield from _pairs("eviction-soft", kubelet.eviction_soft, "<")
    yield from _pairs("eviction-soft-grace-period", kubelet.eviction_soft_grace_period, "=")
    yield from _number("eviction-max-pod-grace-period", kubelet.eviction_max_pod_grace_period)
    yield from _number("image-gc-high-threshold", kubelet.image_gc_high)
    yield from _number("image-gc-low-threshold", kubelet.image_gc_low)
    if kubelet.cpu_cfs_quota is not None:
        yield f"--cpu-cfs-quota={'true' if kubelet.cpu_cfs_quota else 'false'}"


def _number(flag: str, value: int | str | None) -> Iterator[str]:
    if isinstance(value, int):
        yield f"--{flag}={value}"


def _pairs(flag: str, entries: Mapping[str, str], sign: str) -> Iterator[str]:
    if entries:
        yield f'--{flag}="{",".join(f"{key}{sign}{entries[key]}" for key in sorted(entries))}"'
