"""What was found of everything that an EC2NodeClass selects."""

from typing import Annotated

from msgspec import field

from karpenter.api.constraints import constraint
from karpenter.api.meta import Condition, Timestamp, Wire, always
from karpenter.api.pod import NodeSelectorRequirement

# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-capacity-reservations.html
ACTIVE = "active"
EXPIRING = "expiring"
DEFAULT_RESERVATION = "default"
# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-capacity-blocks.html
CAPACITY_BLOCK = "capacity-block"


class Subnet(Wire, frozen=True, kw_only=True):
    """A subnet that was found."""

    id: str
    """Its id."""

    zone: str
    """The zone that it is in."""

    zone_id: str = field(name="zoneID", default="")
    """The id of that zone, which means the same to every account."""


class SecurityGroup(Wire, frozen=True, kw_only=True):
    """A security group that was found."""

    id: str
    """Its id."""

    name: str = ""
    """Its name."""


class ImageRequirement(NodeSelectorRequirement, frozen=True, kw_only=True):
    """A condition that an instance type has to meet for an image to be its own."""

    key: str
    """The label."""

    operator: str
    """How the label relates to the values."""

    values: Annotated[tuple[str, ...], constraint(list_type="atomic")] = ()
    """The values."""


class AMI(Wire, frozen=True, kw_only=True):
    """A machine image that was found."""

    id: str
    """Its id."""

    name: str = ""
    """Its name."""

    deprecated: bool = False
    """Whether its owner has deprecated it; no newer one was found then."""

    requirements: Annotated[tuple[ImageRequirement, ...], constraint(required=True)] = always(())
    """Which instance types it is for."""


class CapacityReservation(Wire, frozen=True, kw_only=True):
    """A capacity reservation that was found."""

    availability_zone: str
    """The zone that it is in."""

    end_time: Timestamp | None = None
    """When it ends; absent when it ends only once it is cancelled."""

    id: Annotated[str, constraint(pattern="^cr-[0-9a-z]+$")]
    """Its id."""

    instance_match_criteria: Annotated[str, constraint(enum=["open", "targeted"])]
    """Whether it takes any machine that fits, or only those that name it."""

    instance_type: Annotated[str, constraint(min_length=1)]
    """What is reserved."""

    owner_id: Annotated[str, constraint(pattern="^[0-9]{12}$")] = field(name="ownerID")
    """The account that owns it."""

    reservation_type: Annotated[
        str, constraint(enum=[DEFAULT_RESERVATION, CAPACITY_BLOCK], default=DEFAULT_RESERVATION)
    ] = DEFAULT_RESERVATION
    """Whether it is an ordinary reservation, or a capacity block."""

    interruptible: bool = False
    """Whether its owner may take machines back."""

    state: Annotated[str, constraint(enum=[ACTIVE, EXPIRING], default=ACTIVE)] = ACTIVE
    """Whether machines may still be launched into it."""


class EC2NodeClassStatus(Wire, frozen=True, kw_only=True):
    """Resources that were found, and conditions that say whether machines can be made of them."""

    subnets: tuple[Subnet, ...] = ()
    """Subnets, the one with the most free addresses first."""

    security_groups: tuple[SecurityGroup, ...] = ()
    """Security groups, by id."""

    capacity_reservations: tuple[CapacityReservation, ...] = ()
    """Capacity reservations, by id."""

    amis: tuple[AMI, ...] = ()
    """Machine images, the newest first."""

    instance_profile: str = ""
    """The instance profile that machines get."""

    conditions: Annotated[tuple[Condition, ...], constraint(list_type="map", list_keys=("type",))] = ()
    """Whether machines can be made, or what is missing."""
