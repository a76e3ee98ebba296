"""
Controllers: reconcilers with a work queue, retries, metrics and timeouts.

A :class:`Reconciler` reconciles one key. :class:`Controller` does the rest: one reconcile per key at a
time, at most `workers` reconciles at once, a longer wait after each failure, a log line for every error. An
idle controller is one task, however many workers it may have. A :class:`SingletonReconciler` reconciles
everything at once, periodically.

:func:`call_cloud` limits how long a call of the cloud provider may take, because a call that never returns
would block its key forever. Every call can be repeated (a launch is idempotent per NodeClaim), so a timeout
is safe whether or not the call was carried out.

An :class:`APIReader` reads from the API server and not from the cluster state: what cannot be undone is
decided again with what it returns, because an informer may be behind, or may have been told of an older
history by a server that was restored from a backup.

An :class:`Executor` runs decisions, which may take seconds: in a thread in production, so that watches,
leases and probes continue, and inline in a simulation, where time must not pass meanwhile.

Here are also the metrics of the operator itself: reconciles, work queues, requests to the API server, and
the cluster state.

Names and labels of the reconcile and workqueue metrics are those of controller-runtime:
https://book.kubebuilder.io/reference/metrics-reference.

:class:`ProviderReconciler` and :class:`ProviderSingleton` run the controllers of the cloud provider, which
decide what is due; the effects that they return are performed here. :class:`PoolCatalogs` asks the provider
for the instance types of NodePools.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeVar, runtime_checkable

import structlog

from karpenter.base.queue import Backoff, Supervisor, WorkQueue
from karpenter.base.ratelimiting import LeaseNotHeld, TokenBucket
from karpenter.cloud.errors import CloudError, CloudUnreachable, NodeClassNotReady, Throttled
from karpenter.core.model.catalog import EMPTY, Catalog, combine
from karpenter.core.model.pricing import with_interruption_rates
from karpenter.core.state.statenode import state_nodes
from karpenter.kube.errors import Conflict, KubeError, NotFound
from karpenter.replay.replay import watched
from karpenter.telemetry.metrics import Metrics, runtime
from karpenter.telemetry.metrics import scheduler as declared

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping

    from karpenter.api.meta import Resource
    from karpenter.api.nodepool import NodePool
    from karpenter.base.clock import Clock
    from karpenter.cloud.cloudprovider import CloudProvider, ObjectController, SingletonController
    from karpenter.controllers.perform import Performer
    from karpenter.controllers.provisioner import Search
    from karpenter.core.state.cluster import ClusterState, NodeClass, StateEvent
    from karpenter.kube.rest import Page, Request, Selection
    from karpenter.replay.recorder import FlightRecorder

log = structlog.stdlib.get_logger(__name__)

# The results that controller_runtime_reconcile_total is labelled with:
# https://book.kubebuilder.io/reference/metrics-reference
SUCCESS: Final = "success"
REQUEUE: Final = "requeue"
REQUEUE_AFTER: Final = "requeue_after"
ERROR: Final = "error"

_SHORTEST: Final = 2
"""How many parts a path has at least behind its group: a version and a kind."""


class ReconcileResult:
    """The result of one reconcile, set by the controller."""

    def __init__(self) -> None:
        self.result = ERROR
        self.crashed = False
        """Whether the reconciler raised an exception that it does not expect."""

        self.timed_out = False
        """Whether a call of the cloud provider timed out."""


class ReconcileMetrics:
    """Records the reconciles and the queue of one controller."""

    def __init__(
        self, metrics: Metrics, controller: str, monotonic: Callable[[], float], workers: int
    ) -> None:
        self._metrics = metrics
        self._controller = controller
        self._monotonic = monotonic
        self._names = {"controller": controller, "name": controller}
        self._in_progress: dict[object, float] = {}
        self._queue: WorkQueue[str] | None = None
        self._active = metrics[runtime.ACTIVE_WORKERS]
        self._steps = metrics[runtime.RECONCILES]
        self._times = metrics[runtime.RECONCILE_TIME]
        self._works = metrics[runtime.WORKQUEUE_WORK_DURATION]
        metrics[runtime.MAX_CONCURRENT_RECONCILES].set(float(workers), controller=controller)
        self._active.set(0.0, controller=controller)
        for each in (
            runtime.RECONCILE_ERRORS,
            runtime.TERMINAL_RECONCILE_ERRORS,
            runtime.RECONCILE_PANICS,
            runtime.RECONCILE_TIMEOUTS,
        ):
            metrics[each].add(0.0, controller=controller)  # so that a rate can be taken from the first one on

    def watch(self, queue: WorkQueue[str]) -> None:
        queue.metrics = self
        self._queue = queue
        self._metrics.before_reading(self._refresh)

    @contextmanager
    def step(self) -> Iterator[ReconcileResult]:
        """Record one reconcile, and bind the controller's name to log lines and calls within it."""
        controller, outcome, began = self._controller, ReconcileResult(), self._monotonic()
        self._in_progress[outcome] = began
        self._active.add(1.0, controller=controller)
        tokens = structlog.contextvars.bind_contextvars(controller=controller)
        try:
            yield outcome
        except Exception:
            outcome.crashed = True
            raise
        finally:
            structlog.contextvars.reset_contextvars(**tokens)
            del self._in_progress[outcome]
            took = self._monotonic() - began
            self._active.add(-1.0, controller=controller)
            self._steps.add(controller=controller, result=outcome.result)
            self._times.observe(took, controller=controller)
            if outcome.result == ERROR:
                self._metrics[runtime.RECONCILE_ERRORS].add(controller=controller)
            if outcome.crashed:
                self._metrics[runtime.RECONCILE_PANICS].add(controller=controller)
            if outcome.timed_out:
                self._metrics[runtime.RECONCILE_TIMEOUTS].add(controller=controller)
            if self._queue is not None:
                self._works.observe(took, **self._names)

    def added(self) -> None:
        self._metrics[runtime.WORKQUEUE_ADDS].add(**self._names)

    def taken(self, waited: float) -> None:
        """Record how long a key has waited."""
        self._metrics[runtime.WORKQUEUE_QUEUE_DURATION].observe(waited, **self._names)

    def retried(self) -> None:
        self._metrics[runtime.WORKQUEUE_RETRIES].add(**self._names)

    def _refresh(self) -> None:
        metrics, names = self._metrics, self._names
        assert self._queue is not None
        ages = [self._monotonic() - began for began in self._in_progress.values()]
        metrics[runtime.WORKQUEUE_DEPTH].set(float(len(self._queue)), **names)
        metrics[runtime.WORKQUEUE_UNFINISHED].set(sum(ages), **names)
        metrics[runtime.WORKQUEUE_LONGEST].set(max(ages, default=0.0), **names)


def client_request_metrics(metrics: Metrics, host: str) -> Callable[[Request, int, float], None]:
    """Return a listener that counts and times the requests of a client to the API server."""

    def note(request: Request, code: int, seconds: float) -> None:
        answer = str(code) if code else "<error>"
        metrics[runtime.CLIENT_REQUESTS].add(code=answer, host=host, method=request.method)
        metrics[runtime.CLIENT_REQUEST_DURATION].observe(seconds, host=host, method=request.method)
        metrics[runtime.CLIENT_GO_REQUESTS].add(code=answer, method=request.method)
        labels = request_labels(request.method, request.path)
        if labels is not None:
            metrics[runtime.CLIENT_GO_REQUEST_DURATION].observe(seconds, **labels)

    return note


def request_labels(method: str, path: str) -> dict[str, str] | None:
    """Return what a request does with which kind of objects; None if it is not about objects."""
    root, *parts = path.strip("/").split("/")
    if root not in {"api", "apis"}:
        return None
    group, parts = ("", parts) if root == "api" else (parts[0] if parts else "", parts[1:])
    if len(parts) < _SHORTEST:
        return None
    version, rest = parts[0], parts[1:]
    if rest[0] == "namespaces" and len(rest) > _SHORTEST:  # a namespace itself has no more behind it
        rest = rest[2:]
    kind, *behind = rest
    verb = {"POST": "CREATE", "PUT": "UPDATE"}.get(method, method)
    if method == "GET" and not behind:
        verb = "LIST"
    return {
        "verb": verb,
        "group": group,
        "version": version,
        "kind": kind,
        "subresource": behind[1] if len(behind) > 1 else "",
    }


class SchedulingStatus(Protocol):
    """The provisioner, as far as metrics read it."""

    @property
    def name(self) -> str:
        """The value of the label ``controller``."""
        ...

    @property
    def search(self) -> Search | None: ...


class ClusterStateMetrics:
    """Shows size, synchronization and age of the cluster state, and the scheduling run in progress."""

    def __init__(
        self,
        store: ClusterState,
        metrics: Metrics,
        clock: Clock,
        provisioner: SchedulingStatus,
        lost_at: Callable[[], float | None],
    ) -> None:
        """`lost_at` returns when the API server stopped to answer a watch; None while it answers all."""
        self._store, self._lost_at = store, lost_at
        self._metrics = metrics
        self._clock = clock
        self._provisioner = provisioner
        self._unsynced_since: float | None = clock.monotonic()
        metrics.before_reading(self.refresh)

    def hear(self, event: StateEvent, before: Resource | NodeClass | None) -> None:
        """Note when the cluster state becomes unsynced."""
        del event, before
        self._check_synced()

    def refresh(self) -> None:
        self._check_synced()
        metrics, now = self._metrics, self._clock.monotonic()
        since = self._unsynced_since
        metrics[declared.STATE_NODE_COUNT].set(float(len(state_nodes(self._store.view()))))
        metrics[declared.STATE_SYNCED].set(1.0 if since is None else 0.0)
        metrics[declared.STATE_UNSYNCED_TIME].set(0.0 if since is None else now - since)
        lost_at = self._lost_at()
        metrics[declared.STATE_AGE].set(0.0 if lost_at is None else now - lost_at)
        search = self._provisioner.search
        rows = []
        if search is not None:
            labels = {"controller": self._provisioner.name, "scheduling_id": search.id}
            rows = [(float(search.pods), now - search.began, labels)]
        metrics[declared.QUEUE_DEPTH].publish("provisioner", [(pods, names) for pods, _, names in rows])
        metrics[declared.UNFINISHED_WORK].publish("provisioner", [(took, names) for _, took, names in rows])

    def _check_synced(self) -> None:
        if self._store.synced:
            self._unsynced_since = None
        elif self._unsynced_since is None:
            self._unsynced_since = self._clock.monotonic()


T = TypeVar("T")

# Workqueues of controller-runtime wait from 5 ms up to 1,000 s. After an outage of the API server that would
# be a quarter of an hour, so the cap is lower here.
# https://pkg.go.dev/k8s.io/client-go/util/workqueue#DefaultTypedControllerRateLimiter
RETRIES: Final = Backoff(first=0.1, cap=60.0)
CLOUD_TIMEOUT: Final = 60.0
"""Seconds for a call of the cloud provider."""

LAUNCH_CALL_TIMEOUT: Final = 120.0
"""Seconds for a launch, which may have to try many offerings."""


class Requeue(Exception):  # noqa: N818  a result, not an error
    """Something cannot be done now; the key is requeued with backoff."""


class APIReader(Protocol):
    """
    Reads from the API server, as controller-runtime's APIReader does: a read of the newest version.

    One object is listed by its name, because the operator may list what it watches, and may not get it.
    See https://kubernetes.io/docs/reference/using-api/api-concepts/#semantics-for-get-and-list.
    """

    async def list(self, kind: type[T], selection: Selection = ...) -> Page[T]:
        """Return the selected objects of a kind, and those that cannot be decoded."""
        ...


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


class CloudTimeout(CloudUnreachable):
    """A call of the cloud provider timed out."""


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


class Executor(Protocol):
    """Runs a computation."""

    async def run(self, compute: Callable[[], T]) -> T:
        """Return the result of `compute`."""
        ...


class ThreadExecutor:
    """Runs computations in a thread."""

    async def run(self, compute: Callable[[], T]) -> T:
        """Run `compute` while the event loop continues."""
        return await asyncio.to_thread(compute)


class InlineExecutor:
    """Runs computations in the event loop."""

    async def run(self, compute: Callable[[], T]) -> T:
        """Run `compute` at once."""
        return compute()


class RecordingExecutor:
    """Runs computations with another executor, and writes every decision to the flight record."""

    def __init__(self, inner: Executor, flight: FlightRecorder) -> None:
        self._inner = inner
        self._flight = flight

    async def run(self, compute: Callable[[], T]) -> T:
        """Run `compute`, and record its arguments and its result."""
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


USUAL_WAIT: Final = 60.0
_AFTER_FAILURE: Final = Backoff(first=5.0, cap=600.0)


class ProviderSingleton:
    """A singleton controller of the provider; after an error it runs again, later each time."""

    def __init__(self, controller: SingletonController, performer: Performer) -> None:
        self.name = controller.name
        self._controller = controller
        self._performer = performer
        self._failures = 0

    async def look(self) -> float:
        """Run once; return after how many seconds to run again."""
        try:
            step = await self._controller.look()
            await self._performer.perform(step.effects)
        except (CloudError, KubeError) as error:
            self._failures += 1
            wait = max(
                _AFTER_FAILURE.delay(self._failures),
                error.retry_after if isinstance(error, Throttled) else 0.0,
            )
            log.warning("provider_controller.failed", controller=self.name, error=str(error), again=wait)
            return wait
        self._failures = 0
        return USUAL_WAIT if step.again is None else step.again


class ProviderReconciler:
    """An object controller of the provider."""

    def __init__(self, controller: ObjectController, performer: Performer) -> None:
        self.name = controller.name
        self.kinds = controller.kinds
        self.wakes = controller.wakes
        self._controller = controller
        self._performer = performer

    async def reconcile(self, key: str) -> float | None:
        """Reconcile one object, and perform the effects."""
        step = await self._controller.reconcile(key)
        await self._performer.perform(step.effects)
        return step.again


class PoolCatalogs:
    """The instance types of NodePools, as one catalogue; the same value until something changes."""

    def __init__(
        self, cloud: CloudProvider, rates: Callable[[], Mapping[tuple[str, str], float]] = dict
    ) -> None:
        """`rates` says how often spot machines are interrupted per month, by instance type and zone."""
        self._cloud = cloud
        self._rates = rates
        self._rated: Mapping[tuple[str, str], float] = {}
        self._of: dict[str, Catalog] = {}
        self._combined: Catalog | None = None

    @property
    def latest(self) -> Catalog | None:
        """The last catalogue; None before the first."""
        return self._combined

    async def of(self, pools: Iterable[NodePool]) -> Catalog:
        """Return the catalogue of some NodePools; one whose instance types cannot be listed has none."""
        found: dict[str, Catalog] = {}
        for pool in pools:
            found[pool.name] = EMPTY
            try:
                found[pool.name] = await call_cloud(self._cloud.catalog(pool))
            except NodeClassNotReady as error:
                log.debug("catalog.not_ready", nodepool=pool.name, error=str(error))
            except CloudError as error:
                log.warning("catalog.not_read", nodepool=pool.name, error=str(error))
        rates = self._rates()
        if self._combined is None or rates != self._rated or not _same(found, self._of):
            self._of, self._rated = found, rates
            self._combined = with_interruption_rates(combine(found), rates)
        return self._combined


def _same(new: dict[str, Catalog], old: dict[str, Catalog]) -> bool:
    return new.keys() == old.keys() and all(each is old[name] for name, each in new.items())
