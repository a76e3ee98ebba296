"""
What a problem says about devices: claims of pods, who holds what, and what is published.

Values only, worked out by :mod:`.intake` from the objects of a cluster and read by :mod:`.world`.
Which holdings are let go depends on the pods that a problem places, so it is settled when the
problem is encoded: a question of consolidation moves other pods than the next one.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.dra import DeviceClaim, DeviceClassSpec, DeviceRequestAllocationResult, ResourceSliceSpec
from karpenter.core.model.catalog import DeviceTemplates
from karpenter.core.scheduling.devices.device import Reach

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karpenter.api.pod import Pod

_ENCODER: Final = msgspec.json.Encoder(order="sorted")


class Consumer(msgspec.Struct, frozen=True):
    """A pod that holds a claim."""

    key: str
    uid: str = ""


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """A claim of a pod."""

    key: str
    name: str
    """What the pod calls it."""

    own: bool = False
    """Whether it was made for one pod, so that nobody else can use it."""

    devices: DeviceClaim = DeviceClaim()
    reach: Reach | None = None
    """From where the devices it was given can be reached; None while it has none."""


class Needs(msgspec.Struct, frozen=True, dict=True):
    """The claims of one pod."""

    claims: tuple[Claim, ...]

    @cached_property
    def likeness(self) -> bytes:
        """What tells pods apart by their claims: claims made alike for different pods are alike."""
        return _ENCODER.encode([c.devices if c.own and c.reach is None else c.key for c in self.claims])


class Holding(msgspec.Struct, frozen=True, kw_only=True):
    """The devices that a claim was given, and who uses them."""

    claim: str
    results: tuple[DeviceRequestAllocationResult, ...]
    consumers: tuple[Consumer, ...] = ()
    """Pods; a claim without any, or held by anything else, keeps its devices."""


class Devices(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about devices that a run depends on."""

    needs: Mapping[str, Needs]
    """By pod key; a pod without an entry needs no devices."""

    classes: Mapping[str, DeviceClassSpec] = {}
    slices: tuple[ResourceSliceSpec, ...] = ()
    holdings: tuple[Holding, ...] = ()
    leaving: tuple[Consumer, ...] = ()
    """Pods that go away with their node."""

    templates: Mapping[str, DeviceTemplates] = {}
    """What nodes that are on their way will have, by node name."""

    def let_go(self, pods: Iterable[Pod]) -> frozenset[str]:
        """Return the claims that give their devices back once `pods` have left the nodes they run on."""
        gone = {each.key: each.uid for each in self.leaving}
        gone |= {pod.key: pod.metadata.uid for pod in pods if pod.spec.node_name}
        return frozenset(
            holding.claim
            for holding in self.holdings
            if holding.consumers and all(_is_gone(each, gone) for each in holding.consumers)
        )


def _is_gone(consumer: Consumer, gone: Mapping[str, str]) -> bool:
    uid = gone.get(consumer.key)
    return uid is not None and (not uid or not consumer.uid or uid == consumer.uid)
