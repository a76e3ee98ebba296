"""
An EC2 instance as a value, read from DescribeInstances and shown to the operator as a machine.

Pure: nothing here calls AWS. :mod:`.instance` looks instances up.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.labels import (
    ARCH,
    CAPACITY_TYPE,
    INSTANCE_TYPE,
    LINUX,
    NODEPOOL,
    ON_DEMAND,
    OS,
    RESERVED,
    SPOT,
    ZONE,
)
from karpenter.cloud.aws.labels import (
    CLASS_HASH,
    DEFAULT_TENANCY,
    EFA,
    NODE_CLASS_LABEL,
    PLACEMENT_GROUP,
    PLACEMENT_PARTITION,
    PROFILE_NAME,
    RESERVATION_ID,
    RESERVATION_INTERRUPTIBLE,
    RESERVATION_TYPE,
    TENANCY,
    ZONE_ID,
)
from karpenter.cloud.aws.labels import CLASS_HASH_VERSION as CLASS_HASH_VERSION_KEY
from karpenter.cloud.aws.nodeclass.hash import CLASS_HASH_VERSION, class_hash
from karpenter.cloud.cloudprovider import Machine
from karpenter.cloud.errors import MachineNotFound

if TYPE_CHECKING:
    from karpenter.api.ec2nodeclass import EC2NodeClass
    from karpenter.cloud.aws.instancetype.types import InstanceTypeInfo, Traits
    from karpenter.cloud.aws.sdk import ApiResponse
    from karpenter.core.model.catalog import InstanceType
    from karpenter.core.model.resources import Resources

# The states of an instance, and which of them still count as existing:
# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-instance-lifecycle.html
ALIVE: Final = ("pending", "running", "stopping", "stopped", "shutting-down")
LEAVING: Final = frozenset({"shutting-down", "terminated"})

# The AWS cloud provider of Kubernetes writes provider ids as aws:///ZONE/INSTANCE:
# https://github.com/kubernetes/cloud-provider-aws
_PROVIDER_ID: Final = re.compile(r"[^:]*:///(?P<zone>[^/]+)/(?P<id>i-[0-9a-z]+)")
# InstanceLifecycle of DescribeInstances; absent for on-demand instances:
# https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_Instance.html
_RESERVATION_TYPES: Final = {"capacity-block": "capacity-block"}
_INTERRUPTIBLE: Final = "interruptible-capacity-reservation"
# An efa-only interface has no IP address, and is an EFA all the same:
# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa.html
_EFA: Final = frozenset({"efa", "efa-only"})
_LABELS_OF_INSTANCE: Final = (
    ZONE,
    ZONE_ID,
    CAPACITY_TYPE,
    TENANCY,
    RESERVATION_ID,
    RESERVATION_TYPE,
    RESERVATION_INTERRUPTIBLE,
    PLACEMENT_GROUP,
    PLACEMENT_PARTITION,
)
"""Labels for which an instance type allows several values, and an instance has one."""


class Instance(msgspec.Struct, frozen=True, kw_only=True):
    """An EC2 instance of the cluster."""

    id: str
    instance_type: str
    zone: str
    image: str = ""
    state: str = "pending"
    launched: datetime
    capacity_type: str = ON_DEMAND
    subnet: str = ""
    security_groups: frozenset[str] = frozenset()
    tags: Mapping[str, str] = {}
    reservation: str = ""
    reservation_type: str = ""
    interruptible: bool = False
    tenancy: str = DEFAULT_TENANCY
    group: str = ""
    partition: int = 0
    efa: int = 0
    """The number of network interfaces of type efa or efa-only."""

    profile: str = ""

    @property
    def provider_id(self) -> str:
        """The value of ``spec.providerID`` of its node."""
        return f"aws:///{self.zone}/{self.id}"

    @property
    def leaving(self) -> bool:
        """Whether it is shutting down or terminated."""
        return self.state in LEAVING


def instance_id(provider_id: str) -> str:
    """
    Return the id of the instance that a provider id names.

    Raises:
        MachineNotFound: the provider id is not one of EC2.
    """
    match = _PROVIDER_ID.fullmatch(provider_id)
    if match is None:
        raise MachineNotFound(provider_id)
    return match["id"]


def instance_from_response(response: ApiResponse, *, reserved_capacity: bool) -> Instance:
    placement = response.get("Placement", {})
    lifecycle = response.get("InstanceLifecycle", "")
    capacity_type = _capacity_type(response, reserved_capacity=reserved_capacity)
    reservation = response.get("CapacityReservationId", "") if capacity_type == RESERVED else ""
    interfaces = response.get("NetworkInterfaces", ())
    return Instance(
        id=response["InstanceId"],
        instance_type=response["InstanceType"],
        zone=placement.get("AvailabilityZone", ""),
        image=response.get("ImageId", ""),
        state=response.get("State", {}).get("Name", "pending"),
        launched=response["LaunchTime"],
        capacity_type=capacity_type,
        subnet=response.get("SubnetId", ""),
        security_groups=frozenset(each["GroupId"] for each in response.get("SecurityGroups", ())),
        tags={each["Key"]: each["Value"] for each in response.get("Tags", ())},
        reservation=reservation,
        reservation_type=_RESERVATION_TYPES.get(lifecycle, "default") if reservation else "",
        interruptible=lifecycle == _INTERRUPTIBLE,
        tenancy=placement.get("Tenancy") or DEFAULT_TENANCY,
        group=placement.get("GroupId", "") or "",
        partition=placement.get("PartitionNumber", 0) or 0,
        efa=sum(1 for each in interfaces if each.get("InterfaceType") in _EFA),
        profile=response.get("IamInstanceProfile", {}).get("Arn", "").rpartition("/")[2],
    )


def _capacity_type(response: ApiResponse, *, reserved_capacity: bool) -> str:
    if response.get("SpotInstanceRequestId") or response.get("InstanceLifecycle") == SPOT:
        return SPOT
    # An instance whose open reservation was matched by chance carries the id of the reservation too; only an
    # instance that was launched into it on purpose has this preference, and counts as reserved.
    # https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CapacityReservationSpecification.html
    preference = response.get("CapacityReservationSpecification", {}).get("CapacityReservationPreference")
    targeted = preference == "capacity-reservations-only"
    if reserved_capacity and targeted and response.get("CapacityReservationId"):
        return RESERVED
    return ON_DEMAND


def machine_of(
    instance: Instance,
    *,
    claim_uid: str = "",
    kind: InstanceType | None = None,
    info: InstanceTypeInfo | None = None,
    traits: Traits | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Machine:
    """Return an instance as a machine, with as much as is known of its instance type and node class."""
    return Machine(
        provider_id=instance.provider_id,
        claim_uid=claim_uid,
        labels=_labels(instance, kind, info, traits),
        annotations=annotations or {},
        capacity=_present_resources(kind.capacity, instance) if kind is not None else {},
        allocatable=_present_resources(kind.allocatable, instance) if kind is not None else {},
        image_id=instance.image,
        created=instance.launched,
        deleting=instance.leaving,
    )


def annotations_of(node_class: EC2NodeClass, *, ca_bundle: str, profile: str) -> dict[str, str]:
    """Return the annotations by which a claim is later compared with its node class."""
    return {
        CLASS_HASH: class_hash(node_class, ca_bundle=ca_bundle),
        CLASS_HASH_VERSION_KEY: CLASS_HASH_VERSION,
        PROFILE_NAME: profile,
    }


def _labels(
    instance: Instance, kind: InstanceType | None, info: InstanceTypeInfo | None, traits: Traits | None
) -> dict[str, str]:
    labels = {INSTANCE_TYPE: instance.instance_type, OS: LINUX}
    if info is not None:
        labels[ARCH] = info.facts.arch
    if kind is not None:
        labels |= kind.requirements.without(*_LABELS_OF_INSTANCE).labels()
    labels |= {ZONE: instance.zone, CAPACITY_TYPE: instance.capacity_type, TENANCY: instance.tenancy}
    zone_id = traits.zone_ids.get(instance.zone, "") if traits is not None else ""
    if zone_id:
        labels[ZONE_ID] = zone_id
    for tag in (NODEPOOL, NODE_CLASS_LABEL):
        if instance.tags.get(tag):
            labels[tag] = instance.tags[tag]
    if instance.capacity_type == RESERVED:
        labels[RESERVATION_ID] = instance.reservation
        labels[RESERVATION_TYPE] = instance.reservation_type
        labels[RESERVATION_INTERRUPTIBLE] = "true" if instance.interruptible else "false"
    if instance.group:
        labels[PLACEMENT_GROUP] = instance.group
        if traits is not None and traits.group is not None and traits.group.partitions:
            labels[PLACEMENT_PARTITION] = str(instance.partition or "")
    return labels


def _present_resources(resources: Resources, instance: Instance) -> Resources:
    """Return resources without EFA interfaces that the instance does not have."""
    return {name: amount for name, amount in resources.items() if amount and (name != EFA or instance.efa)}
