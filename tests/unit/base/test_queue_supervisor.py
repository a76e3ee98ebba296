"""A crash is logged and the task starts again; nothing fails in silence."""

import asyncio
from collections.abc import Iterator
from random import Random

import pytest
import structlog
from structlog.testing import capture_logs
from structlog.typing import EventDict

from karpenter.base.queue import Backoff, Supervisor
from karpenter.base.ratelimiting import LeaseNotHeld

PLAIN = Backoff(first=1.0, cap=8.0)
CHANCE = Random(0)  # noqa: S311  jitter is no secret


@pytest.fixture
def logs() -> Iterator[list[EventDict]]:
    """What was logged."""
    structlog.reset_defaults()
    with capture_logs() as captured:
        yield captured


def crashes_in(logs: list[EventDict]) -> list[EventDict]:
    """Return what was logged of tasks; servers of other tests may run beside this one and log as well."""
    return [entry for entry in logs if entry["event"] == "task.crashed"]


class Crashing:
    """Work that fails so many times after so many seconds, then returns."""

    def __init__(self, times: int, after: float = 0.0) -> None:
        self.times = times
        self.after = after
        self.started: list[float] = []

    async def __call__(self) -> None:
        self.started.append(asyncio.get_running_loop().time())
        await asyncio.sleep(self.after)
        if len(self.started) <= self.times:
            raise RuntimeError("out of cheese")


async def test_a_crash_is_logged_with_its_traceback(logs: list[EventDict]) -> None:
    """The log names the task, counts its crashes and carries the exception."""
    async with Supervisor(chance=CHANCE, backoff=PLAIN) as supervisor:
        supervisor.start("mice", Crashing(1))
        await supervisor.join()

    assert crashes_in(logs) == [
        {
            "event": "task.crashed",
            "log_level": "error",
            "exc_info": True,
            "task": "mice",
            "crashes": 1,
            "restart_in": 1.0,
        }
    ]


async def test_restarts_wait_longer_each_time(logs: list[EventDict]) -> None:
    """A task that keeps crashing is started again ever more slowly."""
    work = Crashing(4)
    async with Supervisor(chance=CHANCE, backoff=PLAIN) as supervisor:
        supervisor.start("mice", work)
        await supervisor.join()

    assert work.started == [0, 1, 3, 7, 15]
    assert len(crashes_in(logs)) == 4


async def test_a_long_healthy_run_forgives_earlier_crashes(logs: list[EventDict]) -> None:
    """After running well for a while, the next crash counts as the first."""
    work = Crashing(3, after=100)
    async with Supervisor(chance=CHANCE, backoff=PLAIN, healthy=60) as supervisor:
        supervisor.start("mice", work)
        await supervisor.join()
        crashes = supervisor.crashes("mice")

    assert work.started == [0, 101, 202, 303]
    assert (crashes, len(crashes_in(logs))) == (3, 3)


async def test_a_task_that_returns_is_finished() -> None:
    """Returning is not a crash: the task is not started again, and its name is free."""
    async with Supervisor(chance=CHANCE) as supervisor:
        supervisor.start("once", Crashing(0))
        await supervisor.join()
        assert (supervisor.running, supervisor.crashes("once")) == ((), 0)

        supervisor.start("once", Crashing(0))
        assert supervisor.running == ("once",)


async def test_leaving_ends_every_task_newest_first() -> None:
    """Tasks are cancelled in reverse order and waited for."""
    ended: list[str] = []

    async def until_cancelled(name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(name)

    async with Supervisor(chance=CHANCE) as supervisor:
        supervisor.start("first", lambda: until_cancelled("first"))
        supervisor.start("second", lambda: until_cancelled("second"))
        await asyncio.sleep(1)

    assert ended == ["second", "first"]


async def test_a_name_is_given_once() -> None:
    """Two running tasks of one name could not be told apart in the log."""
    async with Supervisor(chance=CHANCE) as supervisor:
        supervisor.start("mice", Crashing(0, after=10))

        with pytest.raises(ValueError, match="a task called mice is running already"):
            supervisor.start("mice", Crashing(0))


async def test_a_task_whose_write_was_refused_ends(logs: list[EventDict]) -> None:
    """A replica that does not lead any more does not start its tasks again."""
    started = []

    async def write() -> None:
        started.append("write")
        raise LeaseNotHeld("PATCH /apis")

    async with Supervisor(chance=CHANCE, backoff=PLAIN) as supervisor:
        supervisor.start("mice", write)
        await supervisor.join()

    assert (started, crashes_in(logs)) == (["write"], [])
    assert [entry["task"] for entry in logs if entry["event"] == "task.ended"] == ["mice"]
