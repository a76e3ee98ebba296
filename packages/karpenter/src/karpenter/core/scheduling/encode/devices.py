"""The devices of a problem: which ones a node or a new node of a NodePool may be allocated, packing aside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from karpenter.core.model.requirements import Requirements
from karpenter.core.scheduling.dynamicresources.allocationtracker import AllocationTracker, prior_allocations
from karpenter.core.scheduling.dynamicresources.pool import (
    NO_TEMPLATE_DEVICES,
    CandidateDevices,
    PublishedPools,
    TemplateDevices,
    published_pools,
)
from karpenter.core.scheduling.dynamicresources.request import ParsedClaim, compile_claim
from karpenter.core.scheduling.dynamicresources.search import PendingClaim
from karpenter.core.scheduling.dynamicresources.selectors import SelectorMatcher
from karpenter.core.scheduling.dynamicresources.types import (
    NODE_NAME,
    DeviceInfo,
    DynamicResources,
    PodClaim,
    PodClaims,
    PoolId,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from karpenter.api.pod import Pod
    from karpenter.core.model.catalog import InstanceType
    from karpenter.core.scheduling.encode.nodeclaimtemplate import Template
    from karpenter.core.scheduling.problem import ExistingNode


_ENCODER: Final = msgspec.json.Encoder(order="sorted")


class DeviceInventory:
    """Everything about devices that a run never changes; made once per problem."""

    def __init__(self, devices: DynamicResources, pods: Sequence[Pod], templates: Sequence[Template]) -> None:
        self._devices = devices
        self._matcher = SelectorMatcher()
        self._published = PublishedPools(published_pools(devices.slices))
        self._local: dict[str, list[DeviceInfo]] = {}
        self._general: list[DeviceInfo] = []
        sound = [device for pool in self._published.sound for device in pool.devices]
        for device in sound:
            (self._local.setdefault(device.node_name, []) if device.node_name else self._general).append(
                device
            )
        self._released_claims = devices.released_claims(pods)
        self._prior = prior_allocations(devices.allocated_claims, self._released_claims)
        self._consumed_counters: dict[tuple[PoolId, str, str], int] = {}
        held = self._prior.devices
        for device in sound:
            for consumption in device.consumes_counters if device.id in held else ():
                key = device.id.pool_id, consumption.counter_set, consumption.counter
                self._consumed_counters[key] = self._consumed_counters.get(key, 0) + consumption.amount
        self._device_sets = {each.number: DeviceSets(each.pool.types, self) for each in templates}
        self._nodes: dict[str, tuple[NodeTarget, CandidateDevices]] = {}
        self._wanted: dict[bytes, ParsedClaim] = {}

    def pod_claims(self, pod: Pod) -> PodClaims:
        return self._devices.pod_claims[pod.key]

    def is_allocated(self, claim: PodClaim) -> bool:
        return claim.node_terms is not None and claim.key not in self._released_claims

    def pending(self, claim: PodClaim) -> PendingClaim:
        """Return what a claim requests; equal claims share one parsed value."""
        content = _ENCODER.encode(claim.devices)
        if content not in self._wanted:
            self._wanted[content] = compile_claim(claim.devices, self._devices.classes)
        return PendingClaim(claim.key, claim.name, self._wanted[content])

    def fresh_tracker(self) -> AllocationTracker:
        """Return the allocations before anything is placed."""
        return AllocationTracker(self._prior, self._consumed_counters)

    def device_sets(self, template: Template) -> DeviceSets:
        return self._device_sets[template.number]

    def candidates_of(self, templates: TemplateDevices) -> CandidateDevices:
        """Return the devices that a new node may be allocated."""
        return CandidateDevices(self._matcher, self._published, self._general, templates)

    def node(self, node: ExistingNode) -> tuple[NodeTarget, CandidateDevices]:
        """Return an existing node as a target, and the devices that it may be allocated."""
        if node.name not in self._nodes:
            target = NodeTarget(node)
            near = [*self._local.get(node.name, ())]
            near += [
                d for d in self._general if any(target.narrow(term) is not None for term in d.node_terms)
            ]
            coming = self._devices.templates.get(node.name)
            templates = TemplateDevices(coming) if coming is not None else NO_TEMPLATE_DEVICES
            self._nodes[node.name] = target, CandidateDevices(self._matcher, self._published, near, templates)
        return self._nodes[node.name]


class DeviceSets:
    """The device sets of one NodePool: its instance types, grouped by their template devices."""

    def __init__(self, types: Sequence[InstanceType], inventory: DeviceInventory) -> None:
        numbers: dict[bytes, int] = {}
        self.of = np.zeros(len(types), np.int64)
        """``of[type]`` is the number of its device set."""

        self.candidates: list[CandidateDevices] = []
        for kind, each in enumerate(types):
            content = _ENCODER.encode(each.devices)
            number = numbers.setdefault(content, len(numbers))
            if number == len(self.candidates):
                self.candidates.append(inventory.candidates_of(TemplateDevices(each.devices)))
            self.of[kind] = number

    def kinds(self, kinds: NDArray[np.int64]) -> dict[int, NDArray[np.int64]]:
        mine = self.of[kinds]
        return {number: kinds[mine == number] for number in np.unique(mine).tolist()}


class NodeTarget:
    """An existing node: it has all its labels, so it either satisfies a term or does not."""

    def __init__(self, node: ExistingNode) -> None:
        self._requirements = Requirements.from_labels({**node.labels, NODE_NAME: node.name})

    def narrow(self, wanted: Requirements) -> NodeTarget | None:
        """Return the same node if it satisfies `wanted`."""
        return self if self._requirements.accepts(wanted) else None
