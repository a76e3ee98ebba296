"""
How a controller runs: keys come in, are worked on side by side, and come back later when they failed.

A controller says what to do about one key. Everything else (never twice at a time on one key, never too many
at a time, waiting longer after each failure, never failing in silence, never ending) is done here, once. What
nobody works on costs nothing: a controller may be allowed a thousand keys at a time and is one task at rest.

What is not a fault but an answer: not yet, ask again, more and more slowly.

How long the cloud may take to answer, before we take it that no answer will come.

Whoever waits for ever holds up everything behind it: a claim that nobody looks at again, a decision that
nobody makes. Every call of a provider can be repeated (a launch is idempotent per claim), so giving up on an
answer is safe, whether or not what was asked for has happened.

Where long computations run: beside the event loop, or in it.

In production a decision may take seconds and runs in a thread, so that watches, leases and probes go on. In a
simulation it runs at once: there, time must not pass while somebody thinks.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeVar, runtime_checkable

import structlog

from karpenter.base.queue import Backoff, WorkQueue
from karpenter.cloud.errors import CloudError, CloudUnreachable, Throttled
from karpenter.controllers.metrics.runtime import (
    ERROR,
    REQUEUE,
    REQUEUE_AFTER,
    SUCCESS,
    ReconcileMetrics,
    ReconcileResult,
)
from karpenter.kube.errors import Conflict, KubeError, NotFound
from karpenter.replay.replay import watched

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from karpenter.base.clock import Clock
    from karpenter.base.queue import Supervisor
    from karpenter.base.ratelimiting import TokenBucket
    from karpenter.replay.recorder import FlightRecorder
    from karpenter.telemetry.metrics import Metrics


class Requeue(Exception):  # noqa: N818  an answer, not a fault
    """Something cannot be done now and is to be tried again."""


log = structlog.stdlib.get_logger(__name__)

RETRIES = Backoff(first=0.1, cap=60.0)


class Reconciler(Protocol):
    """Something that puts one object right at a time."""

    name: str

    async def reconcile(self, key: str) -> float | None:
        """Look at one key and do what is due; return after how many seconds to look again, if at all."""
        ...


class SingletonReconciler(Protocol):
    """Something that goes over everything once in a while."""

    name: str

    async def look(self) -> float:
        """Go over everything once; return after how many seconds to do so again."""
        ...


@runtime_checkable
class WaitsForWork(Protocol):
    """A round that has nothing to go over at times, and then sleeps until it has."""

    async def doze(self) -> None:
        """Wait until there is something to go over."""
        ...


class Loop:
    """Runs one reconciler."""

    def __init__(
        self,
        reconciler: Reconciler,
        *,
        workers: int = 10,
        backoff: Backoff = RETRIES,
        bucket: TokenBucket | None = None,
        queue: WorkQueue[str] | None = None,
    ) -> None:
        self._reconciler = reconciler
        self._workers = workers
        self._gauger: ReconcileMetrics | None = None
        # An empty queue is false, as every empty collection is.
        self.queue = queue if queue is not None else WorkQueue[str](backoff=backoff, bucket=bucket)

    def measure(self, metrics: Metrics, clock: Clock) -> None:
        """Keep count of what is done from now on."""
        self._gauger = ReconcileMetrics(metrics, self._reconciler.name, clock.monotonic, self._workers)
        self._gauger.watch(self.queue)

    def start(self, supervisor: Supervisor) -> None:
        """Begin to work off the queue."""
        supervisor.start(self._reconciler.name, self._run)

    async def _run(self) -> None:
        free = asyncio.Semaphore(self._workers)
        under_way: dict[asyncio.Task[None], None] = {}  # in order, so that they also end in order

        def finish(key: str, task: asyncio.Task[None]) -> None:
            under_way.pop(task, None)
            self.queue.done(key)
            free.release()

        try:
            while True:
                await free.acquire()
                key = await self.queue.get()
                task = asyncio.get_running_loop().create_task(
                    self._step(key), name=f"{self._reconciler.name}/{key}"
                )
                under_way[task] = None
                task.add_done_callback(partial(finish, key))
        finally:
            for task in under_way:
                task.cancel()
            if under_way:
                await asyncio.wait(under_way)

    async def _step(self, key: str) -> None:
        if self._gauger is None:
            await self._handle(key, ReconcileResult())
            return
        with self._gauger.step() as ending:
            ending.result = await self._handle(key, ending)

    async def _handle(self, key: str, ending: ReconcileResult) -> str:
        """Do what is due for one key, and return how that ended; errors of ours and lateness are noted."""
        facts = {"controller": self._reconciler.name, "key": key}
        try:
            again = await self._reconciler.reconcile(key)
        except (Conflict, NotFound) as error:
            # Somebody else wrote first, or it is gone: the next look sees the newer state.
            log.debug("object.changed_meanwhile", **facts, error=str(error))
            self.queue.retry(key)
            return REQUEUE
        except Throttled as error:
            log.warning("object.postponed", **facts, error=str(error))
            self.queue.add_after(key, error.retry_after)
            return REQUEUE_AFTER
        except Requeue as error:
            log.debug("object.postponed", **facts, error=str(error))
            self.queue.retry(key)
            return REQUEUE
        except (KubeError, CloudError) as error:
            log.warning("object.not_reconciled", **facts, error=str(error))
            ending.timed_out = isinstance(error, AnswerTimeout)
            self.queue.retry(key)
        except Exception:
            log.exception("reconciler.crashed", **facts)
            ending.crashed = True
            self.queue.retry(key)
        else:
            self.queue.forget(key)
            if again is None:
                return SUCCESS
            self.queue.add_after(key, again)
            return REQUEUE_AFTER
        return ERROR


def start_singleton(
    each: SingletonReconciler,
    supervisor: Supervisor,
    clock: Clock,
    *,
    metrics: Metrics,
    after_failure: float = 5.0,
) -> None:
    """Begin to run something that goes over everything once in a while."""
    gauger = ReconcileMetrics(metrics, each.name, clock.monotonic, workers=1)
    doze = each.doze if isinstance(each, WaitsForWork) else None

    async def rounds() -> None:
        while True:
            with gauger.step() as ending:
                try:
                    wait = await each.look()
                    ending.result = REQUEUE_AFTER
                except (KubeError, CloudError) as error:
                    log.warning("round.failed", controller=each.name, error=str(error))
                    ending.timed_out = isinstance(error, AnswerTimeout)
                    wait = after_failure
            if doze is not None:
                await doze()
            await clock.sleep(wait)

    supervisor.start(each.name, rounds)


T = TypeVar("T")


class AnswerTimeout(CloudUnreachable):
    """The cloud did not answer in time."""


CLOUD_TIMEOUT: Final = 60.0
LAUNCH_CALL_TIMEOUT: Final = 120.0
"""Seconds for a launch, which may have to try many offerings."""


async def call_cloud(call: Awaitable[T], *, within: float = CLOUD_TIMEOUT) -> T:
    """
    Return what a call of the cloud returns.

    Raises:
        AnswerTimeout: no answer came in time; whether the call was carried out is not known.
    """
    try:
        async with asyncio.timeout(within):
            return await call
    except TimeoutError:
        raise AnswerTimeout(f"no answer within {within:g} s") from None


class Executor(Protocol):
    """Somebody who computes."""

    async def run(self, compute: Callable[[], T]) -> T:
        """Return what `compute` returns."""
        ...


class ThreadExecutor:
    """Computes in a thread."""

    async def run(self, compute: Callable[[], T]) -> T:
        """Compute while the event loop goes on."""
        return await asyncio.to_thread(compute)


class InlineExecutor:
    """Computes at once."""

    async def run(self, compute: Callable[[], T]) -> T:
        """Compute while everybody waits."""
        return compute()


class RecordingExecutor:
    """Lets another compute, and has every decision written down."""

    def __init__(self, inner: Executor, flight: FlightRecorder) -> None:
        self._inner = inner
        self._flight = flight

    async def run(self, compute: Callable[[], T]) -> T:
        """Compute, and write down what was asked and what came out."""
        number = self._flight.asked(compute) if isinstance(compute, partial) else 0
        if not number:
            return await self._inner.run(compute)
        cut: list[bool] = []
        assert isinstance(compute, partial)
        try:
            result: T = await self._inner.run(watched(compute, lambda: cut.append(True)))
        except BaseException:
            self._flight.failed(number)
            raise
        self._flight.answered(number, result, cut=bool(cut))
        return result
