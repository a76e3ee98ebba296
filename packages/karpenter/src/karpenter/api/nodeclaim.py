"""
NodeClaim: a request for one node, and its status.

A claim outlives restarts of Karpenter, so it holds everything that is needed to find its instance again.
"""

from typing import Annotated, ClassVar

from msgspec import field

from karpenter.api.constraints import DURATION, DURATION_OR_NEVER, MAX_KEY, QUALIFIED_NAME, constraint, rule
from karpenter.api.labels import key_rules
from karpenter.api.meta import ABSENT_LIST, Condition, Resource, ResourceList, Timestamp, Wire, always
from karpenter.api.node import Taint

OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte")
"""What a requirement can say about a label."""

IN_NEEDS_VALUES = rule(
    "self.all(x, x.operator != 'In' || (has(x.values) && x.values.size() > 0))",
    "requirements with operator 'In' must have at least one value",
)
BOUNDS_NEED_ONE_INTEGER = rule(
    "self.all(x, !(x.operator in ['Gt', 'Lt', 'Gte', 'Lte']) ||"
    " (has(x.values) && x.values.size() == 1 && int(x.values[0]) >= 0))",
    "requirements with operator 'Gt', 'Lt', 'Gte' or 'Lte' must have a single value,"
    " which is an integer that is not negative",
)
MIN_VALUES_NEED_VALUES = rule(
    "self.all(x, x.operator != 'In' || !has(x.minValues) ||"
    " (has(x.values) && x.values.size() >= x.minValues))",
    "requirements with operator 'In' and minValues must have at least that many values",
)


class NodeClassReference(Wire, frozen=True, kw_only=True):
    """The provider's object that says how machines are configured."""

    group: Annotated[str, constraint(min_length=1, pattern="^[^/]*$")]
    """The API group of the node class, without a version."""

    kind: Annotated[str, constraint(min_length=1)]
    """The kind of the node class."""

    name: Annotated[str, constraint(min_length=1)]
    """The name of the node class."""


class NodeRequirement(Wire, frozen=True, kw_only=True):
    """A condition on one label of the node, and how many of its values to keep open."""

    key: Annotated[str, constraint(max_length=MAX_KEY, pattern=QUALIFIED_NAME, rules=key_rules())]
    """The label."""

    operator: Annotated[str, constraint(enum=list(OPERATORS))]
    """How the label relates to the values."""

    values: Annotated[
        tuple[str, ...],
        constraint(list_type="atomic"),
    ] = ()
    """The values: at least one for In, any number for NotIn, one integer for Gt, Lt, Gte, Lte, else none."""

    min_values: Annotated[int | None, constraint(minimum=1, maximum=50)] = None
    """How many different values of the label the choice of instance types must keep open; alpha."""


class NodeClaimResources(Wire, frozen=True, kw_only=True):
    """Sum of the requests of the pods that caused the claim."""

    requests: ResourceList = field(default_factory=dict)
    """The least that the machine must have to offer."""


# https://karpenter.sh/docs/concepts/nodepools/#spectemplatespec
class NodeClaimTemplateSpec(Wire, frozen=True, kw_only=True):
    """Settings of each claim of a pool."""

    taints: Annotated[tuple[Taint, ...], constraint(list_type="atomic")] = ABSENT_LIST
    """What keeps pods without a matching toleration off the node."""

    startup_taints: Annotated[tuple[Taint, ...], constraint(list_type="atomic")] = ABSENT_LIST
    """Taints that something else removes once the node is set up; pods need not tolerate them."""

    requirements: Annotated[
        tuple[NodeRequirement, ...],
        constraint(
            list_type="atomic",
            max_items=100,
            required=True,
            rules=(IN_NEEDS_VALUES, BOUNDS_NEED_ONE_INTEGER, MIN_VALUES_NEED_VALUES),
        ),
    ] = always(())
    """Conditions on the node's labels; they are combined with those of its pods."""

    node_class_ref: NodeClassReference
    """The provider's object that says how the machine is configured."""

    termination_grace_period: Annotated[str | None, constraint(pattern=DURATION)] = None
    """
    How long the node may drain before it is deleted, pods and all.

    Once this time is over, neither disruption budgets nor ``karpenter.sh/do-not-disrupt`` hold the node
    any longer. Absent means that it drains until its pods have left.
    """

    expire_after: Annotated[str, constraint(pattern=DURATION_OR_NEVER, default="720h")] = "720h"
    """How long the node may live before it is replaced, or Never."""


class NodeClaimSpec(NodeClaimTemplateSpec, frozen=True, kw_only=True):
    """Request for a node; it never changes."""

    resources: NodeClaimResources = NodeClaimResources()
    """The least that the machine must have to offer."""


# https://karpenter.sh/docs/concepts/nodeclaims/
class NodeClaimStatus(Wire, frozen=True, kw_only=True):
    """State that the provider and the kubelet have reported so far."""

    node_name: str = ""
    """The node that the machine has become."""

    provider_id: str = field(name="providerID", default="")
    """Set once, at launch; the only safe key for talking to the cloud."""

    image_id: str = field(name="imageID", default="")
    """The image that the machine was started from."""

    capacity: ResourceList = field(default_factory=dict)
    """All that the machine has."""

    allocatable: ResourceList = field(default_factory=dict)
    """What is left of the capacity for pods."""

    last_pod_event_time: Timestamp | None = None
    """When a pod was last bound to the node, or left it, or came to its end there."""

    conditions: Annotated[tuple[Condition, ...], constraint(list_type="map", list_keys=("type",))] = ()
    """How far the claim has come."""


class NodeClaim(Resource, frozen=True, kw_only=True):
    """A request for one node, and its status."""

    api_version: ClassVar[str] = "karpenter.sh/v1"
    kind: ClassVar[str] = "NodeClaim"

    spec: Annotated[NodeClaimSpec, constraint(rules=(rule("self == oldSelf", "spec is immutable"),))]
    """What is asked for; it never changes."""

    status: NodeClaimStatus = NodeClaimStatus()
    """What the provider and the kubelet have reported so far."""
