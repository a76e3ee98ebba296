"""NodePool: which nodes we may add, how many, and when we may take them away again."""

from typing import ClassVar

from msgspec import field

from karpenter.api.meta import Condition, Resource
from karpenter.api.nodeclaim import NodeClaimTemplateSpec
from karpenter.api.wire import ResourceList, Wire


class Budget(Wire, frozen=True, kw_only=True):
    """A ceiling on how many nodes of the pool may be disrupted at once."""

    nodes: str = "10%"
    schedule: str | None = None
    duration: str | None = None
    reasons: tuple[str, ...] = ()


class Disruption(Wire, frozen=True, kw_only=True):
    """When nodes may be replaced or removed for the better."""

    consolidate_after: str = "0s"
    consolidation_policy: str = "WhenEmptyOrUnderutilized"
    budgets: tuple[Budget, ...] = (Budget(),)


class NodeTemplateMeta(Wire, frozen=True, kw_only=True):
    """What the nodes of a pool carry from birth."""

    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)


class NodeClaimTemplate(Wire, frozen=True, kw_only=True):
    """The claims that a pool makes."""

    metadata: NodeTemplateMeta = NodeTemplateMeta()
    spec: NodeClaimTemplateSpec


class NodePoolSpec(Wire, frozen=True, kw_only=True):
    """What a pool allows."""

    template: NodeClaimTemplate
    disruption: Disruption = Disruption()
    limits: ResourceList = field(default_factory=dict)
    weight: int | None = None
    replicas: int | None = None


class NodePoolStatus(Wire, frozen=True, kw_only=True):
    """What a pool has."""

    resources: ResourceList = field(default_factory=dict)
    nodes: int = 0
    node_class_observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()


class NodePool(Resource, frozen=True, kw_only=True):
    """A kind of node that we may add and remove."""

    api_version: ClassVar[str] = "karpenter.sh/v1"
    kind: ClassVar[str] = "NodePool"

    spec: NodePoolSpec
    status: NodePoolStatus = NodePoolStatus()
