"""
NodeClaim: the wish for one machine, and what became of it.

A claim outlives every restart of ours, so it holds all that is needed to find its machine again.
"""

from datetime import datetime
from typing import ClassVar

from msgspec import field

from karpenter.api.meta import Condition, Resource
from karpenter.api.node import Taint
from karpenter.api.wire import ResourceList, Wire


class NodeClassReference(Wire, frozen=True, kw_only=True):
    """The provider's object that says how machines are configured."""

    group: str
    kind: str
    name: str


class NodeRequirement(Wire, frozen=True, kw_only=True):
    """A condition on one label of the node, and how many of its values to keep open."""

    key: str
    operator: str
    values: tuple[str, ...] = ()
    min_values: int | None = None


class NodeClaimResources(Wire, frozen=True, kw_only=True):
    """What the pods that caused the claim ask for together."""

    requests: ResourceList = field(default_factory=dict)


class NodeClaimTemplateSpec(Wire, frozen=True, kw_only=True):
    """What a pool says about each of its claims."""

    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    requirements: tuple[NodeRequirement, ...] = ()
    node_class_ref: NodeClassReference
    termination_grace_period: str | None = None
    expire_after: str = "720h"


class NodeClaimSpec(NodeClaimTemplateSpec, frozen=True, kw_only=True):
    """What a claim asks for; it never changes."""

    resources: NodeClaimResources = NodeClaimResources()


class NodeClaimStatus(Wire, frozen=True, kw_only=True):
    """What the provider and the kubelet have reported so far."""

    node_name: str = ""
    provider_id: str = field(name="providerID", default="")
    image_id: str = field(name="imageID", default="")
    capacity: ResourceList = field(default_factory=dict)
    allocatable: ResourceList = field(default_factory=dict)
    last_pod_event_time: datetime | None = None
    conditions: tuple[Condition, ...] = ()


class NodeClaim(Resource, frozen=True, kw_only=True):
    """The wish for one machine."""

    api_version: ClassVar[str] = "karpenter.sh/v1"
    kind: ClassVar[str] = "NodeClaim"

    spec: NodeClaimSpec
    status: NodeClaimStatus = NodeClaimStatus()
