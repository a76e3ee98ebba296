"""
Which subnets machines can be launched into, and how many addresses each has left.

EC2 tells the number of free addresses, but late. So launches that are under way are subtracted here until
EC2 is asked again: :meth:`Subnets.take` on the way out, :meth:`Subnets.give_back` for subnets that a fleet
was offered and did not use.

Selector terms as the filters of EC2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from karpenter.cloud.aws.cache import TTLCache

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from karpenter.api.ec2nodeclass import SubnetSelectorTerm
    from karpenter.api.ec2nodeclass_status import Subnet
    from karpenter.cloud.aws.sdk import ApiResponse, AwsApi


ANY: Final = "*"

Filter: TypeAlias = "dict[str, Any]"


def by_tags(tags: Mapping[str, str]) -> list[Filter]:
    """Return filters that let through what has all of these tags."""
    return [
        where("tag-key", key) if value == ANY else where(f"tag:{key}", value)
        for key, value in sorted(tags.items())
    ]


def where(name: str, *values: str) -> Filter:
    """Return one filter: one of these values."""
    return {"Name": name, "Values": list(values)}


def key_of(terms: object) -> bytes:
    """Return what terms are remembered by; the same for the same terms."""
    return msgspec.json.encode(terms, order="deterministic")


_PAGE: Final = 500


class FoundSubnet(msgspec.Struct, frozen=True, kw_only=True):
    """A subnet that was found."""

    id: str
    zone: str
    zone_id: str
    free: int
    """Addresses that are left, as EC2 tells."""


class SubnetProvider:
    """Finds subnets, and counts their addresses."""

    def __init__(self, aws: AwsApi, *, seconds: float, monotonic: Callable[[], float]) -> None:
        self._aws = aws
        self._monotonic = monotonic
        self._found: TTLCache[bytes, tuple[FoundSubnet, ...]] = TTLCache(seconds=seconds, monotonic=monotonic)
        self._free: dict[str, int] = {}
        self._looked: dict[str, float] = {}
        self._under_way: dict[str, int] = {}
        self.zone_ids: dict[str, str] = {}
        """The zones of all subnets that were found, name to id."""

    async def find(self, terms: tuple[SubnetSelectorTerm, ...]) -> tuple[FoundSubnet, ...]:
        """Return the subnets that any term selects, the one with the most free addresses first."""
        return await self._found.get(key_of(terms), lambda: self._look(terms))

    def free(self, subnet: str) -> int:
        """Return how many addresses a subnet has left, launches under way subtracted."""
        return self._free.get(subnet, 0) - self._under_way.get(subnet, 0)

    def choose(self, subnets: Iterable[Subnet]) -> dict[str, Subnet]:
        """Return the subnet of each zone that has the most addresses left."""
        chosen: dict[str, Subnet] = {}
        for each in subnets:
            held = chosen.get(each.zone)
            if held is None or self.free(each.id) > self.free(held.id):
                chosen[each.zone] = each
        return chosen

    def take(self, addresses: Mapping[str, int]) -> ReservedAddresses:
        """Count addresses as used from now on, by subnet."""
        for subnet, count in addresses.items():
            self._under_way[subnet] = self._under_way.get(subnet, 0) + count
        return ReservedAddresses(addresses=dict(addresses), at=self._monotonic())

    def give_back(self, taken: ReservedAddresses, *, used: Iterable[str] = ()) -> None:
        """Count addresses as free again, but for those of subnets that were used."""
        kept = set(used)
        for subnet, count in taken.addresses.items():
            if subnet not in kept and self._looked.get(subnet, 0.0) <= taken.at:
                self._under_way[subnet] = max(0, self._under_way.get(subnet, 0) - count)

    def exhausted(self, subnet: str) -> None:
        """Note that a subnet turned out to have no address left."""
        self._free[subnet] = 0
        self._under_way.pop(subnet, None)

    async def _look(self, terms: tuple[SubnetSelectorTerm, ...]) -> tuple[FoundSubnet, ...]:
        found: dict[str, FoundSubnet] = {}
        for filters in _queries(terms):
            for each in await self._aws.every(
                "ec2", "DescribeSubnets", "SubnetProvider", Filters=filters, MaxResults=_PAGE
            ):
                found[each["SubnetId"]] = _subnet(each)
        now = self._monotonic()
        for subnet in found.values():
            self.zone_ids[subnet.zone] = subnet.zone_id
            self._free[subnet.id] = subnet.free
            self._looked[subnet.id] = now
            self._under_way.pop(subnet.id, None)
        return tuple(sorted(found.values(), key=lambda each: (-each.free, each.id)))


class ReservedAddresses(msgspec.Struct, frozen=True, kw_only=True):
    """Addresses that a launch has counted as used, and when."""

    addresses: Mapping[str, int]
    at: float


def _queries(terms: Iterable[SubnetSelectorTerm]) -> Iterator[list[Filter]]:
    ids = sorted({term.id for term in terms if term.id})
    if ids:
        yield [where("subnet-id", *ids)]
    for term in terms:
        if not term.id:
            yield by_tags(term.tags)


def _subnet(told: ApiResponse) -> FoundSubnet:
    return FoundSubnet(
        id=told["SubnetId"],
        zone=told["AvailabilityZone"],
        zone_id=told.get("AvailabilityZoneId", ""),
        free=told.get("AvailableIpAddressCount", 0),
    )
