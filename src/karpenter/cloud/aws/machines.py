"""An instance as the operator sees it: a machine with labels and amounts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karpenter.api.labels import ARCH, CAPACITY_TYPE, INSTANCE_TYPE, LINUX, NODEPOOL, OS, RESERVED, ZONE
from karpenter.cloud.aws.class_hash import CLASS_HASH_VERSION, class_hash
from karpenter.cloud.aws.words import (
    CLASS_HASH,
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
from karpenter.cloud.aws.words import (
    CLASS_HASH_VERSION as CLASS_HASH_VERSION_KEY,
)
from karpenter.cloud.interface import Machine

if TYPE_CHECKING:
    from collections.abc import Mapping

    from karpenter.api.ec2nodeclass import EC2NodeClass
    from karpenter.cloud.aws.instances import Instance
    from karpenter.cloud.aws.types.sold import SoldType
    from karpenter.cloud.aws.types.traits import Traits
    from karpenter.core.model.catalog import InstanceType
    from karpenter.core.model.resources import Resources

_SAID_BY_INSTANCE: Final = (
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
"""Labels that an instance type leaves open, and an instance settles."""


def machine_of(
    instance: Instance,
    *,
    claim_uid: str = "",
    kind: InstanceType | None = None,
    sold: SoldType | None = None,
    traits: Traits | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Machine:
    """Return a machine with as much as is known of its type and its class."""
    return Machine(
        provider_id=instance.provider_id,
        claim_uid=claim_uid,
        labels=_labels(instance, kind, sold, traits),
        annotations=annotations or {},
        capacity=_amounts(kind.capacity, instance) if kind is not None else {},
        allocatable=_amounts(kind.allocatable, instance) if kind is not None else {},
        image_id=instance.image,
        created=instance.launched,
        deleting=instance.leaving,
    )


def annotations_of(node_class: EC2NodeClass, *, ca_bundle: str, profile: str) -> dict[str, str]:
    """Return what a claim remembers of the class that its machine was made from."""
    return {
        CLASS_HASH: class_hash(node_class, ca_bundle=ca_bundle),
        CLASS_HASH_VERSION_KEY: CLASS_HASH_VERSION,
        PROFILE_NAME: profile,
    }


def _labels(
    instance: Instance, kind: InstanceType | None, sold: SoldType | None, traits: Traits | None
) -> dict[str, str]:
    labels = {INSTANCE_TYPE: instance.instance_type, OS: LINUX}
    if sold is not None:
        labels[ARCH] = sold.facts.arch
    if kind is not None:
        labels |= kind.requirements.without(*_SAID_BY_INSTANCE).labels()
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


def _amounts(amounts: Resources, instance: Instance) -> Resources:
    """Return amounts without EFA interfaces that the instance does not have."""
    return {name: amount for name, amount in amounts.items() if amount and (name != EFA or instance.efa)}
