"""
Controllers: reconcilers with a work queue, retries and metrics.

A :class:`Reconciler` reconciles one key. :class:`Controller` does the rest: one reconcile per key at a
time, at most `workers` reconciles at once, a longer wait after each failure, a log line for every error. An
idle controller is one task, however many workers it may have. A :class:`SingletonReconciler` reconciles
everything at once, periodically.

Calls of the cloud provider are limited in :mod:`.cloudcalls`; its controllers run in :mod:`.provider`.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

import structlog

from karpenter.base.queue import Backoff, Supervisor, WorkQueue
from karpenter.base.ratelimiting import LeaseNotHeld, TokenBucket
from karpenter.cloud.errors import CloudError, Throttled
from karpenter.controllers.cloudcalls import CloudTimeout
from karpenter.controllers.metrics.reconcile import (
    ERROR,
    REQUEUE,
    REQUEUE_AFTER,
    SUCCESS,
    ReconcileMetrics,
    ReconcileResult,
)
from karpenter.kube.errors import Conflict, KubeError, NotFound

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karpenter.api.meta import Resource
    from karpenter.base.clock import Clock
    from karpenter.core.state.cluster import NodeClass, StateEvent
    from karpenter.telemetry.metrics import Metrics


log = structlog.stdlib.get_logger(__name__)

# Workqueues of controller-runtime wait from 5 ms up to 1,000 s. After an outage of the API server that would
# be a quarter of an hour, so the cap is lower here.
# https://pkg.go.dev/k8s.io/client-go/util/workqueue#DefaultTypedControllerRateLimiter
RETRIES: Final = Backoff(first=0.1, cap=60.0)


class Controller:
    """Runs one reconciler on a work queue."""

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
        self._reconcile_metrics: ReconcileMetrics | None = None
        # `queue or ...` would replace a queue that is empty, because an empty collection is false.
        self.queue = queue if queue is not None else WorkQueue[str](backoff=backoff, bucket=bucket)

    def measure(self, metrics: Metrics, clock: Clock) -> None:
        """Record metrics of every reconcile from now on."""
        self._reconcile_metrics = ReconcileMetrics(
            metrics, self._reconciler.name, clock.monotonic, self._workers
        )
        self._reconcile_metrics.watch(self.queue)

    def start(self, supervisor: Supervisor) -> None:
        """Start reconciling the keys of the queue."""
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
        if self._reconcile_metrics is None:
            await self._handle(key, ReconcileResult())
            return
        with self._reconcile_metrics.step() as outcome:
            outcome.result = await self._handle(key, outcome)

    async def _handle(self, key: str, outcome: ReconcileResult) -> str:
        """Reconcile one key, and return the result as metrics name it; crashes and timeouts are noted."""
        facts = {"controller": self._reconciler.name, "key": key}
        try:
            again = await self._reconciler.reconcile(key)
        except (Conflict, NotFound) as error:
            # Optimistic concurrency: the object was written by another client, or is gone. The next reconcile
            # reads the newer state.
            # https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions
            log.debug("object.conflicted", **facts, error=str(error))
            self.queue.retry(key)
            return REQUEUE
        # The cloud has said how long to wait; the backoff of the key does not grow.
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
            outcome.timed_out = isinstance(error, CloudTimeout)
            self.queue.retry(key)
        except LeaseNotHeld as error:
            log.warning("object.not_reconciled", **facts, error=str(error))  # the next leader reconciles it
        except Exception:
            log.exception("reconciler.crashed", **facts)
            outcome.crashed = True
            self.queue.retry(key)
        else:
            self.queue.forget(key)
            if again is None:
                return SUCCESS
            self.queue.add_after(key, again)
            return REQUEUE_AFTER
        return ERROR


class Reconciler(Protocol):
    """Reconciles one object at a time."""

    name: str

    async def reconcile(self, key: str) -> float | None:
        """Reconcile one key; return after how many seconds to requeue it, None for not at all."""
        ...


class ObjectReconciler(Reconciler, Protocol):
    """Reconciles objects when something happens to them."""

    @property
    def kinds(self) -> tuple[type[Resource | NodeClass], ...]:
        """The kinds of objects whose events wake it; docs/internals/controllers.md says why no others do."""
        ...

    def wakes(self, event: StateEvent, before: Resource | NodeClass | None) -> Iterable[str]:
        """Return the keys to reconcile after an event."""
        ...


class Requeue(Exception):  # noqa: N818  a result, not an error
    """Something cannot be done now; the key is requeued with backoff."""


def start_singleton(
    each: SingletonReconciler,
    supervisor: Supervisor,
    clock: Clock,
    *,
    metrics: Metrics,
    after_failure: float = 5.0,
) -> None:
    reconcile_metrics = ReconcileMetrics(metrics, each.name, clock.monotonic, workers=1)
    wait_for_work = each.wait_for_work if isinstance(each, WaitsForWork) else None

    async def run() -> None:
        while True:
            with reconcile_metrics.step() as outcome:
                try:
                    wait = await each.look()
                    outcome.result = REQUEUE_AFTER
                except (KubeError, CloudError) as error:
                    log.warning("singleton.failed", controller=each.name, error=str(error))
                    outcome.timed_out = isinstance(error, CloudTimeout)
                    wait = after_failure
            if wait_for_work is not None:
                await wait_for_work()
            await clock.sleep(wait)

    supervisor.start(each.name, run)


class SingletonReconciler(Protocol):
    """Reconciles everything at once, periodically."""

    name: str

    async def look(self) -> float:
        """Reconcile once; return after how many seconds to do so again."""
        ...


@runtime_checkable
class WaitsForWork(Protocol):
    """A singleton that has no work at times."""

    async def wait_for_work(self) -> None: ...
