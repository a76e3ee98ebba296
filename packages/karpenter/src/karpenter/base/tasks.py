"""
Tasks that are meant to run for ever, and someone who watches over them.

A task that crashes is logged, with its traceback, and started again after a wait that grows while it keeps
crashing. Nothing fails in silence. A task that returns is finished; a task that is cancelled ends.

What the tasks do is not known here.
"""

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from types import TracebackType
from typing import Any, Self

import structlog

from karpenter.base.queue import Backoff

log = structlog.stdlib.get_logger(__name__)

RESTARTS = Backoff(first=1.0, cap=60.0, jitter=0.2)
"""How long a crashed task waits before it is started again."""

HEALTHY = 60.0
"""Seconds that a task must have run for its earlier crashes to be forgiven."""

Work = Callable[[], Coroutine[Any, Any, None]]


class Supervisor:
    """Runs tasks by name, and starts them again when they crash. Leaving its context ends them all."""

    def __init__(self, *, chance: Random, backoff: Backoff = RESTARTS, healthy: float = HEALTHY) -> None:
        self._chance = chance
        self._backoff = backoff
        self._healthy = healthy
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._crashes: dict[str, int] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    @property
    def running(self) -> tuple[str, ...]:
        """The names of the tasks that have not ended, in the order they were started."""
        return tuple(name for name, task in self._tasks.items() if not task.done())

    def crashes(self, name: str) -> int:
        """Return how often the task called `name` has crashed so far."""
        return self._crashes.get(name, 0)

    def start(self, name: str, work: Work) -> None:
        """Run ``work()`` as a task called `name`, and again whenever it crashes."""
        if name in self.running:
            raise ValueError(f"a task called {name} is running already")
        self._tasks[name] = asyncio.get_running_loop().create_task(self._keep_running(name, work), name=name)

    async def join(self) -> None:
        """Wait until every task has returned by itself."""
        while pending := [task for task in self._tasks.values() if not task.done()]:
            await asyncio.wait(pending)

    async def stop(self) -> None:
        """Cancel every task, newest first, and wait until all have ended."""
        for task in reversed(self._tasks.values()):
            task.cancel()
        await self.join()

    async def _keep_running(self, name: str, work: Work) -> None:
        in_a_row = 0
        loop = asyncio.get_running_loop()
        while True:
            started = loop.time()
            try:
                await work()
            except Exception:
                if loop.time() - started >= self._healthy:
                    in_a_row = 0
                in_a_row += 1
                self._crashes[name] = self.crashes(name) + 1
                wait = self._backoff.delay(in_a_row, self._chance)
                log.exception(
                    "task.crashed", task=name, crashes=self._crashes[name], restart_in=round(wait, 3)
                )
                await asyncio.sleep(wait)
            else:
                return
