"""
Why an instance does not match its node class any more, as one of Karpenter's reasons.

The fields of a class are compared by hash; what it selects is compared with what the selectors found. The
order is fixed, and the first difference is returned.

https://karpenter.sh/docs/concepts/disruption/#drift
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karpenter.cloud.aws.amifamily.ami import ImageChoice
from karpenter.cloud.aws.labels import CLASS_HASH, CLASS_HASH_VERSION, PLACEMENT_GROUP
from karpenter.cloud.errors import CloudUnreachable

if TYPE_CHECKING:
    from karpenter.api.ec2nodeclass import EC2NodeClass
    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.cloud.aws.instance.types import Instance
    from karpenter.cloud.aws.placementgroup import PlacementGroup
    from karpenter.core.model.catalog import InstanceType

# The reasons are part of the API of Karpenter: alerts and dashboards select by them.
# https://karpenter.sh/docs/concepts/disruption/#drift
CLASS: Final = "NodeClassDrift"
IMAGE: Final = "AMIDrift"
SECURITY_GROUP: Final = "SecurityGroupDrift"
SUBNET: Final = "SubnetDrift"
RESERVATION: Final = "CapacityReservationDrift"
PLACEMENT: Final = "PlacementGroupDrift"


def class_drift(claim: NodeClaim, node_class: EC2NodeClass) -> str:
    """Return whether the class has changed since the machine was made."""
    # Hashes of different versions are made of different fields and cannot be compared; the hash controller
    # brings claims to the present version first: https://karpenter.sh/docs/concepts/disruption/#drift
    ours, theirs = claim.metadata.annotations, node_class.metadata.annotations
    stamped = all(key in each for each in (ours, theirs) for key in (CLASS_HASH, CLASS_HASH_VERSION))
    if not stamped or ours[CLASS_HASH_VERSION] != theirs[CLASS_HASH_VERSION]:
        return ""
    return CLASS if ours[CLASS_HASH] != theirs[CLASS_HASH] else ""


def image_drift(
    claim: NodeClaim, instance: Instance, node_class: EC2NodeClass, kind: InstanceType | None
) -> str:
    """
    Return whether machines of this type start from another image now.

    Raises:
        CloudUnreachable: there is nothing to compare with.
    """
    if not node_class.status.amis:
        raise CloudUnreachable(f"node class {node_class.name} has found no images to compare with")
    if kind is None:
        raise CloudUnreachable(f"instance type {instance.instance_type} is not known any longer")
    image = ImageChoice(node_class.status.amis).image_of(kind)
    used = claim.status.image_id or instance.image
    return IMAGE if image is None or image.id != used else ""


def network_drift(instance: Instance, node_class: EC2NodeClass) -> str:
    """
    Return whether the class has found other security groups or subnets since.

    Raises:
        CloudUnreachable: there is nothing to compare with.
    """
    groups = {each.id for each in node_class.status.security_groups}
    subnets = {each.id for each in node_class.status.subnets}
    if not groups or not subnets:
        raise CloudUnreachable(f"node class {node_class.name} has found no network to compare with")
    # An instance keeps its security groups as a set; their order means nothing:
    # https://docs.aws.amazon.com/vpc/latest/userguide/vpc-security-groups.html
    if groups != instance.security_groups:
        return SECURITY_GROUP
    return SUBNET if instance.subnet not in subnets else ""


def reservation_drift(instance: Instance, node_class: EC2NodeClass) -> str:
    """Return whether the reservation of the machine is none of the class's any longer."""
    # An instance runs on, as on-demand, when its on-demand capacity reservation ends; that is not drift:
    # https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-capacity-reservations.html
    held = {each.id for each in node_class.status.capacity_reservations}
    return RESERVATION if instance.reservation and instance.reservation not in held else ""


def placement_drift(claim: NodeClaim, group: PlacementGroup | None) -> str:
    """Return whether the class names another placement group now."""
    wanted = group.id if group is not None else ""
    return PLACEMENT if claim.metadata.labels.get(PLACEMENT_GROUP, "") != wanted else ""
