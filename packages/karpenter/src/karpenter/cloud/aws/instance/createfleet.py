"""
Asking EC2 for machines: one request for all claims that ask for the same at the same moment.

A request names launch templates and, for each, every instance type and zone that would do with its price. EC2
picks. Requests that differ in nothing but the claim are sent as one; each claim then gets one machine of the
answer, and all of its errors.

How a machine can be told to be that of a claim, although one request launches machines for many claims.

Every claim of a request has a ticket, a few characters made from its uid, and every instance of the request
is tagged with all of them from its birth. Machines of one request are all alike, so when an answer was lost,
each of its claims takes any of them that nobody else has.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec
import structlog

from karpenter.api.ec2nodeclass_status import CAPACITY_BLOCK
from karpenter.api.labels import MIN_VALUES_RELAXED, ON_DEMAND, PRICE_OVERLAY_APPLIED, RESERVED, SPOT
from karpenter.cloud.aws.batcher import RequestBatcher, Window
from karpenter.cloud.aws.instance.instance import measured
from karpenter.cloud.aws.labels import LAUNCH_TAG
from karpenter.cloud.aws.tags import specification
from karpenter.cloud.errors import LaunchFailed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from karpenter.api.ec2nodeclass_status import Subnet
    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.cloud.aws.amifamily.resolver import ResolvedLaunchTemplate
    from karpenter.cloud.aws.instance.filter import LaunchOptions
    from karpenter.cloud.aws.metrics import ProviderMetrics
    from karpenter.cloud.aws.sdk import ApiResponse, AwsApi


LENGTH: Final = 8
PER_TAG: Final = 32
"""Tickets in one tag, whose value EC2 limits to 256 characters."""

MOST_TAGS: Final = 50
"""Tags that EC2 takes on one instance."""

_SPARE_TAGS: Final = 3
"""Tags that are put on an instance later: its name, its claim, its cluster."""


def claim_digest(uid: str) -> str:
    """Return the ticket of a claim."""
    digest = hashlib.sha256(uid.encode()).digest()
    return base64.urlsafe_b64encode(digest)[:LENGTH].decode()


def launch_tags(uids: Iterable[str]) -> dict[str, str]:
    """Return the tags of instances that are launched for some claims."""
    tickets = sorted(claim_digest(uid) for uid in uids)
    return {
        f"{LAUNCH_TAG}-{number // PER_TAG}": "".join(tickets[number : number + PER_TAG])
        for number in range(0, len(tickets), PER_TAG)
    }


def is_launched_for(tags: Mapping[str, str], uid: str) -> bool:
    """Say whether an instance with these tags was launched for a claim, perhaps among others."""
    wanted = claim_digest(uid)
    return any(
        wanted == value[place : place + LENGTH]
        for key, value in tags.items()
        if key.startswith(LAUNCH_TAG)
        for place in range(0, len(value), LENGTH)
    )


def max_claims_per_request(tags: int) -> int:
    """Return how many claims one request may be for, when its instances have so many other tags."""
    return max(1, MOST_TAGS - _SPARE_TAGS - tags) * PER_TAG


log = structlog.stdlib.get_logger(__name__)

_WINDOW: Final = Window(idle=0.035, most=1000)


class FleetError(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a fleet could not get, and why."""

    code: str
    message: str = ""
    instance_type: str = ""
    zone: str = ""
    subnet: str = ""
    template: str = ""


class FleetInstance(msgspec.Struct, frozen=True, kw_only=True):
    """The machine that a fleet got."""

    id: str
    instance_type: str
    zone: str
    subnet: str
    image: str
    template: str


class FleetResult(msgspec.Struct, frozen=True):
    """What a claim got of a fleet."""

    won: FleetInstance | None
    errors: tuple[FleetError, ...]
    first: bool = True
    """Whether nobody else of the same fleet counts these errors."""


class FleetRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What one claim asks for; orders that are alike but for the claim are sent together."""

    uid: str
    request: dict[str, Any]
    """Without the count, and without tags."""

    tags: Mapping[str, str]

    @property
    def key(self) -> bytes:
        """What tells orders apart that cannot be sent together."""
        return msgspec.json.encode((self.request, self.tags), order="deterministic")


class CreateFleetBatcher:
    """Asks for machines."""

    def __init__(self, aws: AwsApi, *, meters: ProviderMetrics) -> None:
        self._aws = aws
        self._orders: RequestBatcher[FleetRequest, FleetResult] = RequestBatcher(
            _WINDOW,
            self._send,
            alike=lambda order: order.key,
            measure=measured(meters, "create_fleet"),
        )

    async def order(self, order: FleetRequest) -> FleetResult:
        """
        Return what came of an order.

        Raises:
            Throttled, Refused: nothing was launched.
            NoAnswer: something may have been.
        """
        return await self._orders.ask(order)

    async def _send(self, orders: Sequence[FleetRequest]) -> list[FleetResult]:
        limit = max_claims_per_request(len(orders[0].tags))
        outcomes: list[FleetResult] = []
        for start in range(0, len(orders), limit):
            outcomes += await self._send_some(orders[start : start + limit])
        return outcomes

    async def _send_some(self, orders: Sequence[FleetRequest]) -> list[FleetResult]:
        first = orders[0]
        tagged = {**first.tags, **launch_tags(order.uid for order in orders)}
        answer = await self._aws.ask(
            "ec2",
            "CreateFleet",
            **_counted(first.request, len(orders)),
            TagSpecifications=[
                specification("instance", tagged),
                specification("volume", first.tags),
                specification("fleet", first.tags),
            ],
        )
        errors = tuple(_errors(answer))
        won: list[FleetInstance] = [each for told in answer.get("Instances", ()) for each in _won(told)]
        if len(won) > len(orders):
            extra = [each.id for each in won[len(orders) :]]
            log.error("fleet.too_many_instances", fleet=answer.get("FleetId"), extra=extra)
        if not won and not errors:
            raise LaunchFailed("EC2 launched nothing and did not say why")
        return [
            FleetResult(won[place] if place < len(won) else None, errors, first=place == 0)
            for place in range(len(orders))
        ]


def fleet_request(
    cooked: Iterable[ResolvedLaunchTemplate],
    purchase: LaunchOptions,
    claim: NodeClaim,
    *,
    subnets: Mapping[str, Subnet],
    context: str = "",
) -> dict[str, Any]:
    """Return the request for one claim; without any template when nothing is left to ask for."""
    overlaid = claim.metadata.annotations.get(PRICE_OVERLAY_APPLIED) == "true"
    configs = [
        {
            "LaunchTemplateSpecification": {
                "LaunchTemplateName": each.recipe.name,
                "Version": "$Latest",
            },
            "Overrides": overrides,
        }
        for each in cooked
        if (overrides := list(_overrides(each, subnets)))
    ]
    request: dict[str, Any] = {
        "Type": "instant",
        "LaunchTemplateConfigs": configs,
        "TargetCapacitySpecification": {"DefaultTargetCapacityType": _target(purchase)},
        **_options(purchase, overlaid=overlaid),
    }
    relaxed = claim.metadata.annotations.get(MIN_VALUES_RELAXED) == "true"
    if context and not relaxed:
        request["Context"] = context
    return request


def _counted(request: Mapping[str, Any], count: int) -> dict[str, Any]:
    target = {**request["TargetCapacitySpecification"], "TotalTargetCapacity": count}
    return {**request, "TargetCapacitySpecification": target}


def _overrides(cooked: ResolvedLaunchTemplate, subnets: Mapping[str, Subnet]) -> Iterator[dict[str, Any]]:
    seen = set()
    for option in cooked.options:
        for offering in option.offerings:
            place = (option.kind.name, offering.zone)
            subnet = subnets.get(offering.zone)
            if subnet is None or place in seen:
                continue
            seen.add(place)
            yield {
                "InstanceType": option.kind.name,
                "SubnetId": subnet.id,
                "ImageId": cooked.recipe.image,
                "AvailabilityZone": offering.zone,
                "Priority": offering.price,
            }


def _target(purchase: LaunchOptions) -> str:
    if purchase.capacity_type != RESERVED:
        return purchase.capacity_type
    if purchase.reservation_type == CAPACITY_BLOCK:
        return CAPACITY_BLOCK
    return "reserved-capacity" if purchase.interruptible else ON_DEMAND


def _options(purchase: LaunchOptions, *, overlaid: bool) -> dict[str, Any]:
    if purchase.capacity_type == SPOT:
        strategy = "capacity-optimized-prioritized" if overlaid else "price-capacity-optimized"
        return {"SpotOptions": {"AllocationStrategy": strategy}}
    if purchase.reservation_type == CAPACITY_BLOCK:
        return {}
    if purchase.interruptible:
        return {"ReservedCapacityOptions": {"ReservationTypes": ["interruptible-capacity-reservation"]}}
    return {"OnDemandOptions": {"AllocationStrategy": "prioritized" if overlaid else "lowest-price"}}


def _errors(answer: ApiResponse) -> Iterator[FleetError]:
    for told in answer.get("Errors", ()):
        named = told.get("LaunchTemplateAndOverrides", {})
        override = named.get("Overrides", {})
        yield FleetError(
            code=told.get("ErrorCode", ""),
            message=told.get("ErrorMessage", ""),
            instance_type=override.get("InstanceType", ""),
            zone=override.get("AvailabilityZone", ""),
            subnet=override.get("SubnetId", ""),
            template=named.get("LaunchTemplateSpecification", {}).get("LaunchTemplateName", ""),
        )


def _won(told: ApiResponse) -> Iterator[FleetInstance]:
    named = told.get("LaunchTemplateAndOverrides", {})
    override = named.get("Overrides", {})
    for number in told.get("InstanceIds", ()):
        yield FleetInstance(
            id=number,
            instance_type=told.get("InstanceType") or override.get("InstanceType", ""),
            zone=override.get("AvailabilityZone", ""),
            subnet=override.get("SubnetId", ""),
            image=override.get("ImageId", ""),
            template=named.get("LaunchTemplateSpecification", {}).get("LaunchTemplateName", ""),
        )
