"""How a controller runs: failures come back later, never in silence."""

from __future__ import annotations

import asyncio
from random import Random

from karpenter.base.queue import Backoff, Supervisor, WorkQueue
from karpenter.base.ratelimiting import LeaseNotHeld
from karpenter.cloud.errors import CloudUnreachable, Throttled
from karpenter.controllers.controller import Controller, Requeue
from karpenter_local.virtual import run_virtual


class Failing:
    """Fails in turn, then succeeds."""

    name = "failing"

    def __init__(self, *errors: Exception) -> None:
        self._errors = list(errors)
        self.times: list[float] = []

    async def reconcile(self, key: str) -> float | None:
        del key
        self.times.append(asyncio.get_running_loop().time())
        if self._errors:
            raise self._errors.pop(0)
        return None


def looks(*errors: Exception, queue: WorkQueue[str] | None = None) -> list[float]:
    """Return when a key was looked at that fails so."""
    failing = Failing(*errors)

    async def main() -> None:
        loop = Controller(failing, workers=2, backoff=Backoff(first=1.0, cap=60.0), queue=queue)
        async with Supervisor(chance=Random(1)) as supervisor:  # noqa: S311  jitter
            loop.start(supervisor)
            loop.queue.add("key")
            await asyncio.sleep(100)

    run_virtual(main())
    return failing.times


def test_failures_are_tried_again_more_and_more_slowly() -> None:
    """Whatever goes wrong, also a bug of ours, the key comes back."""
    assert looks(Requeue("no"), CloudUnreachable("no"), RuntimeError("a bug")) == [0.0, 1.0, 3.0, 7.0]


def test_a_cloud_that_wants_fewer_calls_is_obeyed() -> None:
    """The wait is the cloud's, not ours."""
    assert looks(Throttled(retry_after=30.0)) == [0.0, 30.0]


def test_a_refused_write_is_not_tried_again() -> None:
    """A replica that does not lead any more leaves the key to the next leader."""
    assert looks(LeaseNotHeld("PATCH /apis")) == [0.0]


def test_success_is_the_end() -> None:
    """A key that needs nothing is not looked at again."""
    assert looks() == [0.0]


def test_keys_are_worked_on_side_by_side_up_to_a_number() -> None:
    """So many keys are worked on at a time, none of them twice; the end of the loop ends them all."""
    most, ended = [0], []

    class Slow:
        name = "slow"

        def __init__(self) -> None:
            self.busy: set[str] = set()

        async def reconcile(self, key: str) -> float | None:
            assert key not in self.busy
            self.busy.add(key)
            most.append(len(self.busy))
            try:
                await asyncio.sleep(10)
            finally:
                self.busy.discard(key)
                ended.append(key)
            return None

    async def main() -> float:
        loop = Controller(Slow(), workers=3)
        async with Supervisor(chance=Random(1)) as supervisor:  # noqa: S311  jitter
            loop.start(supervisor)
            for number in range(7):
                loop.queue.add(f"{number}")
            await asyncio.sleep(1)
            loop.queue.add("0")
            await asyncio.sleep(28)
            assert len(ended) == 6
        return asyncio.get_running_loop().time()

    assert run_virtual(main()) == 29.0
    assert max(most) == 3
    assert sorted(ended) == ["0", "0", "1", "2", "3", "4", "5", "6"]


def test_a_queue_that_is_shared_is_used_though_it_is_empty() -> None:
    """Whoever adds to the queue that was passed in is heard."""

    async def main() -> list[float]:
        queue: WorkQueue[str] = WorkQueue()
        failing = Failing()
        async with Supervisor(chance=Random(1)) as supervisor:  # noqa: S311  jitter
            Controller(failing, queue=queue).start(supervisor)
            queue.add("key")
            await asyncio.sleep(1)
        return failing.times

    assert run_virtual(main()) == [0.0]
