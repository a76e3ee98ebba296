"""How controllers do, as metrics show it."""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING, Any

import structlog

from karpenter.base.queue import Backoff, Supervisor
from karpenter.cloud.errors import CloudUnreachable, Throttled
from karpenter.controllers.cloudcalls import CloudTimeout
from karpenter.controllers.controller import Controller, Requeue, start_singleton
from karpenter.telemetry.metrics import Metrics, runtime
from karpenter_local.virtual import VirtualClock, run_virtual

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

WHO = {"controller": "scripted"}
BOTH = {**WHO, "name": "scripted"}


class Scripted:
    """Does what a script says, one step after the other."""

    name = "scripted"

    def __init__(self, *script: Any) -> None:
        self.script = list(script)
        self.said: list[object] = []

    async def reconcile(self, key: str) -> float | None:
        del key
        self.said.append(structlog.contextvars.get_contextvars().get("controller"))
        step = self.script.pop(0) if self.script else None
        if isinstance(step, Exception):
            raise step
        if step == "slow":
            await asyncio.sleep(2.0)
            return None
        return step if isinstance(step, float) else None

    async def look(self) -> float:
        """Take the next step; afterwards rest."""
        await self.reconcile("")
        return 1000.0


def measured(scripted: Scripted, scenario: Callable[[Controller, Metrics], Awaitable[None]]) -> Metrics:
    """Run a controller for a while, and return what was counted."""

    async def main() -> Metrics:
        clock = VirtualClock()
        metrics = Metrics(clock=clock)
        loop = Controller(scripted, workers=2, backoff=Backoff(first=1.0, cap=60.0))
        loop.measure(metrics, clock)
        async with Supervisor(chance=Random(1)) as supervisor:  # noqa: S311  jitter
            loop.start(supervisor)
            await scenario(loop, metrics)
        return metrics

    return run_virtual(main())


def test_how_steps_end() -> None:
    """Success, failure, another look at once and another look later are told apart."""

    async def scenario(loop: Controller, metrics: Metrics) -> None:
        del metrics
        loop.queue.add("key")
        await asyncio.sleep(300)

    script = [
        5.0,
        Requeue("no"),
        Throttled(retry_after=3.0),
        CloudTimeout("no answer within 60 s"),
        RuntimeError("a bug"),
        None,
    ]
    scripted = Scripted(*script)
    metrics = measured(scripted, scenario)
    results = {
        result: metrics[runtime.RECONCILES].value(**WHO, result=result)
        for result in ("success", "error", "requeue", "requeue_after")
    }

    assert results == {"success": 1.0, "error": 2.0, "requeue": 1.0, "requeue_after": 2.0}
    assert metrics[runtime.RECONCILE_ERRORS].value(**WHO) == 2.0
    assert metrics[runtime.RECONCILE_TIMEOUTS].value(**WHO) == 1.0
    assert metrics[runtime.RECONCILE_PANICS].value(**WHO) == 1.0
    assert metrics[runtime.TERMINAL_RECONCILE_ERRORS].value(**WHO) == 0.0
    assert metrics[runtime.RECONCILE_TIME].count(**WHO) == 6
    assert metrics[runtime.MAX_CONCURRENT_RECONCILES].value(**WHO) == 2.0
    assert metrics[runtime.ACTIVE_WORKERS].value(**WHO) == 0.0
    assert metrics[runtime.WORKQUEUE_RETRIES].value(**BOTH) == 3.0
    assert metrics[runtime.WORKQUEUE_ADDS].value(**BOTH) == 6.0
    assert metrics[runtime.WORKQUEUE_QUEUE_DURATION].count(**BOTH) == 6
    assert metrics[runtime.WORKQUEUE_WORK_DURATION].count(**BOTH) == 6
    assert set(scripted.said) == {"scripted"}


def test_work_under_way() -> None:
    """What waits and what is being worked on is shown as it is when somebody reads."""

    async def scenario(loop: Controller, metrics: Metrics) -> None:
        for key in ("a", "b", "c"):
            loop.queue.add(key)
        await asyncio.sleep(1.5)
        metrics.refresh()
        assert metrics[runtime.ACTIVE_WORKERS].value(**WHO) == 2.0
        assert metrics[runtime.WORKQUEUE_DEPTH].value(**BOTH) == 1.0
        assert metrics[runtime.WORKQUEUE_UNFINISHED].value(**BOTH) == 3.0
        assert metrics[runtime.WORKQUEUE_LONGEST].value(**BOTH) == 1.5

    measured(Scripted("slow", "slow"), scenario)


def test_rounds_count_as_steps() -> None:
    """What goes over everything is counted as other controllers are; after a failure it tries again."""

    async def main() -> Metrics:
        clock = VirtualClock()
        metrics = Metrics(clock=clock)
        async with Supervisor(chance=Random(1)) as supervisor:  # noqa: S311  jitter
            start_singleton(Scripted(CloudUnreachable("no")), supervisor, clock, metrics=metrics)
            await asyncio.sleep(100)
        return metrics

    metrics = run_virtual(main())

    assert metrics[runtime.RECONCILES].value(**WHO, result="error") == 1.0
    assert metrics[runtime.RECONCILES].value(**WHO, result="requeue_after") == 1.0
