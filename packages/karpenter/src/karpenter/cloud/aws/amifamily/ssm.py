"""
SSM parameters that have the ids of AMIs, cached for as long as they are likely to stay the same.

A parameter of a version never changes; that of the newest AMI does, and is checked by
:class:`~karpenter.cloud.aws.refresh.SSMInvalidationController`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.cloud.aws.cache import TTLCache

if TYPE_CHECKING:
    from collections.abc import Callable

    from karpenter.cloud.aws.sdk import AwsApi

# AWS publishes new AMIs about once a week; parameters of users may change at any time.
_PUBLISHED_SECONDS: Final = 24 * 3600.0
# The default throughput of Parameter Store is 40 calls per second for the whole account:
# https://docs.aws.amazon.com/general/latest/gr/ssm.html
_OWN_SECONDS: Final = 5 * 60.0


class Parameter(msgspec.Struct, frozen=True):
    """A parameter that was read, and whether its value may change."""

    name: str
    value: str
    mutable: bool


class SSMProvider:
    """Reads SSM parameters."""

    def __init__(self, aws: AwsApi, *, monotonic: Callable[[], float]) -> None:
        self._aws = aws
        self._published: TTLCache[str, Parameter] = TTLCache(seconds=_PUBLISHED_SECONDS, monotonic=monotonic)
        self._own: TTLCache[str, Parameter] = TTLCache(seconds=_OWN_SECONDS, monotonic=monotonic)

    async def published(self, name: str, *, mutable: bool) -> str:
        """
        Return the value of a parameter that AWS publishes; cached for a day.

        Raises:
            ResourceNotFound: there is no such parameter.
        """
        return (await self._published.get(name, lambda: self._read(name, mutable=mutable))).value

    async def own(self, name: str) -> str:
        """
        Return the value of a parameter of the user; cached for five minutes.

        Raises:
            ResourceNotFound: there is no such parameter.
        """
        return (await self._own.get(name, lambda: self._read(name, mutable=True))).value

    def mutable(self) -> tuple[Parameter, ...]:
        """Return the cached parameters of AWS whose value may have changed."""
        return tuple(each for _, each in self._published.items() if each.mutable)

    def forget(self, name: str) -> None:
        self._published.forget(name)

    async def _read(self, name: str, *, mutable: bool) -> Parameter:
        answer = await self._aws.call("ssm", "GetParameter", Name=name)
        return Parameter(name, answer["Parameter"]["Value"], mutable)
