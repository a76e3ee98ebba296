"""Waiting in a cluster's own time until something is so."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def until(
    look: Callable[[], Awaitable[T]], wanted: Callable[[T], object], *, within: float = 60.0
) -> T:
    """Look again and again until what is seen is wanted, and return it."""
    deadline = asyncio.get_running_loop().time() + within
    while True:
        found = await look()
        if wanted(found):
            return found
        assert asyncio.get_running_loop().time() < deadline, f"not so within {within:g} s: {found!r}"
        await asyncio.sleep(0.1)
