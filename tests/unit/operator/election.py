"""Waiting for a replica of the operator to lead, without waiting for one that has failed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from karpenter.operator.run import OperatorProcess


async def leading(process: OperatorProcess) -> asyncio.Task[None]:
    """Start a replica and return its task once it leads; what keeps it from that is raised."""
    task = asyncio.create_task(process.run())
    await until_it_leads(process, task)
    return task


async def until_it_leads(process: OperatorProcess, task: asyncio.Task[None]) -> None:
    """Wait until a replica leads, or raise what has ended it."""
    leads = asyncio.create_task(process.leads.wait())
    await asyncio.wait([task, leads], return_when=asyncio.FIRST_COMPLETED)
    leads.cancel()
    if task.done():
        task.result()
