"""
How a node class selects what is already there in AWS: subnets, security groups, images, reservations.

A list of terms selects what any of them selects. Within a term everything that is said must hold. A tag
whose value is ``*`` only has to exist.

For subnets, security groups and reservations a term that mixes an id with something else is refused only
when every term does, since manifests exist that rely on it; the id then wins.
"""

from typing import Annotated

from msgspec import field

from karpenter.api.constraints import constraint, rule
from karpenter.api.wire import Wire

MOST_TERMS = 30
FAMILY_OF_ALIAS = {
    "al2": "AL2",
    "al2023": "AL2023",
    "bottlerocket": "Bottlerocket",
    "windows2019": "Windows2019",
    "windows2022": "Windows2022",
    "windows2025": "Windows2025",
}
"""The image family that the first part of an alias stands for."""

_WINDOWS = [alias for alias in FAMILY_OF_ALIAS if alias.startswith("windows")]

SelectorTags = Annotated[
    dict[str, str],
    constraint(
        max_properties=20,
        rules=(rule("self.all(k, k != '' && self[k] != '')", "a tag to select by needs a key and a value"),),
    ),
]
"""Tags to select by."""


class SubnetSelectorTerm(Wire, frozen=True, kw_only=True):
    """Some subnets."""

    tags: SelectorTags = field(default_factory=dict)
    """Tags that the subnet has; the value ``*`` stands for any."""

    id: Annotated[str, constraint(pattern="subnet-[0-9a-z]+")] = ""
    """The id of the subnet."""


class SecurityGroupSelectorTerm(Wire, frozen=True, kw_only=True):
    """Some security groups."""

    tags: SelectorTags = field(default_factory=dict)
    """Tags that the group has; the value ``*`` stands for any."""

    id: Annotated[str, constraint(pattern="sg-[0-9a-z]+")] = ""
    """The id of the group."""

    name: str = ""
    """The name of the group itself, which is not its tag called Name."""


class CapacityReservationSelectorTerm(Wire, frozen=True, kw_only=True):
    """Some capacity reservations."""

    tags: SelectorTags = field(default_factory=dict)
    """Tags that the reservation has; the value ``*`` stands for any."""

    id: Annotated[str, constraint(pattern="^cr-[0-9a-z]+$")] = ""
    """The id of the reservation."""

    owner_id: Annotated[str, constraint(pattern="^[0-9]{12}$")] = field(name="ownerID", default="")
    """The account that owns the reservation."""

    instance_match_criteria: Annotated[str, constraint(enum=["open", "targeted"])] = ""
    """Whether the reservation takes any machine that fits, or only those that name it."""


class AMISelectorTerm(Wire, frozen=True, kw_only=True):
    """Some machine images."""

    alias: Annotated[
        str,
        constraint(
            max_length=30,
            rules=(
                rule(
                    "self.matches('^[a-zA-Z0-9]+@.+$')",
                    "'alias' has the form family@version, such as al2023@latest",
                ),
                rule(
                    f"self.find('^[^@]+') in {list(FAMILY_OF_ALIAS)}",
                    f"the family of an 'alias' is one of {', '.join(FAMILY_OF_ALIAS)}",
                ),
                rule(
                    f"!(self.find('^[^@]+') in {_WINDOWS}) || self.find('[^@]+$') == 'latest'",
                    "the version of a Windows image is always latest",
                ),
            ),
        ),
    ] = ""
    """
    A family of images that AWS publishes, and a version of it, such as ``al2023@latest``.

    The newest image of the family for the cluster's Kubernetes version is taken for ``latest``; nodes are
    replaced when there is a newer one. An alias stands alone.
    """

    tags: SelectorTags = field(default_factory=dict)
    """Tags that the image has; the value ``*`` stands for any."""

    id: Annotated[str, constraint(pattern="ami-[0-9a-z]+")] = ""
    """The id of the image."""

    name: str = ""
    """The name of the image itself, which is not its tag called Name; ``*`` and ``?`` are wildcards."""

    owner: str = ""
    """The account that owns the image, or ``self`` or ``amazon``; both of these unless told otherwise."""

    ssm_parameter: str = ""
    """The name or ARN of an SSM parameter that holds the id of the image."""


class PlacementGroupSelector(Wire, frozen=True, kw_only=True):
    """One placement group, by its name or its id."""

    name: Annotated[str, constraint(min_length=1)] = ""
    """The name of the group."""

    id: Annotated[str, constraint(pattern="^pg-[0-9a-z]+$")] = ""
    """The id of the group."""


SUBNET_RULES = (
    rule("self.all(x, has(x.tags) || has(x.id))", "each term needs at least one of 'tags' and 'id'"),
    rule("!self.all(x, has(x.id) && has(x.tags))", "'id' may not be combined with 'tags'"),
)

SECURITY_GROUP_RULES = (
    rule(
        "self.all(x, has(x.tags) || has(x.id) || has(x.name))",
        "each term needs at least one of 'tags', 'id' and 'name'",
    ),
    rule(
        "!self.all(x, has(x.id) && (has(x.tags) || has(x.name)))",
        "'id' may not be combined with 'tags' or 'name'",
    ),
    rule(
        "!self.all(x, has(x.name) && (has(x.tags) || has(x.id)))",
        "'name' may not be combined with 'tags' or 'id'",
    ),
)

RESERVATION_RULES = (
    rule(
        "self.all(x, has(x.tags) || has(x.id) || has(x.instanceMatchCriteria))",
        "each term needs at least one of 'tags', 'id' and 'instanceMatchCriteria'",
    ),
    rule(
        "self.size() == 0 || !self.all(x, has(x.id) &&"
        " (has(x.tags) || has(x.ownerID) || has(x.instanceMatchCriteria)))",
        "'id' may not be combined with other fields",
    ),
)

IMAGE_RULES = (
    rule(
        "self.all(x, has(x.tags) || has(x.id) || has(x.name) || has(x.alias) || has(x.ssmParameter))",
        "each term needs at least one of 'tags', 'id', 'name', 'alias' and 'ssmParameter'",
    ),
    rule(
        "!self.exists(x, has(x.id) && (has(x.alias) || has(x.tags) || has(x.name) || has(x.owner)))",
        "'id' may not be combined with other fields",
    ),
    rule(
        "!self.exists(x, has(x.alias) && (has(x.id) || has(x.tags) || has(x.name) || has(x.owner)))",
        "'alias' may not be combined with other fields",
    ),
    rule(
        "self.size() == 1 || !self.exists(x, has(x.alias))",
        "a term with 'alias' must be the only one",
    ),
)

GROUP_RULES = (rule("has(self.name) != has(self.id)", "exactly one of 'name' and 'id' must be set"),)
