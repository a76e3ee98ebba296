"""
Instances: what EC2 says about machines, looked up and ended in batches.

EC2 forgets for a moment what it has just launched. So an instance that we launched ourselves counts as there
until EC2 has shown it once, or a minute has passed.

In a zone that is shifted away, what EC2 says may be wrong: machines there are as they were seen last, and are
not touched.

An instance as the operator sees it: a machine with labels and amounts.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Final

import msgspec
import structlog

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
from karpenter.cloud.aws.batcher import Batch, Window
from karpenter.cloud.aws.cache import Memory
from karpenter.cloud.aws.errors import Missing, Refused
from karpenter.cloud.aws.labels import (
    CLASS_HASH,
    CLUSTER_TAG,
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
from karpenter.cloud.aws.metrics import BATCH_SIZE, BATCH_TIME, TERMINATION_FAILURES
from karpenter.cloud.aws.nodeclass.hash import CLASS_HASH_VERSION, class_hash
from karpenter.cloud.aws.subnet import where
from karpenter.cloud.cloudprovider import Machine
from karpenter.cloud.errors import CloudError, CloudUnreachable, MachineNotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from karpenter.api.ec2nodeclass import EC2NodeClass
    from karpenter.base.clock import Clock
    from karpenter.cloud.aws.instancetype.instancetype import SoldType, Traits
    from karpenter.cloud.aws.metrics import Meters
    from karpenter.cloud.aws.sdk import Answer, Aws
    from karpenter.core.model.catalog import InstanceType
    from karpenter.core.model.resources import Resources


log = structlog.stdlib.get_logger(__name__)

ALIVE: Final = ("pending", "running", "stopping", "stopped", "shutting-down")
LEAVING: Final = frozenset({"shutting-down", "terminated"})

_PAGE: Final = 1000
_FRESH_FOR: Final = 60.0
_WINDOW: Final = Window(idle=0.1, most=500)
_PROVIDER_ID: Final = re.compile(r"[^:]*:///(?P<zone>[^/]+)/(?P<id>i-[0-9a-z]+)")
_RESERVATION_TYPES: Final = {"capacity-block": "capacity-block"}
_INTERRUPTIBLE: Final = "interruptible-capacity-reservation"
_EFA: Final = frozenset({"efa", "efa-only"})


class Instance(msgspec.Struct, frozen=True, kw_only=True):
    """A machine of ours on EC2."""

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
    """Network interfaces that speak EFA."""

    profile: str = ""

    @property
    def provider_id(self) -> str:
        """What its node calls it."""
        return f"aws:///{self.zone}/{self.id}"

    @property
    def leaving(self) -> bool:
        """Whether it is on its way out."""
        return self.state in LEAVING


def instance_id(provider_id: str) -> str:
    """
    Return the id of an instance that a provider id names.

    Raises:
        MachineNotFound: it names none, so that there is no such machine.
    """
    match = _PROVIDER_ID.fullmatch(provider_id)
    if match is None:
        raise MachineNotFound(provider_id)
    return match["id"]


class Instances:
    """Looks instances up, and ends them."""

    def __init__(
        self,
        aws: Aws,
        *,
        cluster: str,
        clock: Clock,
        meters: Meters,
        reserved_capacity: bool = True,
        zone_id: Callable[[str], str] = lambda _: "",
        shifted: Callable[[], frozenset[str]] = frozenset,
    ) -> None:
        """`zone_id` returns the id of a zone, `shifted` the ids of those that are shifted away."""
        self._aws = aws
        self._cluster = cluster
        self._reserved_capacity = reserved_capacity
        self._meters = meters
        self._zone_id = zone_id
        self._shifted = shifted
        self._seen: dict[str, Instance] = {}
        self._fresh: Memory[str, Instance] = Memory(seconds=_FRESH_FOR, monotonic=clock.monotonic)
        self._describe: Batch[str, Instance] = Batch(
            _WINDOW, self._describe_all, measure=measured(meters, "describe_instances")
        )
        self._terminate: Batch[str, str] = Batch(
            _WINDOW, self._terminate_all, measure=measured(meters, "terminate_instances")
        )

    async def get(self, number: str) -> Instance:
        """
        Return an instance as it is now.

        Raises:
            MachineNotFound: it is gone, or never was, or is another cluster's.
        """
        seen = self._seen.get(number)
        if seen is not None and self._is_shifted(seen):
            return seen
        try:
            found = await self._describe.ask(number)
        except MachineNotFound:
            fresh = self._fresh.peek(number)
            if fresh is None:
                raise
            return fresh
        # Instances of Karpenter before 1.0 have no such tag until the chore that tags them has been there.
        if found.tags.get(CLUSTER_TAG, self._cluster) != self._cluster:
            raise MachineNotFound(number)
        return found

    async def all(self) -> tuple[Instance, ...]:
        """Return every instance of the cluster that is not gone."""
        told = await self._aws.every(
            "ec2",
            "DescribeInstances",
            "Reservations",
            Filters=[
                where("tag-key", NODEPOOL),
                where("tag-key", NODE_CLASS_LABEL),
                where(f"tag:{CLUSTER_TAG}", self._cluster),
                where("instance-state-name", *ALIVE),
            ],
            MaxResults=_PAGE,
        )
        found = {each.id: each for each in self._read(told) if _is_ours(each)}
        for number in found:
            self._fresh.forget(number)
        found |= dict(self._fresh.items())
        found |= {each.id: each for each in self._seen.values() if self._is_shifted(each)}
        self._seen = dict(found)
        return tuple(found[number] for number in sorted(found))

    async def terminate(self, instance: Instance) -> None:
        """
        Begin the end of an instance, if it has not begun.

        Raises:
            MachineNotFound: it is gone.
            CloudUnreachable: its zone is shifted away, or EC2 does not end it.
        """
        self._refuse_shifted(instance)
        if not instance.leaving:
            try:
                await self._terminate.ask(instance.id)
            except MachineNotFound:
                raise
            except CloudError:
                self._meters.count(
                    TERMINATION_FAILURES, zone=instance.zone, zone_id=self._zone_id(instance.zone)
                )
                raise
        self._fresh.forget(instance.id)

    async def tag(self, instance: Instance, tags: Mapping[str, str]) -> None:
        """
        Put tags on an instance.

        Raises:
            MachineNotFound: it is gone.
            CloudUnreachable: its zone is shifted away, or EC2 does not do it.
        """
        self._refuse_shifted(instance)
        wanted = [{"Key": key, "Value": tags[key]} for key in sorted(tags)]
        try:
            await self._aws.ask("ec2", "CreateTags", Resources=[instance.id], Tags=wanted)
        except Missing:
            raise MachineNotFound(instance.provider_id) from None

    def _is_shifted(self, instance: Instance) -> bool:
        shifted = self._shifted()
        return bool(shifted) and self._zone_id(instance.zone) in shifted

    def _refuse_shifted(self, instance: Instance) -> None:
        if self._is_shifted(instance):
            raise CloudUnreachable(
                f"instance {instance.id} is left alone while {instance.zone} is shifted away"
            )

    def note(self, instance: Instance) -> None:
        """Remember an instance that was just launched, until EC2 shows it."""
        self._fresh.put(instance.id, instance)

    async def _describe_all(self, numbers: Sequence[str]) -> list[Instance | BaseException]:
        found: dict[str, Instance | BaseException] = {}
        try:
            found |= await self._describe_some(numbers)
        except Refused:  # one that is unknown spoils it for all
            log.debug("instances.described_one_by_one", count=len(numbers))
        missing = [number for number in dict.fromkeys(numbers) if number not in found]
        single = await asyncio.gather(*map(self._describe_one, missing))
        found |= dict(zip(missing, single, strict=True))
        for number in numbers:
            instance = found[number]
            if isinstance(instance, Instance):
                self._fresh.forget(number)
                self._seen[number] = instance
            else:
                self._seen.pop(number, None)
        return [found[number] for number in numbers]

    async def _describe_one(self, number: str) -> Instance | BaseException:
        try:
            found = await self._describe_some([number])
        except Missing:
            return MachineNotFound(number)
        except CloudError as error:
            return error
        return found.get(number, MachineNotFound(number))

    async def _describe_some(self, numbers: Sequence[str]) -> dict[str, Instance]:
        told = await self._aws.every(
            "ec2",
            "DescribeInstances",
            "Reservations",
            InstanceIds=list(dict.fromkeys(numbers)),
            Filters=[where("instance-state-name", *ALIVE)],
        )
        return {each.id: each for each in self._read(told)}

    async def _terminate_all(self, numbers: Sequence[str]) -> list[str | BaseException]:
        done: dict[str, str | BaseException] = {}
        try:
            done |= await self._terminate_some(numbers)
        except Refused:  # as above
            log.debug("instances.terminated_one_by_one", count=len(numbers))
        missing = [number for number in dict.fromkeys(numbers) if number not in done]
        single = await asyncio.gather(*map(self._terminate_one, missing))
        done |= dict(zip(missing, single, strict=True))
        return [done[number] for number in numbers]

    async def _terminate_one(self, number: str) -> str | BaseException:
        try:
            done = await self._terminate_some([number])
        except Missing:
            return MachineNotFound(number)
        except CloudError as error:
            return error
        return done.get(number, "terminating")

    async def _terminate_some(self, numbers: Sequence[str]) -> dict[str, str]:
        answer = await self._aws.ask("ec2", "TerminateInstances", InstanceIds=list(dict.fromkeys(numbers)))
        states = {
            each["InstanceId"]: each.get("CurrentState", {}).get("Name", "")
            for each in answer.get("TerminatingInstances", ())
        }
        return {number: state for number, state in states.items() if state in LEAVING}

    def _read(self, reservations: Sequence[Answer]) -> list[Instance]:
        return [
            _instance(each, reserved_capacity=self._reserved_capacity)
            for reservation in reservations
            for each in reservation.get("Instances", ())
        ]


def measured(meters: Meters, batcher: str) -> Callable[[float, int], None]:
    """Return what notes how long calls waited to be sent together, and how many were."""

    def measure(seconds: float, size: int) -> None:
        meters.observe(BATCH_TIME, seconds, batcher=batcher)
        meters.observe(BATCH_SIZE, float(size), batcher=batcher)

    return measure


def _is_ours(instance: Instance) -> bool:
    return NODEPOOL in instance.tags and NODE_CLASS_LABEL in instance.tags


def _instance(told: Answer, *, reserved_capacity: bool) -> Instance:
    placement = told.get("Placement", {})
    lifecycle = told.get("InstanceLifecycle", "")
    capacity_type = _capacity_type(told, reserved_capacity=reserved_capacity)
    # EC2 puts instances on demand into open reservations by itself; they are not in it by the class's wish.
    reservation = told.get("CapacityReservationId", "") if capacity_type == RESERVED else ""
    interfaces = told.get("NetworkInterfaces", ())
    return Instance(
        id=told["InstanceId"],
        instance_type=told["InstanceType"],
        zone=placement.get("AvailabilityZone", ""),
        image=told.get("ImageId", ""),
        state=told.get("State", {}).get("Name", "pending"),
        launched=told["LaunchTime"],
        capacity_type=capacity_type,
        subnet=told.get("SubnetId", ""),
        security_groups=frozenset(each["GroupId"] for each in told.get("SecurityGroups", ())),
        tags={each["Key"]: each["Value"] for each in told.get("Tags", ())},
        reservation=reservation,
        reservation_type=_RESERVATION_TYPES.get(lifecycle, "default") if reservation else "",
        interruptible=lifecycle == _INTERRUPTIBLE,
        tenancy=placement.get("Tenancy") or DEFAULT_TENANCY,
        group=placement.get("GroupId", "") or "",
        partition=placement.get("PartitionNumber", 0) or 0,
        efa=sum(1 for each in interfaces if each.get("InterfaceType") in _EFA),
        profile=told.get("IamInstanceProfile", {}).get("Arn", "").rpartition("/")[2],
    )


def _capacity_type(told: Answer, *, reserved_capacity: bool) -> str:
    if told.get("SpotInstanceRequestId") or told.get("InstanceLifecycle") == SPOT:
        return SPOT
    said = told.get("CapacityReservationSpecification", {}).get("CapacityReservationPreference")
    if reserved_capacity and told.get("CapacityReservationId") and said == "capacity-reservations-only":
        return RESERVED
    return ON_DEMAND


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
