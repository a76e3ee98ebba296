"""
Work queue, exponential backoff, and supervised tasks: what controllers run on.

:class:`WorkQueue` has the semantics of client-go's workqueue. A key is in the queue once, however often it
is added. A key that is added while it is processed comes back after that, so two workers never process the
same key. A key may be added for later, or after a failure, with exponential backoff per key and a token
bucket that all retries share. The queue holds keys and not objects: a worker reads the newest state. See
https://github.com/kubernetes/client-go/tree/master/util/workqueue.

:class:`Backoff` returns how long to wait. Jitter comes from a ``random.Random`` that the caller passes, so
that a simulation is repeatable.

:class:`Supervisor` restarts a task that crashes, after a wait that grows while it keeps crashing, and logs
the traceback. A task that returns is finished.
"""

import asyncio
import heapq
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Hashable
from contextlib import asynccontextmanager, suppress
from itertools import count
from random import Random
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

import msgspec
import structlog

from karpenter.base.ratelimiting import LeaseNotHeld, TokenBucket

_MAX_DOUBLINGS = 64  # past any cap a caller could mean; keeps the power finite

K = TypeVar("K", bound=Hashable)
log = structlog.stdlib.get_logger(__name__)
HEALTHY_SECONDS = 60.0
"""Seconds after which a running task starts again with the first backoff."""

Work = Callable[[], Coroutine[Any, Any, None]]


class Backoff(msgspec.Struct, frozen=True, kw_only=True):
    """Waits that grow by `factor` from `first` up to `cap`, each stretched by up to `jitter` of itself."""

    first: float
    cap: float
    factor: float = 2.0
    jitter: float = 0.0

    def delay(self, failures: int, chance: Random | None = None) -> float:
        """Return the wait after `failures` in a row; the first failure waits `first`.

        Jitter only ever lengthens the wait, and may pass the cap by its share.
        """
        steps = min(max(failures - 1, 0), _MAX_DOUBLINGS)
        wait = min(self.first * self.factor**steps, self.cap)
        if chance is None:
            return wait
        return wait * (1 + self.jitter * chance.random())


# https://pkg.go.dev/k8s.io/client-go/util/workqueue#DefaultTypedControllerRateLimiter
RETRIES = Backoff(first=0.005, cap=1000.0)
"""The default backoff of a queue, as client-go's."""


class QueueClosed(Exception):  # noqa: N818  not a failure: the signal that work is over
    """The queue was closed and nothing is left in it."""


class QueueMetrics(Protocol):
    """Records the keys of a queue."""

    def added(self) -> None: ...

    def taken(self, waited: float) -> None: ...

    def retried(self) -> None: ...


class WorkQueue(Generic[K]):
    """Keys in order of arrival, each at most once, processed by one worker at a time."""

    def __init__(self, *, backoff: Backoff = RETRIES, bucket: TokenBucket | None = None) -> None:
        self._backoff = backoff
        self._bucket = bucket
        self._ready: deque[K] = deque()
        self._dirty: set[K] = set()  # in _ready, or to be added there once it is not processed any more
        self._processing: set[K] = set()
        self._failures: dict[K, int] = {}
        self._due: dict[K, float] = {}
        self._later: list[tuple[float, int, K]] = []  # may hold stale entries; _due says which are meant
        self._order = count()
        self._timer: asyncio.TimerHandle | None = None
        self._getters: deque[asyncio.Future[None]] = deque()
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = False
        self._since: dict[K, float] = {}  # when each key in _ready was added; only with metrics
        self.metrics: QueueMetrics | None = None

    def __len__(self) -> int:
        return len(self._ready)

    @property
    def later(self) -> int:
        """How many keys are to be added at a later time."""
        return len(self._due)

    @property
    def processing(self) -> int:
        return len(self._processing)

    def add(self, key: K) -> None:
        """Add `key` unless it is queued; a key that is processed is added after that."""
        if self._closed or key in self._dirty:
            return
        self._dirty.add(key)
        self._idle.clear()
        if key not in self._processing:
            self._offer(key)

    def add_after(self, key: K, seconds: float) -> None:
        """Add `key` once `seconds` have passed; of several calls the earliest time counts."""
        if self._closed:
            return
        if seconds <= 0:
            self.add(key)
            return
        due = asyncio.get_running_loop().time() + seconds
        if due >= self._due.get(key, due + 1):
            return
        self._due[key] = due
        heapq.heappush(self._later, (due, next(self._order), key))
        self._set_timer()

    def retry(self, key: K) -> None:
        """Count a failure of `key` and add it again after its backoff, or later if the bucket is empty."""
        self._failures[key] = self._failures.get(key, 0) + 1
        if self.metrics is not None:
            self.metrics.retried()
        wait = self._backoff.delay(self._failures[key])
        if self._bucket is not None:
            wait = max(wait, self._bucket.reserve())
        self.add_after(key, wait)

    def forget(self, key: K) -> None:
        """Let the next failure of `key` be its first again."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        """Return how often `key` has failed since it was last forgotten."""
        return self._failures.get(key, 0)

    async def get(self) -> K:
        """Wait for a key and take it. The caller must call :meth:`done` with it.

        Raises:
            QueueClosed: the queue was closed and is empty.
        """
        while not self._ready:
            if self._closed:
                raise QueueClosed
            getter = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except asyncio.CancelledError:
                with suppress(ValueError):
                    self._getters.remove(getter)
                if not getter.cancelled():
                    self._wake()  # we were called and cannot come: call the next
                raise
        key = self._ready.popleft()
        self._processing.add(key)
        self._dirty.discard(key)
        since = self._since.pop(key, None)
        if self.metrics is not None and since is not None:
            self.metrics.taken(asyncio.get_running_loop().time() - since)
        return key

    def done(self, key: K) -> None:
        """Say that the work on `key` is over; it comes back now if it was added meanwhile."""
        self._processing.discard(key)
        if key in self._dirty:
            self._offer(key)
        elif not self._dirty and not self._processing:
            self._idle.set()

    @asynccontextmanager
    async def item(self) -> AsyncIterator[K]:
        """Take a key for the length of a block."""
        key = await self.get()
        try:
            yield key
        finally:
            self.done(key)

    async def settled(self) -> None:
        """Wait until nothing is queued or being worked on. Keys added for later do not count."""
        await self._idle.wait()

    def close(self) -> None:
        """Take no more keys and forget those for later; workers get what is queued, then QueueClosed."""
        self._closed = True
        self._due.clear()
        self._later.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._getters:
            self._wake()

    def _offer(self, key: K) -> None:
        self._ready.append(key)
        if self.metrics is not None:
            self._since[key] = asyncio.get_running_loop().time()
            self.metrics.added()
        self._wake()

    def _wake(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return

    def _set_timer(self) -> None:
        """Keep one timer, for the earliest key that is due."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._later and self._due.get(self._later[0][2]) != self._later[0][0]:
            heapq.heappop(self._later)
        if self._later:
            self._timer = asyncio.get_running_loop().call_at(self._later[0][0], self._add_due)

    def _add_due(self) -> None:
        _, _, key = heapq.heappop(self._later)
        del self._due[key]
        self.add(key)
        self._set_timer()


RESTARTS = Backoff(first=1.0, cap=60.0, jitter=0.2)
"""How long a crashed task waits before it is started again."""


class Supervisor:
    """Runs tasks by name, and starts them again when they crash. Leaving its context ends them all."""

    def __init__(
        self, *, chance: Random, backoff: Backoff = RESTARTS, healthy: float = HEALTHY_SECONDS
    ) -> None:
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
            except LeaseNotHeld as error:
                log.warning("task.ended", task=name, error=str(error))
                return
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
