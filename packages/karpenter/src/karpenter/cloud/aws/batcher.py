"""
Putting calls together: many who ask for the same thing within a moment are served by one call.

The first question opens a window. It closes when no question has come for a while, when it has been open for
long enough, or when it is full. Questions that are alike are then sent together; everyone gets an answer of
their own, or an error.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Hashable, Sequence
    from typing import Any

Q = TypeVar("Q")
A = TypeVar("A")


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """When a window closes."""

    idle: float
    """Seconds without a question."""

    longest: float = 1.0
    """Seconds in any case."""

    most: int
    """Questions."""


class RequestBatcher(Generic[Q, A]):
    """Collects questions and sends them together."""

    def __init__(
        self,
        window: Window,
        send: Callable[[list[Q]], Coroutine[Any, Any, Sequence[A | BaseException]]],
        *,
        alike: Callable[[Q], Hashable] = lambda _: None,
        at_once: int = 100,
        measure: Callable[[float, int], None] = lambda _seconds, _size: None,
    ) -> None:
        """`measure` is told how long a window was open, and how many questions each call was for."""
        self._window = window
        self._send = send
        self._alike = alike
        self._turn = asyncio.Semaphore(at_once)
        self._measure = measure
        self._opened = 0.0
        self._waiting: list[tuple[Q, asyncio.Future[A]]] = []
        self._closes = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def ask(self, question: Q) -> A:
        """Send a question with others that are like it, and return its answer."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[A] = loop.create_future()
        if not self._waiting:
            self._opened = loop.time()
            self._closes = self._opened + self._window.longest
        self._waiting.append((question, answer))
        if self._timer is not None:
            self._timer.cancel()
        if len(self._waiting) >= self._window.most:
            self._close()
        else:
            self._timer = loop.call_at(min(loop.time() + self._window.idle, self._closes), self._close)
        return await answer

    def _close(self) -> None:
        self._timer = None
        waiting, self._waiting = self._waiting, []
        buckets: dict[Hashable, list[tuple[Q, asyncio.Future[A]]]] = {}
        for each in waiting:
            if not each[1].done():  # whoever asked may have given up
                buckets.setdefault(self._alike(each[0]), []).append(each)
        for bucket in buckets.values():
            self._measure(asyncio.get_running_loop().time() - self._opened, len(bucket))
            task = asyncio.get_running_loop().create_task(self._serve(bucket))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _serve(self, bucket: list[tuple[Q, asyncio.Future[A]]]) -> None:
        try:
            async with self._turn:
                answers = await self._send([question for question, _ in bucket])
        except Exception as error:  # noqa: BLE001  whatever it is, it is everyone's
            answers = [error] * len(bucket)
        for (_, future), answer in zip(bucket, answers, strict=True):
            if future.done():
                continue
            if isinstance(answer, BaseException):
                future.set_exception(answer)
            else:
                future.set_result(answer)
