"""What a machine was told by its user data, whatever the words."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from karpenter.api.node import Taint


class CannotJoin(ValueError):  # noqa: N818  says what is the case
    """The machine does not become a node; the text is what its console says about that."""


class Kubelet(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a kubelet that decide how much room its node has."""

    max_pods: int | None = None
    pods_per_core: int = 0
    kube_reserved: Mapping[str, str] = {}
    system_reserved: Mapping[str, str] = {}
    eviction_hard: Mapping[str, str] = {}
    merges: bool = True
    """Whether what is said is merged with the defaults of the image, entry by entry, or replaces them."""


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What a machine was told."""

    cluster: str
    endpoint: str
    authority: str
    """In base64."""

    labels: Mapping[str, str] = {}
    taints: tuple[Taint, ...] = ()
    kubelet: Kubelet = Kubelet()
    raid0: bool = False
