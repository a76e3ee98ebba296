"""
How a controller runs: keys come in, workers take them one by one, failures come back later.

A controller says what to do about one key. Everything else (no two workers on one key, waiting longer after
each failure, never failing in silence, never ending) is done here, once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import structlog

from karpenter.base.aio.backoff import Backoff
from karpenter.base.aio.queue import WorkQueue
from karpenter.cloud.errors import CloudError, Throttled
from karpenter.controllers.notyet import NotYet
from karpenter.kube.errors import Conflict, KubeError, NotFound

if TYPE_CHECKING:
    from karpenter.base.aio.bucket import TokenBucket
    from karpenter.base.aio.tasks import Supervisor
    from karpenter.base.clock import Clock

log = structlog.stdlib.get_logger(__name__)

RETRIES = Backoff(first=0.1, cap=60.0)


class Reconciler(Protocol):
    """Something that puts one object right at a time."""

    name: str

    async def reconcile(self, key: str) -> float | None:
        """Look at one key and do what is due; return after how many seconds to look again, if at all."""
        ...


class Round(Protocol):
    """Something that goes over everything once in a while."""

    name: str

    async def look(self) -> float:
        """Go over everything once; return after how many seconds to do so again."""
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
        # An empty queue is false, as every empty collection is.
        self.queue = queue if queue is not None else WorkQueue[str](backoff=backoff, bucket=bucket)

    def start(self, supervisor: Supervisor) -> None:
        """Begin to work off the queue."""
        for number in range(self._workers):
            supervisor.start(f"{self._reconciler.name}/{number}", self._work)

    async def _work(self) -> None:
        while True:
            async with self.queue.item() as key:
                await self._handle(key)

    async def _handle(self, key: str) -> None:
        facts = {"controller": self._reconciler.name, "key": key}
        try:
            again = await self._reconciler.reconcile(key)
        except (Conflict, NotFound) as error:
            # Somebody else wrote first, or it is gone: the next look sees the newer state.
            log.debug("object.changed_meanwhile", **facts, error=str(error))
            self.queue.retry(key)
        except Throttled as error:
            log.warning("object.postponed", **facts, error=str(error))
            self.queue.add_after(key, error.retry_after)
        except NotYet as error:
            log.debug("object.postponed", **facts, error=str(error))
            self.queue.retry(key)
        except (KubeError, CloudError) as error:
            log.warning("object.not_reconciled", **facts, error=str(error))
            self.queue.retry(key)
        except Exception:
            log.exception("reconciler.crashed", **facts)
            self.queue.retry(key)
        else:
            self.queue.forget(key)
            if again is not None:
                self.queue.add_after(key, again)


def patrol(each: Round, supervisor: Supervisor, clock: Clock, *, after_failure: float = 5.0) -> None:
    """Begin to run something that goes over everything once in a while."""

    async def rounds() -> None:
        while True:
            try:
                wait = await each.look()
            except (KubeError, CloudError) as error:
                log.warning("round.failed", controller=each.name, error=str(error))
                wait = after_failure
            await clock.sleep(wait)

    supervisor.start(each.name, rounds)
