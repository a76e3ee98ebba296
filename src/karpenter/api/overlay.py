"""NodeOverlay: corrections to what a provider says about prices and capacity."""

from typing import ClassVar

from msgspec import field

from karpenter.api.meta import Condition, Resource
from karpenter.api.placement import NodeSelectorRequirement
from karpenter.api.wire import ResourceList, Wire


class NodeOverlaySpec(Wire, frozen=True, kw_only=True):
    """Which instance types to correct, and how."""

    requirements: tuple[NodeSelectorRequirement, ...] = ()
    price: str | None = None
    price_adjustment: str | None = None
    capacity: ResourceList = field(default_factory=dict)
    weight: int | None = None


class NodeOverlayStatus(Wire, frozen=True, kw_only=True):
    """Whether the overlay is in force."""

    conditions: tuple[Condition, ...] = ()


class NodeOverlay(Resource, frozen=True, kw_only=True):
    """A correction to the catalogue."""

    api_version: ClassVar[str] = "karpenter.sh/v1alpha1"
    kind: ClassVar[str] = "NodeOverlay"

    spec: NodeOverlaySpec = NodeOverlaySpec()
    status: NodeOverlayStatus = NodeOverlayStatus()
