"""The boot configuration of a machine: what its user data says, whatever the format."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from karpenter.api.node import Taint


class CannotJoin(ValueError):  # noqa: N818  says what is the case
    """The machine does not become a node; the text is what its console says about that."""


class KubeletArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a kubelet that decide how much room its node has."""

    max_pods: int | None = None
    pods_per_core: int = 0
    kube_reserved: Mapping[str, str] = {}
    system_reserved: Mapping[str, str] = {}
    eviction_hard: Mapping[str, str] = {}
    merges: bool = True
    """Whether what is said is merged with the defaults of the image, entry by entry, or replaces them."""


class BootConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster, labels, taints and kubelet settings that user data states."""

    cluster: str
    endpoint: str
    authority: str
    """In base64."""

    labels: Mapping[str, str] = {}
    taints: tuple[Taint, ...] = ()
    kubelet: KubeletArguments = KubeletArguments()
    raid0: bool = False
