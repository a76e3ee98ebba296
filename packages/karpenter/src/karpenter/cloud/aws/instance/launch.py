"""
Launching one machine for a claim, from what may be bought to what was.

Every step has a module of its own; here they are put in order, and what EC2 says in the end is noted where
the next launch will look.

Which machine is that of which claim, also when an answer was lost or this process was started anew.

While it runs, a process knows what it launched. What it does not know stands in the tags of instances; see
:mod:`.tickets`. They are read once after a start, and again after an answer was lost; a claim that was made
later cannot have a machine that we do not know of.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import msgspec
import structlog

from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.labels import NODEPOOL, RESERVED, SPOT
from karpenter.api.nodeclaim import NodeClaim
from karpenter.base.clock import Clock
from karpenter.base.quantity import QuantityError
from karpenter.cloud.aws.amifamily.bootstrap.bootstrap import BadUserData
from karpenter.cloud.aws.amifamily.bootstrap.userdata import TooMuchUserData
from karpenter.cloud.aws.amifamily.resolver import Kitchen
from karpenter.cloud.aws.capacityreservation import Reservations
from karpenter.cloud.aws.cluster import Cluster
from karpenter.cloud.aws.errors import TEMPLATE_MISSING, NoAnswer, Refused
from karpenter.cloud.aws.instance.createfleet import Fleets, Order, fleet_request, is_for
from karpenter.cloud.aws.instance.filter import narrow
from karpenter.cloud.aws.instance.instance import Instance, Instances, instance_id
from karpenter.cloud.aws.instance.launch_errors import (
    NO_ADDRESS,
    NO_SPOT_ROLE,
    UNFULFILLABLE,
    LostAnswer,
    as_launch_error,
    failure,
    is_sold_out,
    is_spread_limit,
    reason_of,
)
from karpenter.cloud.aws.instancetype.instancetype import Traits
from karpenter.cloud.aws.instancetype.offering import Shop
from karpenter.cloud.aws.kubelet.expressions import BadExpression
from karpenter.cloud.aws.launchtemplate import Templates
from karpenter.cloud.aws.metrics import LAUNCH_FAILURES, Meters
from karpenter.cloud.aws.options import AwsSettings
from karpenter.cloud.aws.subnet import Subnets
from karpenter.cloud.aws.tags import tags_of
from karpenter.cloud.aws.unavailableofferings import Place, Unavailable
from karpenter.cloud.errors import (
    CloudError,
    InsufficientCapacity,
    LaunchFailed,
    LaunchRefused,
    MachineNotFound,
)
from karpenter.cloud.offerings import OfferingName
from karpenter.core.model.catalog import Catalog
from karpenter.core.model.requirement import RequirementError
from karpenter.core.model.resources import PODS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from karpenter.api.ec2nodeclass_status import Subnet
    from karpenter.cloud.aws.amifamily.resolver import Cooked
    from karpenter.cloud.aws.instance.createfleet import FleetError, Outcome, Won
    from karpenter.cloud.aws.instance.filter import Purchase
    from karpenter.cloud.cloudprovider import ClusterObjects


log = structlog.stdlib.get_logger(__name__)


class Workshop(msgspec.Struct, frozen=True, kw_only=True):
    """What a launch works with."""

    settings: AwsSettings
    clock: Clock
    cluster: Cluster
    shop: Shop
    subnets: Subnets
    reservations: Reservations
    templates: Templates
    fleets: Fleets
    instances: Instances
    unavailable: Unavailable
    meters: Meters


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """A launch for one claim: whose class is ready, and whose catalogue is known."""

    claim: NodeClaim
    node_class: EC2NodeClass
    traits: Traits
    catalog: Catalog


class Launcher:
    """Launches machines."""

    def __init__(self, workshop: Workshop) -> None:
        self._with = workshop

    async def launch(self, launch: Launch) -> Instance:
        """
        Launch a machine.

        Raises:
            InsufficientCapacity: what would do is sold out.
            NodeClassNotReady: the class cannot launch.
            LaunchRefused: EC2 refuses, for good.
            LaunchFailed: something broke, and a machine may exist.
            Throttled: too many calls.
        """
        try:
            purchase = narrow(launch.catalog, launch.claim)
        except (RequirementError, QuantityError) as error:
            raise LaunchRefused(reason="InvalidClaim", message=str(error)) from error
        tags = tags_of(
            launch.node_class,
            cluster=self._with.settings.cluster,
            pool=launch.claim.metadata.labels.get(NODEPOOL, ""),
        )
        try:
            cooked = await self._cook(launch, purchase, tags)
            return await self._buy(launch, purchase, cooked, tags)
        except CloudError as error:
            raise as_launch_error(error) from error

    async def _cook(self, launch: Launch, purchase: Purchase, tags: Mapping[str, str]) -> tuple[Cooked, ...]:
        cidr = ""
        if launch.traits.family.takes_any_kubelet_setting:
            cidr = await self._with.cluster.service_cidr()
        kitchen = Kitchen(
            node_class=launch.node_class,
            traits=launch.traits,
            types=self._with.shop.types,
            joining=await self._with.cluster.joining(),
            service_cidr=cidr,
            tags=tags,
            reserved_capacity=self._with.settings.reserved_capacity,
        )
        try:
            cooked = kitchen.cook(launch.claim, purchase)
        except TooMuchUserData as error:
            raise LaunchRefused(reason="UserDataSizeLimitExceeded", message=str(error)) from error
        except BadUserData as error:
            raise LaunchRefused(reason="InvalidUserData", message=str(error)) from error
        except BadExpression as error:
            raise LaunchRefused(reason="KubeletExpressionEvaluationFailed", message=str(error)) from error
        if not cooked:
            raise LaunchRefused(
                reason="AMINotFound",
                message=f"node class {launch.node_class.name} has no image for any type that would do",
            )
        return cooked

    async def _buy(
        self,
        launch: Launch,
        purchase: Purchase,
        cooked: tuple[Cooked, ...],
        tags: Mapping[str, str],
        *,
        again: bool = True,
    ) -> Instance:
        """Ask EC2 for a machine; once more if the templates are gone that we thought were there."""
        chosen = self._with.subnets.choose(launch.node_class.status.subnets)
        request = fleet_request(
            cooked, purchase, launch.claim, subnets=chosen, context=launch.node_class.spec.context or ""
        )
        if not request["LaunchTemplateConfigs"]:
            raise InsufficientCapacity(because="no subnet is in a zone that sells what would do")
        await self._with.templates.ensure(each.recipe for each in cooked)
        taken = self._with.subnets.take(_addresses(purchase, chosen))
        order = Order(uid=launch.claim.metadata.uid, request=request, tags=tags)
        try:
            outcome = await self._with.fleets.order(order)
        except NoAnswer as error:
            raise LostAnswer(str(error)) from error
        except Refused as error:
            self._with.subnets.give_back(taken)
            if error.is_fault_of_server:
                raise LostAnswer(str(error)) from error
            if error.code != TEMPLATE_MISSING or not again:
                raise
            self._with.templates.forget(each.recipe.name for each in cooked)
            return await self._buy(launch, purchase, cooked, tags, again=False)
        except CloudError:
            self._with.subnets.give_back(taken)
            raise
        won = outcome.won
        self._with.subnets.give_back(taken, used=[won.subnet] if won else [])
        self._note(launch, purchase, outcome)
        if won is None:
            raise _error(purchase, outcome)
        return self._instance(launch, purchase, cooked, tags, won)

    def _note(self, launch: Launch, purchase: Purchase, outcome: Outcome) -> None:
        """Remember what could not be had."""
        for error in outcome.errors:
            log.info(
                "launch.offering_failed",
                nodeclaim=launch.claim.name,
                instance_type=error.instance_type,
                zone=error.zone,
                capacity_type=purchase.capacity_type,
                code=error.code,
            )
            if outcome.first:
                self._with.meters.count(
                    LAUNCH_FAILURES,
                    zone=error.zone,
                    zone_id=launch.traits.zone_ids.get(error.zone, ""),
                    capacity_type=purchase.capacity_type,
                    reason=reason_of(error.code, error.message),
                )
            if error.code == NO_SPOT_ROLE:
                self._with.unavailable.mark_capacity_type(SPOT)
            elif error.code in UNFULFILLABLE:
                self._note_sold_out(launch, purchase, error)
            if error.code == NO_ADDRESS and error.subnet:
                self._with.subnets.exhausted(error.subnet)
                self._with.unavailable.mark_subnet(error.subnet)

    def _note_sold_out(self, launch: Launch, purchase: Purchase, error: FleetError) -> None:
        spread = is_spread_limit(error)
        if purchase.capacity_type == RESERVED:
            if not spread:
                for number in _reservations(purchase, error):
                    self._with.reservations.used_up(number)
            return
        group = launch.traits.group.id if launch.traits.group is not None else ""
        names = (
            [option.kind.name for option in purchase.options] if spread and group else [error.instance_type]
        )
        self._with.unavailable.mark(
            Place(name, error.zone, purchase.capacity_type, group) for name in names if name
        )

    def _instance(
        self,
        launch: Launch,
        purchase: Purchase,
        cooked: Iterable[Cooked],
        tags: Mapping[str, str],
        won: Won,
    ) -> Instance:
        """Return the machine as it must be, since EC2 needs a moment until it can tell."""
        recipe = next(
            (each.recipe for each in cooked if each.recipe.name == won.template),
            next(iter(cooked)).recipe,
        )
        reserve = recipe.reserve
        instance = Instance(
            id=won.id,
            instance_type=won.instance_type,
            zone=won.zone,
            image=won.image or recipe.image,
            launched=self._with.clock.now(),
            capacity_type=purchase.capacity_type,
            subnet=won.subnet,
            security_groups=frozenset(recipe.security_groups),
            tags=tags,
            reservation=reserve.id if reserve is not None else "",
            reservation_type=reserve.type if reserve is not None else "",
            interruptible=reserve.interruptible if reserve is not None else False,
            tenancy=recipe.tenancy,
            group=recipe.group,
            partition=recipe.partition or 0,
            efa=recipe.efa or len(launch.traits.efa_only),
            profile=recipe.profile,
        )
        if instance.reservation:
            self._with.reservations.launched(instance.reservation)
        self._with.instances.note(instance)
        return instance


def _addresses(purchase: Purchase, chosen: Mapping[str, Subnet]) -> dict[str, int]:
    """Return how many addresses a machine takes of each subnet that is offered: as many as it has pods."""
    found: dict[str, int] = {}
    for option in purchase.options:
        pods = option.kind.capacity.get(PODS, 0)
        for zone in {each.zone for each in option.offerings} & chosen.keys():
            subnet = chosen[zone].id
            found[subnet] = min(pods, found.get(subnet, pods))
    return found


def _error(purchase: Purchase, outcome: Outcome) -> CloudError:
    """Return why a claim got nothing."""
    if not all(is_sold_out(error) for error in outcome.errors):
        return failure(outcome.errors)
    if any(error.code == NO_SPOT_ROLE for error in outcome.errors):
        return InsufficientCapacity(
            because="the role AWSServiceRoleForEC2Spot does not exist, and the controller may not create it;"
            " hint: aws iam create-service-linked-role --aws-service-name spot.amazonaws.com"
        )
    tried = [name for error in outcome.errors if error.instance_type for name in _names(purchase, error)]
    return InsufficientCapacity(offerings=dict.fromkeys(tried))


def _names(purchase: Purchase, error: FleetError) -> list[OfferingName]:
    """Return the offerings that an error of a fleet is about."""
    found = [
        OfferingName.of(option.kind, each)
        for option in purchase.options
        if option.kind.name == error.instance_type
        for each in option.offerings
        if each.zone == error.zone
    ]
    return found or [OfferingName(error.instance_type, error.zone, purchase.capacity_type)]


def _reservations(purchase: Purchase, error: FleetError) -> list[str]:
    return [name.reservation_id for name in _names(purchase, error) if name.reservation_id]


SETTLING: Final = 5.0
"""Seconds after which EC2 shows what it has launched: until then a lost answer is not taken for a failure."""


class Ledger:
    """Knows the machines of claims."""

    def __init__(
        self, instances: Instances, objects: ClusterObjects, *, monotonic: Callable[[], float]
    ) -> None:
        self._instances = instances
        self._objects = objects
        self._monotonic = monotonic
        self._of_claim: dict[str, str] = {}
        self._of_instance: dict[str, str] = {}
        self._lost: dict[str, float] = {}
        self._seen: dict[str, Instance] | None = None
        self._reading = asyncio.Lock()

    async def find(self, uid: str) -> Instance | None:
        """
        Return the machine that a claim has; None when it has none.

        Raises:
            LaunchFailed: its launch was not answered, and it is too early to tell.
            CloudError: EC2 does not tell.
        """
        number = self._of_claim.get(uid) or await self._adopt(uid)
        if number is None:
            self._too_early(uid)
            return None
        try:
            found = await self._instances.get(number)
        except MachineNotFound:
            found = None
        if found is None or found.leaving:
            self.forget(number)
            return None
        return found

    def claim_of(self, instance: str) -> str:
        """Return the uid of the claim whose machine an instance is; empty when nobody knows."""
        return self._of_instance.get(instance, "")

    def note(self, uid: str, instance: str) -> None:
        """Remember the machine of a claim."""
        self._of_claim[uid] = instance
        self._of_instance[instance] = uid
        self._lost.pop(uid, None)

    def lost(self, uid: str) -> None:
        """Note that the launch for a claim was not answered."""
        self._lost[uid] = self._monotonic()
        self._seen = None

    def forget(self, instance: str) -> None:
        """Forget a machine that is gone."""
        uid = self._of_instance.pop(instance, None)
        if uid is not None:
            self._of_claim.pop(uid, None)

    async def _adopt(self, uid: str) -> str | None:
        """Return a machine that was launched for a claim, perhaps among others, and that nobody else has."""
        async with self._reading:
            if self._seen is None or uid in self._lost:
                self._seen = await self._read()
            candidates = [
                each.id
                for each in self._seen.values()
                if each.id not in self._of_instance and not each.leaving and is_for(each.tags, uid)
            ]
            if not candidates:
                return None
            chosen = min(candidates)
            log.info("machine.found_again", instance=chosen, claim=uid)
            self.note(uid, chosen)
            return chosen

    async def _read(self) -> dict[str, Instance]:
        """Return the instances that no claim says are its own."""
        found = {each.id: each for each in await self._instances.all()}
        for claim in await self._objects.list(NodeClaim):
            if claim.status.provider_id:
                try:
                    number = instance_id(claim.status.provider_id)
                except MachineNotFound:
                    continue
                if number in found:
                    self.note(claim.metadata.uid, number)
        return found

    def _too_early(self, uid: str) -> None:
        since = self._lost.get(uid)
        if since is None:
            return
        if self._monotonic() - since < SETTLING:
            raise LaunchFailed(
                "the launch before was not answered, and EC2 does not show yet what came of it"
            )
        del self._lost[uid]
