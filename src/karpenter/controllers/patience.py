"""
How long the cloud may take to answer, before we take it that no answer will come.

Whoever waits for ever holds up everything behind it: a claim that nobody looks at again, a decision that
nobody makes. Every call of a provider can be repeated (a launch is idempotent per claim), so giving up on an
answer is safe, whether or not what was asked for has happened.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, TypeVar

from karpenter.cloud.errors import CloudUnreachable

if TYPE_CHECKING:
    from collections.abc import Awaitable

T = TypeVar("T")

ANSWER: Final = 60.0
LAUNCH: Final = 120.0
"""Seconds for a launch, which may have to try many offerings."""


async def answer(call: Awaitable[T], *, within: float = ANSWER) -> T:
    """
    Return what a call of the cloud returns.

    Raises:
        CloudUnreachable: no answer came in time; whether the call was carried out is not known.
    """
    try:
        async with asyncio.timeout(within):
            return await call
    except TimeoutError:
        raise CloudUnreachable(f"no answer within {within:g} s") from None
