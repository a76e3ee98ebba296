"""
Controllers that follow a node after its launch.

An instance is tagged with the names of its node and of its claim, so that it is found in the console. A claim
in a partition placement group is labelled with its partition, once EC2 reports it. The memory that a node
reports is kept for the next nodes of its type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

import structlog

from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.labels import INSTANCE_TYPE, REGISTERED
from karpenter.api.node import Node
from karpenter.api.nodeclaim import NodeClaim
from karpenter.base.quantity import parse_quantity
from karpenter.cloud.aws.amifamily.ami import image_ids
from karpenter.cloud.aws.instance.types import instance_id
from karpenter.cloud.aws.labels import (
    CLUSTER_NAME_TAGGED,
    CLUSTER_TAG,
    NAME_TAG,
    NODE_CLAIM_TAG,
    PLACEMENT_GROUP,
    PLACEMENT_PARTITION,
    TAGGED,
)
from karpenter.cloud.errors import MachineNotFound
from karpenter.core.effects import NOTHING, Amend, Step
from karpenter.core.model.resources import MEMORY
from karpenter.core.state.cluster import ClusterView, NodeClass, ObjectUpdated, StateEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from karpenter.api.meta import Resource
    from karpenter.base.clock import Clock
    from karpenter.cloud.aws.instance.instance import InstanceProvider
    from karpenter.cloud.aws.instancetype.capacity import DiscoveredCapacity
    from karpenter.cloud.cloudprovider import ClusterObjects

log = structlog.stdlib.get_logger(__name__)

# CreateTags has a low rate limit for an account, shared with everything else in it:
# https://docs.aws.amazon.com/AWSEC2/latest/APIReference/throttling.html
_BETWEEN_TAGS: Final = 1.0
# EC2 picks the partition when it places the instance, after CreateFleet has answered:
# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/placement-groups.html
_PARTITION_RETRY_SECONDS: Final = 5.0
# Karpenter marks claims whose instances have all tags, so that they are not described again:
# https://github.com/aws/karpenter-provider-aws/blob/v1.14.1/pkg/controllers/nodeclaim/tagging/controller.go
_MARKS: Final = {TAGGED: "true", CLUSTER_NAME_TAGGED: "true"}


class TaggingController:
    """Tags instances with the names of their nodes and claims."""

    name = "nodeclaim.tagging"
    kinds: ClassVar = (NodeClaim,)
    workers = 1

    def __init__(
        self, *, view: Callable[[], ClusterView], instances: InstanceProvider, cluster: str, clock: Clock
    ) -> None:
        self._view = view
        self._instances = instances
        self._cluster = cluster
        self._clock = clock

    def wakes(self, event: StateEvent, before: Resource | NodeClass | None) -> Iterable[str]:
        """Return the claim that an event is about, if it is to be tagged."""
        del before
        if (
            isinstance(event, ObjectUpdated)
            and isinstance(event.object, NodeClaim)
            and is_untagged(event.object)
        ):
            yield event.object.name

    async def reconcile(self, key: str) -> Step:
        claim = self._view().claims.get(key)
        if claim is None or not is_untagged(claim):
            return NOTHING
        try:
            number = instance_id(claim.status.provider_id)
        except MachineNotFound:
            log.warning("instance.not_tagged", nodeclaim=key, provider_id=claim.status.provider_id)
            return NOTHING
        try:
            instance = await self._instances.get(number)
            missing = missing_tags(claim, instance.tags, cluster=self._cluster)
            if missing:
                await self._instances.tag(instance, missing)
                await self._clock.sleep(_BETWEEN_TAGS)
        except MachineNotFound:
            return NOTHING
        changes = {"metadata": {"annotations": dict(_MARKS)}}
        return Step(
            effects=(Amend(kind=claim.kind, name=key, changes=changes, because="its instance is tagged"),)
        )


def is_untagged(claim: NodeClaim) -> bool:
    marks = claim.metadata.annotations
    done = all(marks.get(mark) == value for mark, value in _MARKS.items())
    return bool(claim.status.node_name) and claim.metadata.deletion_timestamp is None and not done


def missing_tags(claim: NodeClaim, tags: Mapping[str, str], *, cluster: str) -> dict[str, str]:
    """Return the tags that an instance lacks; what it has is left alone, a name of the user's own as well."""
    # The names are known only after registration, so these tags cannot be part of the launch:
    # https://karpenter.sh/docs/concepts/nodeclasses/#spectags
    wanted = {NAME_TAG: claim.status.node_name, NODE_CLAIM_TAG: claim.name, CLUSTER_TAG: cluster}
    return {key: value for key, value in wanted.items() if key not in tags}


class PartitionController:
    """Labels claims with the partition that EC2 has put their machine into."""

    name = "nodeclaim.partition"
    kinds: ClassVar = (NodeClaim,)
    workers = 1

    def __init__(self, *, view: Callable[[], ClusterView], instances: InstanceProvider) -> None:
        self._view = view
        self._instances = instances

    def wakes(self, event: StateEvent, before: Resource | NodeClass | None) -> Iterable[str]:
        """Return the claim that an event is about, if its partition is not known."""
        del before
        if (
            isinstance(event, ObjectUpdated)
            and isinstance(event.object, NodeClaim)
            and lacks_partition(event.object)
        ):
            yield event.object.name

    async def reconcile(self, key: str) -> Step:
        claim = self._view().claims.get(key)
        if claim is None or not claim.status.provider_id or not lacks_partition(claim):
            return NOTHING
        try:
            instance = await self._instances.get(instance_id(claim.status.provider_id))
        except MachineNotFound:
            return NOTHING
        if not instance.partition:
            return Step(again=_PARTITION_RETRY_SECONDS)
        changes = {"metadata": {"labels": {PLACEMENT_PARTITION: str(instance.partition)}}}
        because = "EC2 tells the partition of its machine"
        return Step(effects=(Amend(kind=claim.kind, name=key, changes=changes, because=because),))


def lacks_partition(claim: NodeClaim) -> bool:
    """Say whether a claim is in a placement group with partitions, and does not say in which of them."""
    labels = claim.metadata.labels
    return bool(labels.get(PLACEMENT_GROUP)) and labels.get(PLACEMENT_PARTITION) == ""


class DiscoveredCapacityController:
    """Keeps the memory that nodes report."""

    name = "providers.instancetype.capacity"
    kinds: ClassVar = (Node,)
    workers = 1

    def __init__(
        self, *, objects: ClusterObjects, view: Callable[[], ClusterView], discovered: DiscoveredCapacity
    ) -> None:
        self._objects = objects
        self._view = view
        self._discovered = discovered

    def wakes(self, event: StateEvent, before: Resource | NodeClass | None) -> Iterable[str]:
        """Return the node that an event tells to be registered for the first time."""
        if (
            isinstance(event, ObjectUpdated)
            and isinstance(event.object, Node)
            and _is_registered(event.object)
        ):
            known = isinstance(before, Node) and _is_registered(before)
            if not known:
                yield event.object.name

    async def reconcile(self, key: str) -> Step:
        view = self._view()
        node = view.nodes.get(key)
        claim = next((each for each in view.claims.values() if node and _is_of(each, node)), None)
        if node is None or claim is None:
            return NOTHING
        node_class = await self._objects.get(EC2NodeClass, claim.spec.node_class_ref.name)
        memory = node.status.capacity.get(MEMORY)
        if node_class is None or not memory:
            return NOTHING
        # The kubelet reports less memory than EC2 lists, and how much less depends on kernel and hypervisor:
        # what was measured for one AMI does not hold for another:
        # https://karpenter.sh/docs/reference/settings/
        images = node_class.status.amis
        if claim.status.image_id in {each.id for each in images}:
            kind = node.metadata.labels.get(INSTANCE_TYPE, "")
            self._discovered.learn(kind, image_ids(images), parse_quantity(str(memory)).value)
        return NOTHING


def _is_registered(node: Node) -> bool:
    return node.metadata.labels.get(REGISTERED) == "true"


def _is_of(claim: NodeClaim, node: Node) -> bool:
    return bool(claim.status.provider_id) and claim.status.provider_id == node.spec.provider_id
