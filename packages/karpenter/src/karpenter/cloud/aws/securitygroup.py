"""The security groups that instances are in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karpenter.api.ec2nodeclass_status import SecurityGroup
from karpenter.cloud.aws.cache import TTLCache
from karpenter.cloud.aws.subnet import Filter, by_tags, key_of, where

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from karpenter.api.ec2nodeclass import SecurityGroupSelectorTerm
    from karpenter.cloud.aws.sdk import AwsApi

_CACHED_SECONDS: Final = 60.0
# At most 1,000: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeSecurityGroups.html
_PAGE_SIZE: Final = 500


class SecurityGroupProvider:
    """Finds security groups."""

    def __init__(self, aws: AwsApi, *, monotonic: Callable[[], float]) -> None:
        self._aws = aws
        self._found: TTLCache[bytes, tuple[SecurityGroup, ...]] = TTLCache(
            seconds=_CACHED_SECONDS, monotonic=monotonic
        )

    async def find(self, terms: tuple[SecurityGroupSelectorTerm, ...]) -> tuple[SecurityGroup, ...]:
        """Return the security groups that any term selects, sorted by id."""
        return await self._found.get(key_of(terms), lambda: self._describe(terms))

    async def _describe(self, terms: tuple[SecurityGroupSelectorTerm, ...]) -> tuple[SecurityGroup, ...]:
        found: dict[str, SecurityGroup] = {}
        for filters in _queries(terms):
            for each in await self._aws.list_all(
                "ec2", "DescribeSecurityGroups", "SecurityGroups", Filters=filters, MaxResults=_PAGE_SIZE
            ):
                found[each["GroupId"]] = SecurityGroup(id=each["GroupId"], name=each.get("GroupName", ""))
        return tuple(found[key] for key in sorted(found))


def _queries(terms: Iterable[SecurityGroupSelectorTerm]) -> Iterator[list[Filter]]:
    ids = sorted({term.id for term in terms if term.id})
    if ids:
        yield [where("group-id", *ids)]
    for term in terms:
        if not term.id:
            named = [where("group-name", term.name)] if term.name else []
            yield [*named, *by_tags(term.tags)]
