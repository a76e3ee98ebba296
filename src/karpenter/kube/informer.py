"""
An informer: a local copy of all objects of a kind, kept current, that tells what changes.

It lists once, page by page, then watches from the list's resourceVersion. A watch that ends or breaks is
resumed where it was; one that the server no longer remembers (410) is replaced by a new list, of which only
the differences are told. A connection on which nothing comes, not even a bookmark, is dropped: silence never
freezes the copy. Every failure is logged and waited out, longer each time, with jitter from the seeded
chance that was passed in.

What is news is decided in :mod:`.cache`. Run an informer under a supervisor, or in any task; cancelling ends
it.
"""

import asyncio
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Generic, TypeVar, overload

import structlog

from karpenter.base.aio.backoff import Backoff
from karpenter.kube.cache import Cache, Listener
from karpenter.kube.client import PAGE, Client, Kind
from karpenter.kube.errors import Gone, KubeError
from karpenter.kube.retry import asked_wait
from karpenter.kube.store import Indexer, Store
from karpenter.kube.target import target_of
from karpenter.kube.verbs import EVERYTHING, Selection
from karpenter.kube.watch import Bookmark, Broken, WatchEvent

log = structlog.stdlib.get_logger(__name__)

T = TypeVar("T")
H = TypeVar("H")

SILENCE = 90.0
"""Seconds without a line after which a watch is dropped. Servers send a bookmark about once a minute."""

SHORTEST = 1.0
"""A watch that ends sooner, having told nothing, counts as failed: else two broken ends would spin."""

BREATH = 100
"""Events after which the other tasks get a turn, however many more are waiting."""

RECONNECTS = Backoff(first=0.5, cap=30.0, jitter=0.5)


def keep(item: T) -> T:
    """Hold objects as they are."""
    return item


class Informer(Generic[H]):
    """A local copy of the selected objects of one kind.

    ``narrow`` turns each object into what is held of it, before it is held; None means not to hold it at
    all. Objects that are not needed should not be sent either: use a selection where the server can choose.
    Without ``silence`` the server may say nothing for as long as it likes: one that lives in the same process
    cannot be lost.
    """

    @overload
    def __init__(
        self,
        client: Client,
        kind: Kind[H],
        *,
        chance: Random,
        selection: Selection = ...,
        indexers: Mapping[str, Indexer[H]] | None = ...,
        page: int = ...,
        silence: float | None = ...,
        backoff: Backoff = ...,
    ) -> None: ...

    @overload
    def __init__(
        self,
        client: Client,
        kind: Kind[T],
        *,
        narrow: Callable[[T], H | None],
        chance: Random,
        selection: Selection = ...,
        indexers: Mapping[str, Indexer[H]] | None = ...,
        page: int = ...,
        silence: float | None = ...,
        backoff: Backoff = ...,
    ) -> None: ...

    def __init__(
        self,
        client: Client,
        kind: Kind[Any],
        *,
        narrow: Callable[[Any], H | None] = keep,
        chance: Random,
        selection: Selection = EVERYTHING,
        indexers: Mapping[str, Indexer[H]] | None = None,
        page: int = PAGE,
        silence: float | None = SILENCE,
        backoff: Backoff = RECONNECTS,
    ) -> None:
        self._client = client
        self._target = target_of(kind)
        self._cache = Cache[H](self._target, narrow=narrow, indexers=indexers)
        self._chance = chance
        self._selection = selection
        self._page = page
        self._silence = silence
        self._backoff = backoff
        self._failures = 0
        self._must_list = True
        self._synced = asyncio.Event()

    @property
    def store(self) -> Store[H]:
        """What is held. Read it; never change it."""
        return self._cache.store

    @property
    def synced(self) -> bool:
        """Whether a whole list has been taken in."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        """Wait until a whole list has been taken in."""
        await self._synced.wait()

    def subscribe(self, listener: Listener[H]) -> Callable[[], None]:
        """Tell `listener` all that is held, now, then each change as it is taken in; the answer ends that.

        Listeners are called one after the other in the informer's own task and must not block.
        """
        return self._cache.subscribe(listener)

    def observe(self, item: Any) -> None:
        """Take in the server's reply to a write of our own; the watch's word for it will be old news."""
        self._cache.observe(item)

    async def run(self) -> None:
        """Keep the copy current until cancelled."""
        while True:
            try:
                if self._must_list:
                    await self._list()
                await self._follow()
            except KubeError as error:
                await self._wait_out(error)

    async def _list(self) -> None:
        keys: set[str] = set()
        version = ""
        async for page in self._client.pages(self._target, self._selection, limit=self._page):
            keys.update([self._cache.listed(item) for item in page.items])
            for broken in page.broken:
                self._log.error("object.unreadable", error=str(broken))
            version = page.version
            await asyncio.sleep(0)
        self._cache.completed(keys, version)
        self._must_list = False
        self._synced.set()
        self._log.debug("informer.listed", objects=len(keys), version=version)

    async def _follow(self) -> None:
        """Watch from where we are, until the server ends it or falls silent."""
        loop = asyncio.get_running_loop()
        started = heard = loop.time()
        told = 0
        try:
            async with (
                asyncio.timeout(self._silence) as deadline,
                self._client.watch(
                    self._target,
                    self._selection,
                    since=self._cache.progress,
                    seconds=self._lifetime(),
                    bookmarks=self._silence is not None,
                ) as events,
            ):
                async for event in events:
                    if self._silence is not None and loop.time() > heard:  # a burst is one sign of life
                        heard = loop.time()
                        deadline.reschedule(heard + self._silence)
                    self._take_in(event)
                    self._failures = 0
                    told += 1
                    if told % BREATH == 0:
                        await asyncio.sleep(0)
        except TimeoutError:
            self._log.warning("watch.silent", seconds=self._silence, version=self._cache.progress)
            return
        if not told and loop.time() - started < SHORTEST:
            self._failures += 1
            await asyncio.sleep(self._backoff.delay(self._failures, self._chance))

    def _take_in(self, event: WatchEvent[Any]) -> None:
        match event:
            case Bookmark(version=version):
                self._cache.reached(version)
            case Broken(which=which, error=error):
                self._log.error("object.unreadable", key=which.key, error=str(error))
                self._cache.reached(which.version)
            case _:
                self._cache.changed(event)

    async def _wait_out(self, error: KubeError) -> None:
        self._failures += 1
        if isinstance(error, Gone):
            self._log.info("watch.expired", version=self._cache.progress, error=str(error))
            self._must_list = True
            if self._failures == 1:
                return
        wait = max(asked_wait(error), self._backoff.delay(self._failures, self._chance))
        self._log.warning("informer.failed", error=str(error), failures=self._failures, wait=round(wait, 3))
        await asyncio.sleep(wait)

    @property
    def _log(self) -> structlog.stdlib.BoundLogger:
        return log.bind(kind=self._target.kind)

    def _lifetime(self) -> int:
        """Spread the ends of watches, so that they do not all come back at once."""
        shortest = 300 if self._silence is not None else 7200
        return round(shortest * (1 + self._chance.random()))
