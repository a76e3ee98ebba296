"""How a controller runs: failures come back later, never in silence."""

from __future__ import annotations

import asyncio
from random import Random

from karpenter.base.aio.backoff import Backoff
from karpenter.base.aio.queue import WorkQueue
from karpenter.base.aio.tasks import Supervisor
from karpenter.base.aio.virtual import run_virtual
from karpenter.cloud.errors import CloudUnreachable, Throttled
from karpenter.controllers.loop import Loop
from karpenter.controllers.notyet import NotYet


class Failing:
    """Fails in turn, then succeeds."""

    name = "failing"

    def __init__(self, *errors: Exception) -> None:
        self._errors = list(errors)
        self.times: list[float] = []

    async def reconcile(self, key: str) -> float | None:
        """Do what was scripted."""
        del key
        self.times.append(asyncio.get_running_loop().time())
        if self._errors:
            raise self._errors.pop(0)
        return None


def looks(*errors: Exception, queue: WorkQueue[str] | None = None) -> list[float]:
    """Return when a key was looked at that fails so."""
    failing = Failing(*errors)

    async def main() -> None:
        loop = Loop(failing, workers=2, backoff=Backoff(first=1.0, cap=60.0), queue=queue)
        async with Supervisor(chance=Random(1)) as supervisor:  # noqa: S311  jitter
            loop.start(supervisor)
            loop.queue.add("key")
            await asyncio.sleep(100)

    run_virtual(main())
    return failing.times


def test_failures_are_tried_again_more_and_more_slowly() -> None:
    """Whatever goes wrong, also a bug of ours, the key comes back."""
    assert looks(NotYet("no"), CloudUnreachable("no"), RuntimeError("a bug")) == [0.0, 1.0, 3.0, 7.0]


def test_a_cloud_that_wants_fewer_calls_is_obeyed() -> None:
    """The wait is the cloud's, not ours."""
    assert looks(Throttled(retry_after=30.0)) == [0.0, 30.0]


def test_success_is_the_end() -> None:
    """A key that needs nothing is not looked at again."""
    assert looks() == [0.0]


def test_a_queue_that_is_shared_is_used_though_it_is_empty() -> None:
    """Whoever adds to the queue that was passed in is heard."""

    async def main() -> list[float]:
        queue: WorkQueue[str] = WorkQueue()
        failing = Failing()
        async with Supervisor(chance=Random(1)) as supervisor:  # noqa: S311  jitter
            Loop(failing, queue=queue).start(supervisor)
            queue.add("key")
            await asyncio.sleep(1)
        return failing.times

    assert run_virtual(main()) == [0.0]
