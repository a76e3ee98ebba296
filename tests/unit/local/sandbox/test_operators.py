"""The transport of an operator that may be severed in the middle of a call."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING, Any

from karpenter_local.sandbox.operators import never

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


async def test_a_wait_without_end_is_not_collected() -> None:
    """The task of an operator that is cut off stays, and its generators are closed when it is cancelled."""
    problems: list[dict[str, Any]] = []
    closed: list[bool] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _loop, problem: problems.append(problem))

    async def lines() -> AsyncGenerator[bytes, None]:
        try:
            yield b"first"
            await never()
        finally:
            closed.append(True)

    async def follow() -> None:
        async for _ in lines():
            pass

    loop.create_task(follow(), name="cut off")  # noqa: RUF006  the loop alone knows of it
    await asyncio.sleep(0)
    gc.collect()
    await asyncio.sleep(0)
    assert (problems, closed) == ([], [])

    (task,) = [each for each in asyncio.all_tasks() if each.get_name() == "cut off"]
    task.cancel()
    await asyncio.wait([task])
    assert (problems, closed) == ([], [True])
