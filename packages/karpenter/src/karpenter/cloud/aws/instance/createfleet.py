"""
Asks EC2 for instances: one CreateFleet request for all NodeClaims that ask for the same at the same moment.

A request names launch templates and, for each, every instance type and zone that satisfies the claim, with
its price. EC2 picks. Requests that differ only in the claim are sent as one, as Karpenter does; each claim
then gets one instance of the response, and all of its errors.

A response can be lost, and then nothing but the instances themselves tells for which claims they were
launched. So every instance is tagged at launch with a digest of the uid of each claim of its request. The
instances of one request are interchangeable: after a lost response, each claim takes any instance that
carries its digest and belongs to no other claim (:mod:`.launch`).
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
import structlog

from karpenter.api.ec2nodeclass_status import CAPACITY_BLOCK, Subnet
from karpenter.api.labels import MIN_VALUES_RELAXED, ON_DEMAND, PRICE_OVERLAY_APPLIED, RESERVED, SPOT
from karpenter.base.batcher import BatchWindow
from karpenter.cloud.aws.batcher import RequestBatcher, measured
from karpenter.cloud.aws.labels import LAUNCH_TAG, specification
from karpenter.cloud.errors import LaunchFailed

if TYPE_CHECKING:
    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.cloud.aws.amifamily.resolver import ResolvedLaunchTemplate
    from karpenter.cloud.aws.instance.filter import LaunchOptions
    from karpenter.cloud.aws.metrics import ProviderMetrics
    from karpenter.cloud.aws.sdk import ApiResponse, AwsApi

log = structlog.stdlib.get_logger(__name__)

# A window as short as Karpenter's: pods are batched before, so equal claims come almost together.
_WINDOW: Final = BatchWindow(idle=0.035, longest=1.0, max_items=1000, timeout=None)

# EC2 takes 50 tags on a resource, each with a value of at most 256 characters:
# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/Using_Tags.html
MAX_TAGS: Final = 50
# 48 bits of a hash tell the claims of a cluster apart, and 32 digests fill the value of a tag.
DIGEST_LENGTH: Final = 8
DIGESTS_PER_TAG: Final = 32
_LATER_TAGS: Final = 3
"""Tags that are put on an instance later: its name, its claim, its cluster."""


class FleetError(msgspec.Struct, frozen=True, kw_only=True):
    """An offering that a fleet could not launch, and why."""

    code: str
    message: str = ""
    instance_type: str = ""
    zone: str = ""
    subnet: str = ""
    template: str = ""


class FleetInstance(msgspec.Struct, frozen=True, kw_only=True):
    """An instance that a fleet launched."""

    id: str
    instance_type: str
    zone: str
    subnet: str
    image: str
    template: str


class FleetResult(msgspec.Struct, frozen=True):
    """The part of one claim in the response to a fleet request."""

    instance: FleetInstance | None
    errors: tuple[FleetError, ...]
    first: bool = True
    """True for one claim of each response: the one that counts the errors in metrics."""


class FleetRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Launch request of one claim; requests that differ only in the claim are sent together."""

    uid: str
    parameters: dict[str, Any]
    """The parameters of CreateFleet, without the count and without tags."""

    tags: Mapping[str, str]

    @property
    def key(self) -> bytes:
        """Equal for requests that can be sent together."""
        return msgspec.json.encode((self.parameters, self.tags), order="deterministic")


class CreateFleetBatcher:
    """Calls CreateFleet."""

    def __init__(self, aws: AwsApi, *, metrics: ProviderMetrics) -> None:
        self._aws = aws
        self._requests: RequestBatcher[FleetRequest, FleetResult] = RequestBatcher(
            _WINDOW,
            self._send,
            group_by=lambda request: request.key,
            measure=measured(metrics, "create_fleet"),
        )

    async def create_fleet(self, request: FleetRequest) -> FleetResult:
        """
        Return what EC2 launched for a request.

        Raises:
            Throttled, AwsApiError: nothing was launched.
            NoResponse: an instance may have been launched.
        """
        return await self._requests.add(request)

    async def _send(self, requests: Sequence[FleetRequest]) -> list[FleetResult]:
        limit = max_claims_per_request(len(requests[0].tags))
        results: list[FleetResult] = []
        for start in range(0, len(requests), limit):
            results += await self._send_some(requests[start : start + limit])
        return results

    async def _send_some(self, requests: Sequence[FleetRequest]) -> list[FleetResult]:
        first = requests[0]
        tagged = {**first.tags, **launch_tags(request.uid for request in requests)}
        response = await self._aws.call(
            "ec2",
            "CreateFleet",
            **_counted(first.parameters, len(requests)),
            TagSpecifications=[
                # Only instances carry the digests: volumes and fleets are not looked up by claim.
                specification("instance", tagged),
                specification("volume", first.tags),
                specification("fleet", first.tags),
            ],
        )
        errors = tuple(_errors(response))
        launched = [each for entry in response.get("Instances", ()) for each in _instances(entry)]
        if len(launched) > len(requests):
            extra = [each.id for each in launched[len(requests) :]]
            log.error("fleet.too_many_instances", fleet=response.get("FleetId"), extra=extra)
        # An instant fleet that launches nothing lists errors; an empty answer must not count as a success:
        # https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateFleet.html
        if not launched and not errors:
            raise LaunchFailed("EC2 launched nothing and did not say why")
        return [
            FleetResult(launched[place] if place < len(launched) else None, errors, first=place == 0)
            for place in range(len(requests))
        ]


def claim_digest(uid: str) -> str:
    """Return the digest of a claim's uid that instances are tagged with."""
    digest = hashlib.sha256(uid.encode()).digest()
    return base64.urlsafe_b64encode(digest)[:DIGEST_LENGTH].decode()


def launch_tags(uids: Iterable[str]) -> dict[str, str]:
    """Return the tags that say for which claims an instance is launched."""
    digests = sorted(claim_digest(uid) for uid in uids)
    return {
        f"{LAUNCH_TAG}-{number // DIGESTS_PER_TAG}": "".join(digests[number : number + DIGESTS_PER_TAG])
        for number in range(0, len(digests), DIGESTS_PER_TAG)
    }


def is_launched_for(tags: Mapping[str, str], uid: str) -> bool:
    """Return whether an instance with these tags was launched for a claim, perhaps among others."""
    wanted = claim_digest(uid)
    return any(
        wanted == value[place : place + DIGEST_LENGTH]
        for key, value in tags.items()
        if key.startswith(LAUNCH_TAG)
        for place in range(0, len(value), DIGEST_LENGTH)
    )


def max_claims_per_request(tags: int) -> int:
    """Return for how many claims one request may be, when its instances have so many other tags."""
    return max(1, MAX_TAGS - _LATER_TAGS - tags) * DIGESTS_PER_TAG


def fleet_parameters(
    templates: Iterable[ResolvedLaunchTemplate],
    options: LaunchOptions,
    claim: NodeClaim,
    *,
    subnets: Mapping[str, Subnet],
    context: str = "",
) -> dict[str, Any]:
    """Return the parameters of CreateFleet for one claim; without launch templates if no offering is left."""
    overlaid = claim.metadata.annotations.get(PRICE_OVERLAY_APPLIED) == "true"
    configs = [
        {
            "LaunchTemplateSpecification": {
                "LaunchTemplateName": each.template.name,
                # Templates are never changed, they are named after their content, so the latest version is
                # the only one.
                "Version": "$Latest",
            },
            "Overrides": overrides,
        }
        for each in templates
        if (overrides := list(_overrides(each, subnets)))
    ]
    parameters: dict[str, Any] = {
        # A fleet of type instant is synchronous: its response has the instances and the errors.
        # https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instant-fleet.html
        "Type": "instant",
        "LaunchTemplateConfigs": configs,
        "TargetCapacitySpecification": {"DefaultTargetCapacityType": _target(options)},
        **_allocation(options, overlaid=overlaid),
    }
    relaxed = claim.metadata.annotations.get(MIN_VALUES_RELAXED) == "true"
    # Upstream sends no context for a claim whose minValues are relaxed:
    # https://github.com/aws/karpenter-provider-aws
    if context and not relaxed:
        parameters["Context"] = context
    return parameters


def _counted(parameters: Mapping[str, Any], count: int) -> dict[str, Any]:
    target = {**parameters["TargetCapacitySpecification"], "TotalTargetCapacity": count}
    return {**parameters, "TargetCapacitySpecification": target}


def _overrides(resolved: ResolvedLaunchTemplate, subnets: Mapping[str, Subnet]) -> Iterator[dict[str, Any]]:
    # EC2 refuses a fleet with duplicate instance pools: the same type in the same zone twice.
    seen = set()
    for option in resolved.options:
        for offering in option.offerings:
            place = (option.kind.name, offering.zone)
            subnet = subnets.get(offering.zone)
            if subnet is None or place in seen:
                continue
            seen.add(place)
            yield {
                "InstanceType": option.kind.name,
                "SubnetId": subnet.id,
                "ImageId": resolved.template.image,
                "AvailabilityZone": offering.zone,
                # Used by the prioritized strategies only: the lowest number is tried first.
                "Priority": offering.price,
            }


def _target(options: LaunchOptions) -> str:
    if options.capacity_type != RESERVED:
        return options.capacity_type
    if options.reservation_type == CAPACITY_BLOCK:
        return CAPACITY_BLOCK
    return "reserved-capacity" if options.interruptible else ON_DEMAND


def _allocation(options: LaunchOptions, *, overlaid: bool) -> dict[str, Any]:
    """
    Return the allocation strategy: EC2's own prices decide, unless a NodeOverlay changed them.

    https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-fleet-allocation-strategy.html
    """
    if options.capacity_type == SPOT:
        strategy = "capacity-optimized-prioritized" if overlaid else "price-capacity-optimized"
        return {"SpotOptions": {"AllocationStrategy": strategy}}
    if options.reservation_type == CAPACITY_BLOCK:
        return {}
    if options.interruptible:
        return {"ReservedCapacityOptions": {"ReservationTypes": ["interruptible-capacity-reservation"]}}
    return {"OnDemandOptions": {"AllocationStrategy": "prioritized" if overlaid else "lowest-price"}}


def _errors(response: ApiResponse) -> Iterator[FleetError]:
    for entry in response.get("Errors", ()):
        named = entry.get("LaunchTemplateAndOverrides", {})
        override = named.get("Overrides", {})
        yield FleetError(
            code=entry.get("ErrorCode", ""),
            message=entry.get("ErrorMessage", ""),
            instance_type=override.get("InstanceType", ""),
            zone=override.get("AvailabilityZone", ""),
            subnet=override.get("SubnetId", ""),
            template=named.get("LaunchTemplateSpecification", {}).get("LaunchTemplateName", ""),
        )


def _instances(entry: ApiResponse) -> Iterator[FleetInstance]:
    named = entry.get("LaunchTemplateAndOverrides", {})
    override = named.get("Overrides", {})
    for instance in entry.get("InstanceIds", ()):
        yield FleetInstance(
            id=instance,
            instance_type=entry.get("InstanceType") or override.get("InstanceType", ""),
            zone=override.get("AvailabilityZone", ""),
            subnet=override.get("SubnetId", ""),
            image=override.get("ImageId", ""),
            template=named.get("LaunchTemplateSpecification", {}).get("LaunchTemplateName", ""),
        )
