"""
Launches one instance for a NodeClaim, and keeps which instance belongs to which claim.

:class:`InstanceLauncher` runs the steps in order: filter the instance types, render launch templates, call
CreateFleet, and note what EC2 could not launch where the next launch will look. Every step is in a module of
its own.

:class:`ClaimedInstances` makes a launch idempotent. While the process runs, it knows what it launched. After
a start, and after a lost response, it reads the launch tags of the instances (:mod:`.createfleet`); a claim
that was created later cannot have an instance that this process does not know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import structlog

from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.labels import NODEPOOL, RESERVED, SPOT
from karpenter.api.nodeclaim import NodeClaim
from karpenter.base.quantity import QuantityError
from karpenter.cloud.aws.amifamily.bootstrap.bootstrap import BadUserData
from karpenter.cloud.aws.amifamily.bootstrap.userdata import TooMuchUserData
from karpenter.cloud.aws.amifamily.resolver import LaunchTemplateBuilder, ResolvedLaunchTemplate
from karpenter.cloud.aws.errors import TEMPLATE_MISSING, AwsApiError, NoResponse
from karpenter.cloud.aws.instance.createfleet import (
    FleetError,
    FleetInstance,
    FleetRequest,
    FleetResult,
    fleet_parameters,
    is_launched_for,
)
from karpenter.cloud.aws.instance.filter import LaunchOptions, filter_instance_types
from karpenter.cloud.aws.instance.launch_errors import (
    NO_ADDRESS,
    NO_SPOT_ROLE,
    UNFULFILLABLE,
    UnknownLaunchOutcome,
    as_launch_error,
    failure,
    is_insufficient_capacity,
    is_spread_limit,
    reason_of,
)
from karpenter.cloud.aws.instance.types import Instance, instance_id
from karpenter.cloud.aws.instancetype.types import Traits
from karpenter.cloud.aws.kubelet.expressions import BadExpression
from karpenter.cloud.aws.labels import tags_of
from karpenter.cloud.aws.metrics import LAUNCH_FAILURES
from karpenter.cloud.aws.unavailableofferings import OfferingKey
from karpenter.cloud.errors import (
    CloudError,
    InsufficientCapacity,
    LaunchFailed,
    LaunchRefused,
    MachineNotFound,
    Throttled,
)
from karpenter.core.model.catalog import Catalog, OfferingName
from karpenter.core.model.requirement import RequirementError
from karpenter.core.model.resources import PODS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from karpenter.api.ec2nodeclass_status import Subnet
    from karpenter.cloud.aws.services import Services

log = structlog.stdlib.get_logger(__name__)

# EC2 may need a few seconds until DescribeInstances shows what CreateFleet has launched:
# https://docs.aws.amazon.com/ec2/latest/devguide/eventual-consistency.html
SETTLING_SECONDS: Final = 5.0
"""Seconds after a lost response until an instance that EC2 does not show counts as not launched."""


class InstanceLaunch(msgspec.Struct, frozen=True, kw_only=True):
    """A launch for one claim: its node class is ready, and its instance types are known."""

    claim: NodeClaim
    node_class: EC2NodeClass
    traits: Traits
    catalog: Catalog


class InstanceLauncher:
    """Launches instances."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def launch(self, launch: InstanceLaunch) -> Instance:
        """
        Launch an instance.

        Raises:
            InsufficientCapacity: EC2 has no capacity of any offering that satisfies the claim.
            NodeClassNotReady: the node class cannot launch.
            LaunchRefused: EC2 refuses the request.
            LaunchFailed: something broke, and an instance may exist.
            Throttled: too many calls.
        """
        try:
            options = filter_instance_types(launch.catalog, launch.claim)
        except (RequirementError, QuantityError) as error:
            raise LaunchRefused(reason="InvalidClaim", message=str(error)) from error
        tags = tags_of(
            launch.node_class,
            cluster=self._services.settings.cluster,
            pool=launch.claim.metadata.labels.get(NODEPOOL, ""),
        )
        try:
            templates = await self._render(launch, options, tags)
            return await self._create_fleet(launch, options, templates, tags)
        except CloudError as error:
            raise as_launch_error(error) from error

    async def _render(
        self, launch: InstanceLaunch, options: LaunchOptions, tags: Mapping[str, str]
    ) -> tuple[ResolvedLaunchTemplate, ...]:
        services = self._services
        cidr = ""
        if launch.traits.family.takes_any_kubelet_setting:
            cidr = await services.cluster.service_cidr()
        builder = LaunchTemplateBuilder(
            node_class=launch.node_class,
            traits=launch.traits,
            types=services.instance_types.types,
            joining=await services.cluster.joining(),
            service_cidr=cidr,
            tags=tags,
            reserved_capacity=services.settings.reserved_capacity,
        )
        try:
            templates = builder.render(launch.claim, options)
        except TooMuchUserData as error:
            raise LaunchRefused(reason="UserDataSizeLimitExceeded", message=str(error)) from error
        except BadUserData as error:
            raise LaunchRefused(reason="InvalidUserData", message=str(error)) from error
        except BadExpression as error:
            raise LaunchRefused(reason="KubeletExpressionEvaluationFailed", message=str(error)) from error
        if not templates:
            raise LaunchRefused(
                reason="AMINotFound",
                message=f"node class {launch.node_class.name} has no image for any type that would do",
            )
        return templates

    async def _create_fleet(
        self,
        launch: InstanceLaunch,
        options: LaunchOptions,
        templates: tuple[ResolvedLaunchTemplate, ...],
        tags: Mapping[str, str],
        *,
        retry: bool = True,
    ) -> Instance:
        """Call CreateFleet; once more if a launch template that was cached is gone."""
        services = self._services
        chosen = services.subnets.choose(launch.node_class.status.subnets)
        parameters = fleet_parameters(
            templates, options, launch.claim, subnets=chosen, context=launch.node_class.spec.context or ""
        )
        if not parameters["LaunchTemplateConfigs"]:
            raise InsufficientCapacity(because="no subnet is in a zone that sells what would do")
        await services.launch_templates.ensure(each.template for each in templates)
        addresses = services.subnets.reserve(_addresses(options, chosen))
        request = FleetRequest(uid=launch.claim.metadata.uid, parameters=parameters, tags=tags)
        try:
            result = await services.fleets.create_fleet(request)
        except NoResponse as error:
            raise UnknownLaunchOutcome(str(error)) from error
        except Throttled as error:
            # The SDK calls several times, and throttling is the last answer: one before may have been lost.
            # https://docs.aws.amazon.com/sdkref/latest/guide/feature-retry-behavior.html
            services.subnets.release(addresses)
            raise UnknownLaunchOutcome(str(error)) from error
        except AwsApiError as error:
            services.subnets.release(addresses)
            if error.code == TEMPLATE_MISSING:
                services.launch_templates.forget(each.template.name for each in templates)
            # After a server error, or before a retry of the SDK, EC2 may have launched: only tags tell. A
            # template that is missing now may have been there when the first attempt was carried out.
            if error.is_server_error or error.retried:
                raise UnknownLaunchOutcome(str(error)) from error
            if error.code != TEMPLATE_MISSING or not retry:
                raise
            return await self._create_fleet(launch, options, templates, tags, retry=False)
        except CloudError:
            services.subnets.release(addresses)
            raise
        launched = result.instance
        services.subnets.release(addresses, used=[launched.subnet] if launched else [])
        self._note_errors(launch, options, result)
        if launched is None:
            raise _error(options, result)
        return self._instance(launch, options, templates, tags, launched)

    def _note_errors(self, launch: InstanceLaunch, options: LaunchOptions, result: FleetResult) -> None:
        """Mark the offerings that EC2 could not launch as unavailable."""
        services = self._services
        for error in result.errors:
            log.info(
                "launch.offering_failed",
                nodeclaim=launch.claim.name,
                instance_type=error.instance_type,
                zone=error.zone,
                capacity_type=options.capacity_type,
                code=error.code,
            )
            if result.first:
                services.metrics.count(
                    LAUNCH_FAILURES,
                    zone=error.zone,
                    zone_id=launch.traits.zone_ids.get(error.zone, ""),
                    capacity_type=options.capacity_type,
                    reason=reason_of(error.code, error.message),
                )
            if error.code == NO_SPOT_ROLE:
                services.unavailable.mark_capacity_type(SPOT)
            elif error.code in UNFULFILLABLE:
                self._note_unavailable(launch, options, error)
            if error.code == NO_ADDRESS and error.subnet:
                # EC2 counts free addresses with a delay, so the error is newer than the count.
                services.subnets.exhausted(error.subnet)
                services.unavailable.mark_subnet(error.subnet)

    def _note_unavailable(self, launch: InstanceLaunch, options: LaunchOptions, error: FleetError) -> None:
        spread = is_spread_limit(error)
        if options.capacity_type == RESERVED:
            if not spread:
                for reservation in [
                    name.reservation_id for name in _names(options, error) if name.reservation_id
                ]:
                    self._services.reservations.used_up(reservation)
            return
        group = launch.traits.group.id if launch.traits.group is not None else ""
        # A spread placement group that is full takes no instance of any type in the zone.
        names = (
            [option.kind.name for option in options.options] if spread and group else [error.instance_type]
        )
        self._services.unavailable.mark(
            OfferingKey(name, error.zone, options.capacity_type, group) for name in names if name
        )

    def _instance(
        self,
        launch: InstanceLaunch,
        options: LaunchOptions,
        templates: tuple[ResolvedLaunchTemplate, ...],
        tags: Mapping[str, str],
        launched: FleetInstance,
    ) -> Instance:
        """Return the instance as it must be, since EC2 does not describe it yet."""
        template = next(
            (each.template for each in templates if each.template.name == launched.template),
            templates[0].template,
        )
        # EC2 does not return these fields of the instance in the response of CreateFleet.
        reserve = template.reserve
        instance = Instance(
            id=launched.id,
            instance_type=launched.instance_type,
            zone=launched.zone,
            image=launched.image or template.image,
            launched=self._services.clock.now(),
            capacity_type=options.capacity_type,
            subnet=launched.subnet,
            security_groups=frozenset(template.security_groups),
            tags=tags,
            reservation=reserve.id if reserve is not None else "",
            reservation_type=reserve.type if reserve is not None else "",
            interruptible=reserve.interruptible if reserve is not None else False,
            tenancy=template.tenancy,
            group=template.group,
            partition=template.partition or 0,
            efa=template.efa or len(launch.traits.efa_only),
            profile=template.profile,
        )
        if instance.reservation:
            self._services.reservations.launched(instance.reservation)
        self._services.instances.note(instance)
        return instance


class ClaimedInstances:
    """Knows which instance belongs to which claim."""

    def __init__(self, services: Services) -> None:
        self._instances = services.instances
        self._objects = services.objects
        self._monotonic = services.clock.monotonic
        self._of_claim: dict[str, str] = {}
        self._of_instance: dict[str, str] = {}
        self._unknown: dict[str, float] = {}
        """Claims whose launch was not answered, and since when."""

        self._seen: dict[str, Instance] | None = None

    async def find(self, uid: str) -> Instance | None:
        """
        Return the instance of a claim; None when it has none.

        Raises:
            LaunchFailed: its launch was not answered, and EC2 may not show its instance yet.
            CloudError: EC2 does not answer.
        """
        instance = self._of_claim.get(uid) or await self._adopt(uid)
        if instance is None:
            self._refuse_too_early(uid)
            return None
        try:
            found = await self._instances.get(instance)
        except MachineNotFound:
            found = None
        if found is None or found.leaving:
            self.forget(instance)
            return None
        return found

    def claim_of(self, instance: str) -> str:
        """Return the uid of the claim that an instance belongs to; empty when it is not known."""
        return self._of_instance.get(instance, "")

    def note(self, uid: str, instance: str) -> None:
        self._of_claim[uid] = instance
        self._of_instance[instance] = uid
        self._unknown.pop(uid, None)

    def note_unknown(self, uid: str) -> None:
        self._unknown[uid] = self._monotonic()
        self._seen = None

    def forget(self, instance: str) -> None:
        uid = self._of_instance.pop(instance, None)
        if uid is not None:
            self._of_claim.pop(uid, None)

    async def _adopt(self, uid: str) -> str | None:
        """Return an instance that was launched for a claim, perhaps among others, and belongs to no claim."""
        seen = self._seen
        if seen is None or uid in self._unknown:
            # All instances, having noted those that claims name in their status.
            found = {each.id: each for each in await self._instances.all()}
            for claim in await self._objects.list(NodeClaim):
                if claim.status.provider_id:
                    try:
                        instance = instance_id(claim.status.provider_id)
                    except MachineNotFound:
                        continue
                    if instance in found:
                        self.note(claim.metadata.uid, instance)
            seen = self._seen = found
        candidates = [
            each.id
            for each in seen.values()
            if each.id not in self._of_instance and not each.leaving and is_launched_for(each.tags, uid)
        ]
        if not candidates:
            return None
        # Any of them will do: the instances of one request are interchangeable.
        chosen = min(candidates)
        log.info("machine.found_again", instance=chosen, claim=uid)
        self.note(uid, chosen)
        return chosen

    def _refuse_too_early(self, uid: str) -> None:
        since = self._unknown.get(uid)
        if since is None:
            return
        if self._monotonic() - since < SETTLING_SECONDS:
            raise LaunchFailed(
                "the launch before was not answered, and EC2 does not show yet what came of it"
            )
        del self._unknown[uid]


def _addresses(options: LaunchOptions, chosen: Mapping[str, Subnet]) -> dict[str, int]:
    """Return how many addresses a node takes of each subnet that is offered: as many as it has pods."""
    found: dict[str, int] = {}
    for option in options.options:
        pods = option.kind.capacity.get(PODS, 0)
        for zone in {each.zone for each in option.offerings} & chosen.keys():
            subnet = chosen[zone].id
            found[subnet] = min(pods, found.get(subnet, pods))
    return found


def _error(options: LaunchOptions, result: FleetResult) -> CloudError:
    if not all(is_insufficient_capacity(error) for error in result.errors):
        return failure(result.errors)
    if any(error.code == NO_SPOT_ROLE for error in result.errors):
        return InsufficientCapacity(
            because="the role AWSServiceRoleForEC2Spot does not exist, and the controller may not create it;"
            " hint: aws iam create-service-linked-role --aws-service-name spot.amazonaws.com"
        )
    tried = [name for error in result.errors if error.instance_type for name in _names(options, error)]
    return InsufficientCapacity(offerings=dict.fromkeys(tried))


def _names(options: LaunchOptions, error: FleetError) -> list[OfferingName]:
    found = [
        OfferingName.of(option.kind, each)
        for option in options.options
        if option.kind.name == error.instance_type
        for each in option.offerings
        if each.zone == error.zone
    ]
    return found or [OfferingName(error.instance_type, error.zone, options.capacity_type)]
