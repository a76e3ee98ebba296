"""NodeOverlay: corrections to what a provider says about prices and capacity."""

from typing import Annotated, ClassVar

from msgspec import field

from karpenter.api.constraints import (
    LABEL_VALUE,
    MAX_KEY,
    MAX_VALUE,
    QUALIFIED_NAME,
    QUANTITY_SCHEMA,
    constraint,
    rule,
)
from karpenter.api.labels import key_rules
from karpenter.api.meta import Condition, Resource, ResourceList, Wire, always
from karpenter.api.nodeclaim import BOUNDS_NEED_ONE_INTEGER, IN_NEEDS_VALUES, OPERATORS
from karpenter.api.pod import NodeSelectorRequirement

# The pattern of Karpenter's own definition: a price may fall by 100 % at most, and rise without a limit.
_ADJUSTMENT = r"^(([+-]{1}(\d*\.?\d+))|(\+{1}\d*\.?\d+%)|(^(-\d{1,2}(\.\d+)?%)$)|(-100%))$"


class OverlayRequirement(NodeSelectorRequirement, frozen=True, kw_only=True):
    """A condition on one label of an instance type or offering."""

    key: Annotated[str, constraint(max_length=MAX_KEY, pattern=QUALIFIED_NAME, rules=key_rules(overlay=True))]
    """The label."""

    operator: Annotated[str, constraint(enum=list(OPERATORS))]
    """How the label relates to the values."""

    values: Annotated[
        tuple[str, ...],
        constraint(items={"maxLength": MAX_VALUE, "pattern": LABEL_VALUE}, list_type="atomic"),
    ] = ()
    """The values: at least one for In and NotIn, one integer for Gt, Lt, Gte and Lte, else none."""


# https://karpenter.sh/docs/concepts/nodeoverlays/
class NodeOverlaySpec(Wire, frozen=True, kw_only=True):
    """Which instance types to correct, and how."""

    requirements: Annotated[
        tuple[OverlayRequirement, ...],
        constraint(
            list_type="atomic",
            max_items=100,
            required=True,
            rules=(
                IN_NEEDS_VALUES,
                rule(
                    "self.all(x, x.operator != 'NotIn' || (has(x.values) && x.values.size() > 0))",
                    "requirements with operator 'NotIn' must have at least one value",
                ),
                BOUNDS_NEED_ONE_INTEGER,
            ),
        ),
    ] = always(())
    """Which instance types and offerings are meant; all of them when empty."""

    price: Annotated[str | None, constraint(pattern=r"^\d+(\.\d+)?$")] = None
    """The price per hour, in place of the provider's."""

    price_adjustment: Annotated[str | None, constraint(pattern=_ADJUSTMENT)] = None
    """What is added to the provider's price: an amount such as -0.5, or a share such as +10%."""

    capacity: Annotated[
        ResourceList,
        constraint(
            max_properties=100,
            additionalProperties=dict(QUANTITY_SCHEMA),
            rules=(
                rule(
                    "self.all(x, !(x in ['cpu', 'memory', 'ephemeral-storage', 'pods']))",
                    "capacity may not hold cpu, memory, ephemeral-storage or pods",
                ),
            ),
        ),
    ] = field(default_factory=dict)
    """Extended resources that the instance types have and the provider does not know of."""

    weight: Annotated[int | None, constraint(format="int32", minimum=1, maximum=10000)] = None
    """Which overlay wins where several apply: the heaviest. Absent counts as 0."""


class NodeOverlayStatus(Wire, frozen=True, kw_only=True):
    """Conditions that say whether the overlay is in force."""

    conditions: Annotated[tuple[Condition, ...], constraint(list_type="map", list_keys=("type",))] = ()
    """Whether the overlay is in force, or why not."""


class NodeOverlay(Resource, frozen=True, kw_only=True):
    """A correction to what a provider says about prices and capacity."""

    api_version: ClassVar[str] = "karpenter.sh/v1alpha1"
    kind: ClassVar[str] = "NodeOverlay"

    spec: Annotated[
        NodeOverlaySpec,
        constraint(
            required=True,
            rules=(
                rule(
                    "!has(self.price) || !has(self.priceAdjustment)",
                    "'price' and 'priceAdjustment' may not both be set",
                ),
            ),
        ),
    ] = always(NodeOverlaySpec())
    """Which instance types to correct, and how."""

    status: NodeOverlayStatus = NodeOverlayStatus()
    """Whether the overlay is in force."""
