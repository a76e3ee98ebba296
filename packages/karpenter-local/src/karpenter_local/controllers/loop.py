"""
How the embedded controllers run: informers queue keys, and the reconcile loop of the operator
(:class:`~karpenter.controllers.controller.Controller`) reconciles them and retries failures.

A controller says which events queue which keys, and reconciles one key.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

import structlog

from karpenter.base.queue import Backoff, Supervisor, WorkQueue
from karpenter.controllers.controller import Controller
from karpenter.kube.errors import KubeError
from karpenter.kube.informer import Informer, InformerEvent, InformerUpdate

log = structlog.stdlib.get_logger(__name__)

H = TypeVar("H")

RETRIES = Backoff(first=0.1, cap=30.0)

HOT_LOOP = 100
"""Looks at one key in a row, at one moment, that are too many."""
HOT_LOOP_PAUSE = 0.1

_ROUND = "round"

_MIN_BATCH_DELAY = 0.02
_BATCH_DELAY_PER_POD = 100e-6
"""Ten times what one look costs, so that looking takes less than a tenth of the time."""


class KubeController(Protocol):
    """A controller that reconciles one key at a time."""

    name: str

    def watch(self, queue: WorkQueue[str]) -> None:
        """Subscribe to whatever should put a key in the queue."""
        ...

    async def reconcile(self, key: str) -> float | None:
        """Look at one key and put things right; return after how many seconds to look again, if at all."""
        ...


class PeriodicController(Protocol):
    """A controller that looks at all objects periodically."""

    name: str

    @property
    def period(self) -> float: ...

    async def look(self) -> None: ...


def wake(
    informer: Informer[H],
    queue: WorkQueue[str],
    keys: Callable[[H], Iterable[str]],
    *,
    after: Callable[[str], float] | None = None,
    predicate: Callable[[InformerEvent[H]], bool] | None = None,
) -> None:
    """
    Queue what `keys` names for each object that comes, changes or goes, `after` some seconds.

    Events for which the `predicate` does not hold are left out, as in controller-runtime.
    """

    def listener(event: InformerEvent[H]) -> None:
        if predicate is not None and not predicate(event):
            return
        woken = dict.fromkeys(keys(event.object))
        if isinstance(event, InformerUpdate) and event.before is not None:
            woken |= dict.fromkeys(keys(event.before))
        for key in woken:
            queue.add_after(key, 0.0 if after is None else after(key))

    informer.subscribe(listener)


def batch_delay(pods: int) -> float:
    """Return how long to collect changes of a workload's pods before looking: longer for many."""
    return _MIN_BATCH_DELAY + pods * _BATCH_DELAY_PER_POD


def start(controller: KubeController, supervisor: Supervisor, *, workers: int = 1) -> WorkQueue[str]:
    """Begin to run a controller; its informers must be synced."""
    loop = Controller(_Paced(controller), workers=workers, backoff=RETRIES)
    controller.watch(loop.queue)
    loop.start(supervisor)
    return loop.queue


def start_periodic(each: PeriodicController, supervisor: Supervisor) -> None:
    """Begin to run a periodic controller; its informers must be synced."""
    loop = Controller(_Rounds(each), workers=1)
    loop.queue.add(_ROUND)
    loop.start(supervisor)


class _Rounds:
    """A periodic controller as the reconciler of a single key."""

    def __init__(self, each: PeriodicController) -> None:
        self.name = each.name
        self._each = each

    async def reconcile(self, key: str) -> float | None:
        """Go over everything once; a round that fails is left out."""
        del key
        try:
            await self._each.look()
        except KubeError as error:
            log.warning("controller.failed", controller=self.name, error=str(error))
        return self._each.period


class _Paced:
    """A controller that pauses for a key that comes back without end."""

    def __init__(self, controller: KubeController) -> None:
        self.name = controller.name
        self._controller = controller
        self._pace = HotLoopDetector()

    async def reconcile(self, key: str) -> float | None:
        if self._pace.is_racing(key, asyncio.get_running_loop().time()):
            log.warning("key.slowed", controller=self.name, key=key)
            await asyncio.sleep(HOT_LOOP_PAUSE)
        return await self._controller.reconcile(key)


class HotLoopDetector:
    """
    Notices a key that comes back again and again at one moment of virtual time.

    Two writers that undo each other's work would otherwise do so for ever without time passing.
    """

    def __init__(self) -> None:
        self._key = ""
        self._moment = 0.0
        self._times = 0

    def is_racing(self, key: str, moment: float) -> bool:
        """Count one more look at `key`; say whether there were too many at this moment."""
        if (key, moment) != (self._key, self._moment):
            self._key, self._moment, self._times = key, moment, 0
        self._times += 1
        return self._times >= HOT_LOOP
