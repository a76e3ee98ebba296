"""
Leader election: of several replicas, one works.

:class:`LeaderElector` tries to acquire the Lease every `retry` seconds, and renews it as often while it
leads. If no renewal has worked for `renew_within`, it stops the work, and has until the lease's `duration`
is over to do so. The work has then ended before another replica can start, as long as clocks run at about
the same speed. A process that was stopped or suspended for longer cannot do that: so the elector also owns a
:class:`~karpenter.base.ratelimiting.Fence`, which is open for `renew_within` after each renewal, and which
every write of the work checks. A write that it refuses ends the work as well.

On cancel, the work is stopped first and the lease released after that, so that another replica starts at
once. A leader that has lost its lease does not try again, because its caches may be outdated: the process
should restart.

:class:`LeaseLock` makes one attempt at a time: it reads the Lease, decides, and writes with the
resourceVersion that it has read, so that one of two candidates fails with Conflict. Whether a holder is
alive is decided by our own monotonic clock, from when the Lease was last seen to change; clocks of other
machines are never compared.

See https://kubernetes.io/docs/concepts/architecture/leases/.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from datetime import datetime
from random import Random
from typing import Any

import msgspec
import structlog

from karpenter.api.cluster import Lease, LeaseSpec
from karpenter.base.clock import Clock
from karpenter.base.ratelimiting import Fence
from karpenter.kube.client import Client
from karpenter.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from karpenter.kube.patches import MergePatch

log = structlog.stdlib.get_logger(__name__)
Work = Callable[[], Coroutine[Any, Any, None]]
# client-go spreads retries by a factor of up to 1.2 for the same reason:
# https://github.com/kubernetes/client-go/blob/master/tools/leaderelection/leaderelection.go
JITTER = 0.2
"""Share of `retry` by which attempts of several candidates are spread."""


class LockName(msgspec.Struct, frozen=True, kw_only=True):
    """Which lock, and who we are among those who want it."""

    namespace: str
    name: str
    identity: str


class LeaseLock:
    """Our view of one lease."""

    def __init__(
        self,
        client: Client,
        lock: LockName,
        *,
        clock: Clock,
        duration: float,
        on_slow_path: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_slow_path` is called when a lease that was ours could not be renewed at the first try."""
        self._on_slow_path = on_slow_path
        self._client = client
        self._lock = lock
        self._clock = clock
        self._duration = duration
        self._seen: Lease | None = None
        self._seen_at = 0.0

    @property
    def holder(self) -> str:
        """The holder of the lease when it was last read; empty if it was free."""
        return self._seen.spec.holder_identity if self._seen else ""

    async def take(self) -> bool:
        """Take the lease or renew it; return whether it is ours now.

        Raises: KubeError: the server could not be asked, or refused for another reason than that we were too
            late.
        """
        if self._seen is not None and self.holder == self._lock.identity:
            try:
                self._see(await self._write(self._claim()))
            except (Conflict, NotFound):
                # The lease was deleted, or written since we read it: by another replica, or by a renewal of
                # our own whose answer did not arrive in time. Who holds it decides.
                self._seen = None
                self._on_slow_path()
            else:
                return True
        try:
            self._see(await self._read())
            if not self._is_free():
                return False
            self._see(await self._write(self._claim()))
        except (AlreadyExists, Conflict, NotFound):
            # Another replica was faster, or the lease was deleted; read it again next time.
            self._seen = None
            return False
        return True

    async def release(self) -> bool:
        """Give the lease back, so that the next holder need not wait for its end; return whether we did."""
        now = _micro(self._clock.now())
        # client-go writes a duration of one second too: the API server refuses zero.
        # https://github.com/kubernetes/client-go/blob/master/tools/leaderelection/leaderelection.go
        freed = {"holderIdentity": "", "leaseDurationSeconds": 1, "acquireTime": now, "renewTime": now}
        try:
            # Read again: a renewal may have been under way when we were told to stop.
            self._see(await self._client.get(Lease, self._lock.name, namespace=self._lock.namespace))
            if self.holder != self._lock.identity:
                return False
            self._see(await self._write(freed))
        except (Conflict, NotFound):
            self._seen = None  # another replica holds it already
            return False
        return True

    async def _read(self) -> Lease:
        try:
            return await self._client.get(Lease, self._lock.name, namespace=self._lock.namespace)
        except NotFound:
            body = {"metadata": {"name": self._lock.name, "namespace": self._lock.namespace}}
            return await self._client.create(Lease, body, namespace=self._lock.namespace)

    async def _write(self, spec: dict[str, object]) -> Lease:
        assert self._seen is not None
        # The version makes the write fail if another replica has written since: without it the last one would
        # win.
        # https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions
        change = MergePatch({"spec": spec}, version=self._seen.metadata.resource_version)
        return await self._client.patch(Lease, self._lock.name, change, namespace=self._lock.namespace)

    def _see(self, lease: Lease) -> None:
        # When a lease ends is told by our own clock, from when it last changed: clocks of other machines may
        # be wrong.
        # https://pkg.go.dev/k8s.io/client-go/tools/leaderelection
        if self._seen is None or self._seen.spec != lease.spec:
            self._seen_at = self._clock.monotonic()
        self._seen = lease

    def _is_free(self) -> bool:
        if self.holder in {"", self._lock.identity}:
            return True
        return self._clock.monotonic() >= self._seen_at + self._duration

    def _claim(self) -> dict[str, object]:
        now = self._clock.now()
        spec = self._seen.spec if self._seen else LeaseSpec()
        claim: dict[str, object] = {
            "holderIdentity": self._lock.identity,
            "leaseDurationSeconds": round(self._duration),
            "renewTime": _micro(now),
        }
        if spec.holder_identity != self._lock.identity:
            claim["acquireTime"] = _micro(now)
            claim["leaseTransitions"] = (spec.lease_transitions or 0) + 1
        return claim


def _micro(when: datetime) -> str:
    # MicroTime: https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/lease-v1/
    return when.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """Duration of a lease, and the intervals at which it is renewed, in seconds."""

    # The defaults of controller-runtime:
    # https://pkg.go.dev/sigs.k8s.io/controller-runtime/pkg/manager#Options
    duration: float = 15.0
    renew_within: float = 10.0
    retry: float = 2.0

    def __post_init__(self) -> None:
        if not self.duration > self.renew_within > self.retry > 0:
            raise ValueError(
                "a lease must last longer than its renewal may take, and that longer than one retry: "
                f"{self.duration:g} > {self.renew_within:g} > {self.retry:g} > 0 does not hold"
            )


class LeadershipLost(Exception):  # noqa: N818  a fact, and not always a fault
    """The lease could not be kept."""

    def __init__(self, *, holder: str, stopped: bool) -> None:
        end = "its work was stopped" if stopped else "its work did not stop in time: end the process"
        super().__init__(f"the lease was lost{' to ' + holder if holder else ''}; {end}")
        self.holder = holder
        self.stopped = stopped


class LeaderElector:
    """One candidate."""

    def __init__(
        self,
        client: Client,
        lock: LockName,
        *,
        clock: Clock,
        chance: Random,
        terms: Terms | None = None,
        fence: Fence | None = None,
        on_slow_path: Callable[[], None] = lambda: None,
    ) -> None:
        """
        Take the lease's client and terms.

        `client` must not check `fence`, which is closed until the lease is ours. `on_slow_path` is called
        when a renewal failed and the lease has to be read again.
        """
        self._terms = terms or Terms()
        self._clock = clock
        self._fence = fence or Fence(clock.boottime)
        self._fence.close()
        self._lock = LeaseLock(
            client, lock, clock=clock, duration=self._terms.duration, on_slow_path=on_slow_path
        )
        self._name = lock
        self._chance = chance
        self._renewed_at = 0.0
        self._leading = False

    @property
    def leading(self) -> bool:
        return self._leading

    @property
    def leader(self) -> str:
        return self._lock.holder

    async def lead(self, work: Work) -> None:
        """Wait for the lease, then run `work` for as long as it is ours; return when the work does.

        Raises:
            LeadershipLost: the lease could not be kept; the work was cancelled.
        """
        await self._acquire()
        self._leading = True
        self._log.info("lease.acquired")
        loop = asyncio.get_running_loop()
        keeper = loop.create_task(self._keep(), name="lease")
        self._fence.on_refused = lambda: _cancel_from_any_thread(keeper, loop)
        task = loop.create_task(work(), name="leading")
        try:
            await asyncio.wait([task, keeper], return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._leading = False
            lost = keeper.done() or self._fence.refused
            keeper.cancel()
            stopped = await self._stop(task)
            self._fence.close()
            await asyncio.wait([keeper])
            if stopped and not self._taken_over():
                try:
                    async with asyncio.timeout(self._terms.retry):
                        released = await self._lock.release()
                except (KubeError, TimeoutError) as error:
                    self._log.warning("lease.not_released", error=str(error))
                else:
                    if released:
                        self._log.info("lease.released")
        # A refused write may be what has ended the work.
        if stopped and not task.cancelled() and not self._fence.refused:
            task.result()
        if lost:
            if not keeper.cancelled():
                keeper.result()
            holder = self.leader if self._taken_over() else ""
            self._log.error("lease.lost", holder=holder, stopped=stopped)
            raise LeadershipLost(holder=holder, stopped=stopped)

    async def _acquire(self) -> None:
        while True:
            if await self._attempt(within=self._longest_attempt):
                return
            await asyncio.sleep(self._terms.retry * (1 + JITTER * self._chance.random()))

    async def _keep(self) -> None:
        """Renew the lease; return when that is no longer possible."""
        wait = self._terms.retry
        while True:
            await asyncio.sleep(wait)
            began = self._clock.boottime()
            left = self._renewed_at + self._terms.renew_within - began
            if left <= 0:
                return
            within = min(left, self._longest_attempt)
            if not await self._attempt(within=within) and self._taken_over():
                return
            # Attempts begin once per retry period, and one that took longer is followed by the next at once.
            wait = max(0.0, self._terms.retry - (self._clock.boottime() - began))

    @property
    def _longest_attempt(self) -> float:
        # A single request that is never answered must not use up the whole renew deadline:
        # https://github.com/kubernetes/client-go/blob/master/tools/leaderelection/resourcelock/interface.go
        return self._terms.renew_within / 2

    async def _attempt(self, *, within: float) -> bool:
        """Try once for the lease, and remember when we asked: it lasts from then."""
        asked_at = self._clock.boottime()
        try:
            async with asyncio.timeout(within):
                ours = await self._lock.take()
        except (KubeError, TimeoutError) as error:
            self._log.warning("lease.not_reached", error=str(error) or f"no answer within {within:g} s")
            return False
        if ours:
            self._renewed_at = asked_at
            self._fence.open_until(asked_at + self._terms.renew_within)
        return ours

    def _taken_over(self) -> bool:
        return self.leader not in {"", self._name.identity}

    @property
    def _log(self) -> structlog.stdlib.BoundLogger:
        name = self._name
        return log.bind(lease=f"{name.namespace}/{name.name}", identity=name.identity)

    async def _stop(self, task: asyncio.Task[None]) -> bool:
        """Cancel the work and wait for its end, but not for long beyond the lease's."""
        task.cancel()
        left = self._renewed_at + self._terms.duration - self._clock.boottime()
        await asyncio.wait([task], timeout=max(left, self._terms.retry))
        return task.done()


def _cancel_from_any_thread(task: asyncio.Task[None], loop: asyncio.AbstractEventLoop) -> None:
    with suppress(RuntimeError):  # the loop may have ended meanwhile
        loop.call_soon_threadsafe(task.cancel)
