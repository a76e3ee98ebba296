"""
Calls of the cloud provider, with a limit of how long they may take.

A call that never returns would block its key forever. Every call can be repeated (a launch is idempotent per
NodeClaim), so a timeout is safe whether or not the call was carried out.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, TypeVar

from karpenter.cloud.errors import CloudUnreachable

if TYPE_CHECKING:
    from collections.abc import Awaitable


T = TypeVar("T")

CLOUD_TIMEOUT: Final = 60.0
"""Seconds for a call of the cloud provider."""

LAUNCH_CALL_TIMEOUT: Final = 120.0
"""Seconds for a launch, which may have to try many offerings."""


async def call_cloud(call: Awaitable[T], *, within: float = CLOUD_TIMEOUT) -> T:
    """
    Return the result of a call of the cloud provider.

    Raises:
        CloudTimeout: the call timed out; it may have been carried out.
    """
    try:
        async with asyncio.timeout(within):
            return await call
    except TimeoutError:
        raise CloudTimeout(f"no answer within {within:g} s") from None


class CloudTimeout(CloudUnreachable):
    """A call of the cloud provider timed out."""
