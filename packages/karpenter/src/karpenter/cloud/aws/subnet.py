"""
The subnets that instances can be launched into, and how many IP addresses each has left.

EC2 reports the number of free addresses with a delay. So launches in flight are subtracted here until EC2 is
asked again: :meth:`SubnetProvider.reserve` before a launch, :meth:`SubnetProvider.release` for the subnets
that CreateFleet was offered and did not use.

The filters of EC2 that selector terms become, :func:`by_tags` and :func:`where`, are here, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from karpenter.cloud.aws.cache import TTLCache

if TYPE_CHECKING:
    from karpenter.api.ec2nodeclass import SubnetSelectorTerm
    from karpenter.api.ec2nodeclass_status import Subnet
    from karpenter.cloud.aws.sdk import ApiResponse, AwsApi


ANY: Final = "*"
"""The value of a selector tag that stands for any value: https://karpenter.sh/docs/concepts/nodeclasses/"""

# https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeSubnets.html
_PAGE_SIZE: Final = 500

Filter: TypeAlias = "dict[str, Any]"


def by_tags(tags: Mapping[str, str]) -> list[Filter]:
    """Return filters for resources that have all of these tags."""
    return [
        # The filter tag-key finds a tag with any value:
        # https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/Using_Filtering.html
        where("tag-key", key) if value == ANY else where(f"tag:{key}", value)
        for key, value in sorted(tags.items())
    ]


def where(name: str, *values: str) -> Filter:
    """Return a filter: the attribute `name` has one of these values."""
    return {"Name": name, "Values": list(values)}


def key_of(terms: object) -> bytes:
    """Return the cache key of selector terms; equal for equal terms."""
    return msgspec.json.encode(terms, order="deterministic")


class FoundSubnet(msgspec.Struct, frozen=True, kw_only=True):
    """A subnet that a selector found."""

    id: str
    zone: str
    zone_id: str
    free: int
    """Free addresses, as EC2 reports them."""


class SubnetProvider:
    """Finds subnets, and counts their free addresses."""

    def __init__(self, aws: AwsApi, *, seconds: float, monotonic: Callable[[], float]) -> None:
        self._aws = aws
        self._monotonic = monotonic
        self._found: TTLCache[bytes, tuple[FoundSubnet, ...]] = TTLCache(seconds=seconds, monotonic=monotonic)
        self._free: dict[str, int] = {}
        self._described: dict[str, float] = {}
        self._in_flight: dict[str, int] = {}
        self.zone_ids: dict[str, str] = {}
        """The zones of all subnets that were found, name to id."""

    async def find(self, terms: tuple[SubnetSelectorTerm, ...]) -> tuple[FoundSubnet, ...]:
        """Return the subnets that any term selects, the one with the most free addresses first."""
        return await self._found.get(key_of(terms), lambda: self._describe(terms))

    def free(self, subnet: str) -> int:
        """Return how many addresses a subnet has left, launches in flight subtracted."""
        return self._free.get(subnet, 0) - self._in_flight.get(subnet, 0)

    def choose(self, subnets: Iterable[Subnet]) -> dict[str, Subnet]:
        """Return the subnet of each zone that has the most addresses left."""
        chosen: dict[str, Subnet] = {}
        for each in subnets:
            held = chosen.get(each.zone)
            # EC2 refuses a fleet that has the same instance type twice in a zone, so a zone has one subnet.
            if held is None or self.free(each.id) > self.free(held.id):
                chosen[each.zone] = each
        return chosen

    def reserve(self, addresses: Mapping[str, int]) -> ReservedAddresses:
        """Count addresses of subnets as used from now on."""
        for subnet, count in addresses.items():
            self._in_flight[subnet] = self._in_flight.get(subnet, 0) + count
        return ReservedAddresses(addresses=dict(addresses), at=self._monotonic())

    def release(self, reserved: ReservedAddresses, *, used: Iterable[str] = ()) -> None:
        """Count addresses as free again, except for those of subnets that were used."""
        kept = set(used)
        for subnet, count in reserved.addresses.items():
            # If EC2 was asked since the launch, its count includes the addresses already.
            if subnet not in kept and self._described.get(subnet, 0.0) <= reserved.at:
                self._in_flight[subnet] = max(0, self._in_flight.get(subnet, 0) - count)

    def exhausted(self, subnet: str) -> None:
        """Note that a subnet turned out to have no address left."""
        self._free[subnet] = 0
        self._in_flight.pop(subnet, None)

    async def _describe(self, terms: tuple[SubnetSelectorTerm, ...]) -> tuple[FoundSubnet, ...]:
        found: dict[str, FoundSubnet] = {}
        for filters in _queries(terms):
            for each in await self._aws.list_all(
                "ec2", "DescribeSubnets", "Subnets", Filters=filters, MaxResults=_PAGE_SIZE
            ):
                found[each["SubnetId"]] = _subnet(each)
        now = self._monotonic()
        for subnet in found.values():
            self.zone_ids[subnet.zone] = subnet.zone_id
            self._free[subnet.id] = subnet.free
            self._described[subnet.id] = now
            self._in_flight.pop(subnet.id, None)
        return tuple(sorted(found.values(), key=lambda each: (-each.free, each.id)))


class ReservedAddresses(msgspec.Struct, frozen=True, kw_only=True):
    """Addresses that a launch counts as used, and since when."""

    addresses: Mapping[str, int]
    at: float


def _queries(terms: Iterable[SubnetSelectorTerm]) -> Iterator[list[Filter]]:
    # All ids go into one filter, so that many terms cost one call.
    ids = sorted({term.id for term in terms if term.id})
    if ids:
        yield [where("subnet-id", *ids)]
    for term in terms:
        if not term.id:
            yield by_tags(term.tags)


def _subnet(response: ApiResponse) -> FoundSubnet:
    return FoundSubnet(
        id=response["SubnetId"],
        zone=response["AvailabilityZone"],
        zone_id=response.get("AvailabilityZoneId", ""),
        # https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_Subnet.html
        free=response.get("AvailableIpAddressCount", 0),
    )
