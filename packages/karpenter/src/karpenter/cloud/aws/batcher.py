"""
Sends requests that come within a moment as one call to AWS.

The first request opens a window of :class:`~karpenter.base.batcher.Batcher`. When it closes, requests with
equal group keys are sent in one call, and each request gets its own result, or an error. How a call is made
is decided by the modules that use this one: :mod:`.instance.createfleet`, :mod:`.instance.describeinstances`
and :mod:`.instance.terminateinstances`.
"""

from __future__ import annotations

import asyncio
from itertools import count
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from karpenter.base.batcher import Batcher, BatchWindow
from karpenter.cloud.aws.metrics import BATCH_SIZE, BATCH_TIME, ProviderMetrics

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Hashable, Sequence


Q = TypeVar("Q")
A = TypeVar("A")


class RequestBatcher(Generic[Q, A]):
    """Collects requests and sends them together."""

    def __init__(
        self,
        window: BatchWindow,
        send: Callable[[list[Q]], Coroutine[Any, Any, Sequence[A | BaseException]]],
        *,
        group_by: Callable[[Q], Hashable] = lambda _: None,
        at_once: int = 100,
        measure: Callable[[float, int], None] = lambda _seconds, _size: None,
    ) -> None:
        """`measure` is called with the seconds that a window was open, and the requests of a call."""
        self._send = send
        self._group_by = group_by
        self._turn = asyncio.Semaphore(at_once)
        self._measure = measure
        self._batcher: Batcher[int] = Batcher(window)
        self._numbers = count()
        self._waiting: dict[int, tuple[Q, asyncio.Future[A]]] = {}
        self._collecting = False
        self._tasks: set[asyncio.Task[None]] = set()

    async def add(self, request: Q) -> A:
        """Send a request with others of its group, and return its result."""
        result: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        number = next(self._numbers)
        self._waiting[number] = (request, result)
        self._batcher.trigger(number)
        if not self._collecting:
            self._collecting = True
            self._spawn(self._collect())
        return await result

    async def _collect(self) -> None:
        """Wait for windows to close, until no request is left."""
        loop = asyncio.get_running_loop()
        while self._waiting:
            opened = loop.time()
            batch = [self._waiting.pop(number) for number in await self._batcher.wait()]
            groups: dict[Hashable, list[tuple[Q, asyncio.Future[A]]]] = {}
            for request, result in batch:
                if not result.done():  # the caller was cancelled meanwhile
                    groups.setdefault(self._group_by(request), []).append((request, result))
            for group in list(groups.values()):
                self._measure(loop.time() - opened, len(group))
                self._spawn(self._serve(group))
        self._collecting = False

    async def _serve(self, group: list[tuple[Q, asyncio.Future[A]]]) -> None:
        try:
            async with self._turn:
                results = await self._send([request for request, _ in group])
        except Exception as error:  # noqa: BLE001  an error of the call is the result of every request
            results = [error] * len(group)
        for (_, future), result in zip(group, results, strict=True):
            if future.done():
                continue
            if isinstance(result, BaseException):
                future.set_exception(result)
            else:
                future.set_result(result)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def measured(metrics: ProviderMetrics, batcher: str) -> Callable[[float, int], None]:
    """Return a function that records how long a window was open, and how many requests were sent as one."""

    def measure(seconds: float, size: int) -> None:
        metrics.observe(BATCH_TIME, seconds, batcher=batcher)
        metrics.observe(BATCH_SIZE, float(size), batcher=batcher)

    return measure
