"""NodePool: which nodes Karpenter may add, how many, and when it may disrupt them."""

from typing import Annotated, ClassVar

from msgspec import field

from karpenter.api.constraints import (
    DURATION_OR_NEVER,
    LABEL_VALUE,
    MAX_KEY,
    MAX_VALUE,
    QUALIFIED_NAME,
    constraint,
    rule,
)
from karpenter.api.labels import key_rules, map_rules
from karpenter.api.meta import ABSENT_MAP, Condition, Resource, ResourceList, Wire, always
from karpenter.api.nodeclaim import (
    BOUNDS_NEED_ONE_INTEGER,
    IN_NEEDS_VALUES,
    MIN_VALUES_NEED_VALUES,
    NodeClaimTemplateSpec,
    NodeClassReference,
    NodeRequirement,
)

REASONS = ("Underutilized", "Empty", "Drifted")
"""What a budget can be limited to."""

POLICIES = ("WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced")
"""When consolidation acts."""

# The pattern of Karpenter's own definition, which is approximate: https://karpenter.sh/docs/concepts/disruption/
_SCHEDULE = r"^(@(annually|yearly|monthly|weekly|daily|midnight|hourly))|((.+)\s(.+)\s(.+)\s(.+)\s(.+))$"
_WINDOW = r"^((([0-9]+(h|m))|([0-9]+h[0-9]+m))(0s)?)$"


# Of several budgets that apply the strictest counts:
# https://karpenter.sh/docs/concepts/disruption/#nodepool-disruption-budgets
class Budget(Wire, frozen=True, kw_only=True):
    """A ceiling on how many nodes of the pool may be disrupted at once."""

    nodes: Annotated[str, constraint(pattern="^((100|[0-9]{1,2})%|[0-9]+)$", default="10%")] = "10%"
    """A number of nodes, or a share of the pool in percent, which is rounded up."""

    schedule: Annotated[str | None, constraint(pattern=_SCHEDULE)] = None
    """When the budget opens: five cron fields or a name such as @daily, in UTC. Absent means always open."""

    duration: Annotated[str | None, constraint(pattern=_WINDOW)] = None
    """How long the budget stays open after each opening, in hours and minutes. Needs a schedule."""

    reasons: Annotated[
        tuple[str, ...], constraint(list_type="set", max_items=50, items={"enum": list(REASONS)})
    ] = ()
    """What the budget limits. Absent means every reason."""


# https://karpenter.sh/docs/concepts/nodepools/#specdisruption
class Disruption(Wire, frozen=True, kw_only=True):
    """When nodes may be replaced or removed for the better."""

    consolidate_after: Annotated[str, constraint(pattern=DURATION_OR_NEVER, required=True)] = always("0s")
    """How long a node must have seen no pod come or go before consolidation looks at it, or Never."""

    consolidation_policy: Annotated[
        str, constraint(enum=list(POLICIES), default="WhenEmptyOrUnderutilized")
    ] = "WhenEmptyOrUnderutilized"
    """
    Which nodes consolidation looks at.

    WhenEmpty removes empty nodes only, WhenEmptyOrUnderutilized also replaces nodes by cheaper ones, and
    Balanced does so only where the saving outweighs the disturbance.
    """

    budgets: Annotated[
        tuple[Budget, ...],
        constraint(
            list_type="atomic",
            max_items=50,
            default=[{"nodes": "10%"}],
            rules=(
                rule(
                    "self.all(x, has(x.schedule) == has(x.duration))",
                    "'schedule' must be set with 'duration'",
                ),
            ),
        ),
    ] = (Budget(),)
    """Ceilings on simultaneous disruption. All that are open apply; the tightest decides."""


class NodeTemplateMeta(Wire, frozen=True, kw_only=True):
    """Labels and annotations of the nodes of a pool."""

    labels: Annotated[
        dict[str, str],
        constraint(
            map_type="atomic",
            max_properties=100,
            additionalProperties={"maxLength": MAX_VALUE, "pattern": LABEL_VALUE},
            rules=map_rules(),
        ),
    ] = ABSENT_MAP
    """Labels of the nodes."""

    annotations: dict[str, str] = ABSENT_MAP
    """Annotations of the claims and nodes."""


# minValues: https://karpenter.sh/docs/concepts/nodepools/#min-values
class PoolRequirement(NodeRequirement, frozen=True, kw_only=True):
    """A condition on one label of the node, and how many of its values to keep open."""

    key: Annotated[
        str,
        constraint(max_length=MAX_KEY, pattern=QUALIFIED_NAME, rules=key_rules(pool=True)),
    ]
    """The label."""


class PoolTemplateSpec(NodeClaimTemplateSpec, frozen=True, kw_only=True):
    """Settings of each claim of the pool."""

    requirements: Annotated[
        tuple[PoolRequirement, ...],
        constraint(
            list_type="atomic",
            max_items=100,
            required=True,
            rules=(IN_NEEDS_VALUES, BOUNDS_NEED_ONE_INTEGER, MIN_VALUES_NEED_VALUES),
        ),
    ] = always(())
    """Conditions on the nodes' labels; they are combined with those of the pods."""

    node_class_ref: Annotated[
        NodeClassReference,
        constraint(
            rules=(
                rule("self.group == oldSelf.group", "nodeClassRef.group is immutable"),
                rule("self.kind == oldSelf.kind", "nodeClassRef.kind is immutable"),
            )
        ),
    ]
    """The provider's object that says how machines are configured; one of the same kind may replace it."""


class NodeClaimTemplate(Wire, frozen=True, kw_only=True):
    """The claims that a pool makes."""

    metadata: NodeTemplateMeta = NodeTemplateMeta()
    """Labels and annotations of the nodes."""

    spec: PoolTemplateSpec
    """What each claim asks for."""


# https://karpenter.sh/docs/concepts/nodepools/
class NodePoolSpec(Wire, frozen=True, kw_only=True):
    """Settings and limits of a pool."""

    template: NodeClaimTemplate
    """The claims that the pool makes. Changing it lets existing nodes drift."""

    disruption: Annotated[Disruption, constraint(default={"consolidateAfter": "0s"})] = Disruption()
    """When nodes may be replaced or removed for the better."""

    limits: ResourceList = field(default_factory=dict)
    """Ceilings on what the pool's nodes have together; ``nodes`` counts the nodes themselves."""

    weight: Annotated[int | None, constraint(format="int32", minimum=1, maximum=100)] = None
    """Which pool is tried first: the heaviest. Absent counts as 0."""

    replicas: Annotated[int | None, constraint(minimum=0)] = None
    """How many nodes a static pool keeps, pods or no pods. Absent means that pods decide; alpha."""


class NodePoolStatus(Wire, frozen=True, kw_only=True):
    """Resources, nodes and conditions of a pool."""

    resources: ResourceList = field(default_factory=dict)
    """What the pool's nodes have together."""

    nodes: Annotated[int, constraint(default=0)] = 0
    """How many nodes the pool has."""

    node_class_observed_generation: int = 0
    """The generation of the node class for which registrations were last counted."""

    conditions: Annotated[tuple[Condition, ...], constraint(list_type="map", list_keys=("type",))] = ()
    """Whether the pool can be used."""


class NodePool(Resource, frozen=True, kw_only=True):
    """Which nodes may be added and removed, and within which limits."""

    api_version: ClassVar[str] = "karpenter.sh/v1"
    kind: ClassVar[str] = "NodePool"

    spec: Annotated[
        NodePoolSpec,
        constraint(
            rules=(
                rule(
                    "has(self.replicas) == has(oldSelf.replicas)",
                    "a pool is static (with replicas) or dynamic (without) for good",
                ),
                rule(
                    "!has(self.replicas) || !has(self.limits) || size(self.limits) == 0 ||"
                    " (size(self.limits) == 1 && 'nodes' in self.limits)",
                    "only 'limits.nodes' may be set on a pool with replicas",
                ),
                rule(
                    "!has(self.replicas) || !has(self.weight)",
                    "'weight' may not be set on a pool with replicas",
                ),
            )
        ),
    ]
    """What the pool allows."""

    status: NodePoolStatus = NodePoolStatus()
    """What the pool has."""
