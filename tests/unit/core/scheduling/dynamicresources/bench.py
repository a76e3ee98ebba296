"""A place to search for devices: one node, what it can reach, and what is taken already."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from karpenter.core.scheduling.dynamicresources.allocationtracker import AllocationTracker, PriorAllocations
from karpenter.core.scheduling.dynamicresources.pool import (
    NO_TEMPLATE_DEVICES,
    CandidateDevices,
    PublishedPools,
    TemplateDevices,
    published_pools,
)
from karpenter.core.scheduling.dynamicresources.request import compile_claim
from karpenter.core.scheduling.dynamicresources.search import (
    DeviceSearch,
    FoundDevices,
    PendingClaim,
    StepBudget,
)
from karpenter.core.scheduling.dynamicresources.selectors import SelectorMatcher
from karpenter.core.scheduling.dynamicresources.types import DeviceId, NodeTerms
from karpenter.core.scheduling.encode.devices import NodeTarget
from karpenter_local.testing.builders import node
from tests.unit.core.scheduling.dynamicresources.hardware import CLASSES, DRIVER, sliced

if TYPE_CHECKING:
    from karpenter.api.dra import DeviceClaim, ResourceSliceSpec
    from karpenter.core.model.catalog import DeviceTemplates

LANES: Final = f"{DRIVER}/lanes"


def pool(*devices: dict[str, Any], **fields: Any) -> ResourceSliceSpec:
    return sliced(*devices, nodeName="n1", **fields)


class Bench:
    """One node in zone-1, the devices it can reach, and a tracker."""

    def __init__(
        self,
        *slices: ResourceSliceSpec,
        brings: DeviceTemplates | None = None,
        taken: str = "",
        shares: dict[str, int] | None = None,
    ) -> None:
        published = PublishedPools(published_pools(slices))
        target = NodeTarget(node("n1", zone="zone-1").existing)
        near = [device for pool in published.sound for device in pool.devices]
        coming = TemplateDevices(brings) if brings is not None else NO_TEMPLATE_DEVICES
        self._place = target
        self._candidates = CandidateDevices(SelectorMatcher(), published, near, coming)
        portions = {
            (DeviceId(DRIVER, "pool", name), LANES): amount * 10**9 for name, amount in (shares or {}).items()
        }
        exclusive = frozenset(DeviceId(DRIVER, "pool", name) for name in taken)
        self.tracker = AllocationTracker(
            PriorAllocations(exclusive=exclusive, consumed_capacity=portions), {}
        )
        self.search = DeviceSearch(self._candidates, self.tracker, 0, 0, StepBudget())

    def find(
        self, *claims: DeviceClaim, steps: int = 10_000, required_terms: tuple[NodeTerms, ...] = ()
    ) -> FoundDevices | None:
        """Return what is found for some claims, called claim-0, claim-1 and so on."""
        self.search = DeviceSearch(self._candidates, self.tracker, 0, 0, StepBudget(steps))
        pending_claims = [
            PendingClaim(f"claim-{n}", f"claim-{n}", compile_claim(each, CLASSES))
            for n, each in enumerate(claims)
        ]
        return self.search.run(self._place, required_terms, pending_claims)

    def names(self, *claims: DeviceClaim) -> list[str] | None:
        """Return the names of the devices that are found, those of the machine with a star."""
        found = self.find(*claims)
        if found is None:
            return None
        return [
            allocation.device.id.name + "*" * allocation.device.id.template
            for allocation in found.allocations
        ]
