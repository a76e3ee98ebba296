"""
Informers: a local copy of all objects of a kind, kept current by list and watch, with event handlers.

:class:`Informer` lists once, page by page, then watches from the list's resourceVersion. A watch that ends
or breaks is resumed at its last resourceVersion. When the server no longer has that version (410 Gone), the
informer lists again and reports only the differences. A connection without any event or bookmark is closed
after :data:`IDLE_TIMEOUT`. Every failure is logged and retried with backoff. An informer runs in a task
until cancelled. See
https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes.

:class:`Cache` turns lists, watch events and replies to our own writes into one sequence of events per
object. A handler gets each version of an object at most once, in order, and its deletion exactly once. An
object that was deleted and created again between two lists is reported as a deletion and an addition.
Numeric resourceVersions are compared as numbers across all objects of a kind; of other versions only
equality is known.

:class:`IndexedStore` holds the newest version of each object by key and by index.

:func:`share` saves memory: pods of one owner differ in little but name and node, so the equal parts of two
objects become the same value. Two versions of an object then share what has not changed, and ``before.spec
is after.spec`` is a cheap test. Values are never modified. Plain dictionaries are not shared, because their
users may write to them.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import repeat
from operator import attrgetter
from random import Random
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar, overload

import msgspec
import structlog
from msgspec.structs import force_setattr

from karpenter.api.meta import tells_absent
from karpenter.base.queue import Backoff
from karpenter.kube.client import (
    PAGE,
    Bookmark,
    Client,
    Kind,
    UndecodableObject,
    WatchChange,
    WatchEvent,
    retry_after_of,
)
from karpenter.kube.errors import Gone, KubeError, UndecodableResponse
from karpenter.kube.rest import EVERYTHING, Selection
from karpenter.kube.targets import ObjectIdentity, Target, target_of

T = TypeVar("T")

IndexFunc = Callable[[T], Iterable[str]]
"""Returns the index values of an object."""

_Fields = tuple[tuple[str, ...], Callable[[Any], tuple[Any, ...]], bool]
"""The names of a struct's fields, a function that reads them all, and whether it tells what was not given."""

_FIELDS: dict[type, _Fields | None] = {}
"""How structs are read, by type; None for types that are no structs."""

log = structlog.stdlib.get_logger(__name__)
H = TypeVar("H")
# A list at version 0 may be answered from the watch cache of any API server, and is cheap:
# https://kubernetes.io/docs/reference/using-api/api-concepts/#semantics-for-get-and-list
BEGINNING = "0"
"""The resourceVersion before all others."""

MAX_WRITTEN = 10_000
"""Writes of ours that are remembered until the watch tells of them."""

MAX_EXTRA_FAMILIES = 1000
"""Families (owners) that are kept beyond the number of objects."""

# A load balancer may drop a silent connection without a word to either side, so silence ends a watch:
# https://kubernetes.io/docs/reference/using-api/api-concepts/#watch-bookmarks
IDLE_TIMEOUT = 90.0
"""Seconds without a line after which a watch is closed. Servers send a bookmark about once a minute."""

PROLONG_SECONDS = 1.0
"""Seconds between two prolongations of the idle timeout, by which a watch may be closed early."""

MIN_WATCH_SECONDS = 1.0
"""A watch that ends sooner without an event counts as failed and is retried with backoff."""

EVENTS_PER_TURN = 100
"""Events after which other tasks get a turn."""

RECONNECTS = Backoff(first=0.5, cap=30.0, jitter=0.5)


class ObjectVersion(NamedTuple):
    """The uid and the resourceVersion of an object."""

    uid: str
    version: str


class IndexedStore(Generic[T]):
    """Objects by key, with their versions and indexes."""

    def __init__(self, indexers: Mapping[str, IndexFunc[T]] | None = None) -> None:
        self._indexers = dict(indexers or {})
        self._objects: dict[str, T] = {}
        self._stamps: dict[str, ObjectVersion] = {}
        # Dictionaries and not sets: their order is the order of insertion, so that every run is the same.
        self._indexes: dict[str, dict[str, dict[str, None]]] = {name: {} for name in self._indexers}

    def __len__(self) -> int:
        return len(self._objects)

    def __contains__(self, key: object) -> bool:
        return key in self._objects

    def __iter__(self) -> Iterator[T]:
        return iter(self._objects.values())

    def items(self) -> tuple[tuple[str, T], ...]:
        return tuple(self._objects.items())

    def stamps(self) -> tuple[tuple[str, ObjectVersion], ...]:
        """Return every key with the uid and resourceVersion of its object."""
        return tuple(self._stamps.items())

    def get(self, key: str) -> T | None:
        return self._objects.get(key)

    def stamp(self, key: str) -> ObjectVersion | None:
        return self._stamps.get(key)

    def find(self, index: str, value: str) -> tuple[T, ...]:
        return tuple(self._objects[key] for key in self._indexes[index].get(value, ()))

    def values(self, index: str) -> tuple[str, ...]:
        return tuple(self._indexes[index])

    def put(self, key: str, item: T, stamp: ObjectVersion) -> T | None:
        before = self._objects.get(key)
        self._objects[key] = item
        self._stamps[key] = stamp
        for name, indexer in self._indexers.items():
            index, values = self._indexes[name], indexer(item)
            if before is not None:
                was = indexer(before)
                if was == values:
                    continue  # most changes move an object in no index
                _unindex(index, key, was)
            for value in values:
                index.setdefault(value, {})[key] = None
        return before

    def remove(self, key: str) -> T | None:
        before = self._objects.pop(key, None)
        self._stamps.pop(key, None)
        if before is not None:
            for name, indexer in self._indexers.items():
                _unindex(self._indexes[name], key, indexer(before))
        return before


def _unindex(index: dict[str, dict[str, None]], key: str, values: Iterable[str]) -> None:
    for value in values:
        keys = index.get(value, {})
        keys.pop(key, None)
        if not keys:
            index.pop(value, None)


def share(new: object, old: object, beside: object = None) -> bool:
    """
    Let `new` use the parts of `old` that equal its own, at any depth, and else those of `beside`.

    All must be structs of one type. Return whether `new` and `old` are the same, also in what was not given:
    an empty map and one that was not given are equal, and must not take each other's place in what is hashed.
    """
    kind = type(new)
    if kind is not type(old) or (fields := _fields(kind)) is None:
        return False
    names, read, _ = fields
    sides = read(beside) if type(beside) is kind else repeat(None)
    same = True
    for name, mine, other, side in zip(names, read(new), read(old), sides, strict=False):
        if mine is other:
            continue
        if type(mine) is str:  # names, uids and versions: most of what is not the same value already
            shared = other if mine == other else side if mine == side else mine
        else:
            shared = _shared(mine, other, side)
        if shared is not other:
            same = False
        if shared is not mine:
            force_setattr(new, name, shared)  # type: ignore[arg-type]  # it has fields, so it is a struct
    return same


def _shared(mine: Any, other: Any, side: Any = None) -> Any:
    """Return `other` or `side` where one is the same; else `mine`, which shares its parts with them."""
    kind = type(mine)
    alike = kind is type(other)
    fields = _FIELDS[kind] if kind in _FIELDS else _fields(kind)
    if fields is not None and fields[2]:
        return other if share(mine, other, side) else mine
    if alike and mine == other:
        return other
    if side is not None and kind is type(side) and mine == side:
        return side
    if fields is not None:
        share(mine, other if alike else side, side)
    elif alike and kind is tuple and len(mine) == len(other):
        sides = side if type(side) is tuple and len(side) == len(mine) else (None,) * len(mine)
        return tuple(map(_shared, mine, other, sides))
    return mine


def _fields(kind: type) -> _Fields | None:
    """Return how a struct is read; None for what is no struct."""
    # Whether a type is one is asked of a dictionary: asking the metaclass takes as long as all the rest.
    if kind in _FIELDS:
        return _FIELDS[kind]
    found: _Fields | None = None
    if issubclass(kind, msgspec.Struct):
        names = kind.__struct_fields__
        # A getter of one name returns a bare value, and there is none of no name: use the slow way for those.
        read = attrgetter(*names) if len(names) > 1 else msgspec.structs.astuple
        found = (names, read, tells_absent(kind))
    _FIELDS[kind] = found
    return found


class InformerUpdate(msgspec.Struct, Generic[H], frozen=True):
    """An object was added or modified; `before` is the version that was reported before, if any."""

    key: str
    object: H
    before: H | None = None


class InformerDelete(msgspec.Struct, Generic[H], frozen=True):
    """An object was deleted; `object` is the version that was reported last."""

    key: str
    object: H


InformerEvent: TypeAlias = InformerUpdate[H] | InformerDelete[H]
EventHandler: TypeAlias = Callable[[InformerEvent[H]], None]


def is_after(version: str, other: str) -> bool:
    """Return whether `version` is later than `other`; if that cannot be known, whether it differs."""
    # Resource versions are opaque by contract, but etcd's are increasing numbers, and informers of
    # client-go rely on that in the same way: https://kubernetes.io/docs/reference/using-api/api-concepts/
    if version.isdecimal() and other.isdecimal():
        return int(version) > int(other)
    return version != other


def _surely_after(version: str, other: str) -> bool:
    return version.isdecimal() and other.isdecimal() and int(version) > int(other)


class Cache(Generic[H]):
    """The newest version of each object, and the event handlers."""

    def __init__(
        self,
        target: Target[Any],
        *,
        narrow: Callable[[Any], H | None],
        indexers: Mapping[str, IndexFunc[H]] | None = None,
        shares: bool = True,
    ) -> None:
        self.store = IndexedStore[H](indexers)
        self.progress = BEGINNING
        """The resourceVersion up to which all changes are known; later objects we wrote ourselves."""

        self.written: set[tuple[str, str]] = set()
        """Uid and version of what we wrote ourselves and the watch has not told of yet."""

        self._target = target
        self._narrow = narrow
        self._shares = shares
        self._listeners: list[EventHandler[H]] = []
        self._siblings: dict[str, str] = {}  # family to the key of one of it; the object may be gone

    def subscribe(self, listener: EventHandler[H]) -> Callable[[], None]:
        """Call `listener` for every object, then for every change; the returned function unsubscribes it."""
        self._listeners.append(listener)
        for key, item in self.store.items():
            self._notify_one(listener, InformerUpdate(key, item))
        return lambda: self._listeners.remove(listener)

    def listed(self, item: Any) -> str:
        """Apply an item of a list, and return its key.

        The list is right even where its versions are lower than ours: then the server was restored from a
        backup. Only objects that we wrote ourselves may be ahead of it.
        """
        which = self._target.identify(item)
        stamp = self.store.stamp(which.key)
        if stamp is None or not self._ahead_of(stamp, which.version):
            self._put(which, item)
        return which.key

    def completed(self, keys: set[str], version: str) -> None:
        """Apply the end of a list: an object that is not in it was deleted, unless we wrote it later."""
        for key, stamp in self.store.stamps():
            if key not in keys and not self._ahead_of(stamp, version):
                self._remove(key)
        self.progress = version
        self.written.clear()  # a server that was restored from a backup may use the same versions again

    def changed(self, change: WatchChange[Any]) -> None:
        which = change.which
        if change.type == "DELETED":
            stamp = self.store.stamp(which.key)
            if stamp is not None and not _surely_after(stamp.version, which.version):
                self._remove(which.key)
        elif self._is_new(which):
            self._put(which, change.object)
        self.reached(which.version)

    def observe(self, item: Any) -> None:
        """Apply the server's reply to a write of ours, without waiting for its watch event."""
        which = self._target.identify(item)
        stamp = self.store.stamp(which.key)
        if is_after(which.version, self.progress if stamp is None else stamp.version):
            if len(self.written) > MAX_WRITTEN:
                self.written.clear()  # the watch is far behind, or the server tells another version
            self.written.add((which.uid, which.version))
            self._put(which, item)

    def reached(self, version: str) -> None:
        """Note that all changes up to `version` are known."""
        if is_after(version, self.progress):
            self.progress = version

    def _is_new(self, which: ObjectIdentity) -> bool:
        """An old event about an object that is not in the store is from before its deletion."""
        stamp = self.store.stamp(which.key)
        if stamp is not None:
            return is_after(which.version, stamp.version)
        return not _surely_after(self.progress, which.version)

    def _ahead_of(self, stamp: ObjectVersion, version: str) -> bool:
        return _surely_after(stamp.version, version) and _surely_after(stamp.version, self.progress)

    def _put(self, which: ObjectIdentity, item: Any) -> None:
        key = which.key
        stamp = self.store.stamp(key)
        # A list and a watch may tell of one version twice, and our own write is seen before the watch tells
        # of it:
        # https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
        if stamp == ObjectVersion(which.uid, which.version):
            return
        kept = self._narrow(item)
        # Another uid under the same name is another object, created after the first was deleted:
        # https://kubernetes.io/docs/concepts/overview/working-with-objects/names/#uids
        if stamp is not None and (kept is None or stamp.uid != which.uid):
            self._remove(key)
        if kept is not None:
            if self._shares:
                self._share(key, self._target.family(item), kept)
            before = self.store.put(key, kept, ObjectVersion(which.uid, which.version))
            self._notify(InformerUpdate(key, kept, before))

    def _share(self, key: str, family: str, kept: H) -> None:
        """Share memory with an object of the same owner, and with the version before."""
        sibling = self._siblings.get(family, "")
        if key in self.store:
            # What has changed may be as it is elsewhere: pods come one by one as Pending, and then run. The
            # version before comes first, so that what has not changed stays the same value.
            beside = self.store.get(sibling) if sibling != key else None
            share(kept, self.store.get(key), beside)
            return
        if sibling in self.store:
            share(kept, self.store.get(sibling))
            return
        share(kept, self.store.get(self._siblings.get("", "")))
        if len(self._siblings) > len(self.store) + MAX_EXTRA_FAMILIES:
            self._siblings.clear()
        self._siblings[family] = self._siblings[""] = key

    def _remove(self, key: str) -> None:
        before = self.store.remove(key)
        if before is not None:
            self._notify(InformerDelete(key, before))

    def _notify(self, event: InformerEvent[H]) -> None:
        for listener in tuple(self._listeners):
            self._notify_one(listener, event)

    def _notify_one(self, listener: EventHandler[H], event: InformerEvent[H]) -> None:
        try:
            listener(event)
        except Exception:
            # An error of one handler must not stop the others.
            log.exception("listener.failed", kind=self._target.kind, key=event.key)


def keep(item: T) -> T:
    return item


class StaleObject(KubeError):  # noqa: N818  says what is wrong
    """An object that is held has a new version that cannot be decoded."""

    def __init__(self, key: str) -> None:
        super().__init__(f"{key}: the new version cannot be decoded")


class Informer(Generic[H]):
    """A local copy of the selected objects of one kind.

    ``narrow`` returns what is stored of each object; None means that it is not stored. Use a selection
    where the server can filter. Without ``silence`` there is no idle timeout, for a server in the same
    process. Without ``shares`` equal parts of objects stay values of their own: that takes memory, and saves
    looking for them.
    """

    @overload
    def __init__(
        self,
        client: Client,
        kind: Kind[H],
        *,
        chance: Random,
        selection: Selection = ...,
        indexers: Mapping[str, IndexFunc[H]] | None = ...,
        page: int = ...,
        silence: float | None = ...,
        shares: bool = ...,
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
        indexers: Mapping[str, IndexFunc[H]] | None = ...,
        page: int = ...,
        silence: float | None = ...,
        shares: bool = ...,
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
        indexers: Mapping[str, IndexFunc[H]] | None = None,
        page: int = PAGE,
        silence: float | None = IDLE_TIMEOUT,
        shares: bool = True,
        backoff: Backoff = RECONNECTS,
    ) -> None:
        self._client = client
        self._target = target_of(kind)
        self._cache = Cache[H](self._target, narrow=narrow, indexers=indexers, shares=shares)
        self._chance = chance
        self._selection = selection
        self._page = page
        self._silence = silence
        self._was_silent = False
        self._backoff = backoff
        self._failures = 0
        self._must_list = True
        self._synced = asyncio.Event()
        self.problem = ""
        """Why the copy may be out of date; empty while the server answers."""

        self.lost_at: float | None = None
        """When the server stopped to answer, by the clock of the event loop; None while it answers."""

    @property
    def store(self) -> IndexedStore[H]:
        """The objects; read only."""
        return self._cache.store

    @property
    def synced(self) -> bool:
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        await self._synced.wait()

    def subscribe(self, listener: EventHandler[H]) -> Callable[[], None]:
        """Call `listener` for every object, then for every change; the returned function unsubscribes it.

        Listeners are called one after the other in the informer's own task and must not block.
        """
        return self._cache.subscribe(listener)

    def observe(self, item: Any) -> None:
        """Apply the server's reply to a write of ours; its watch event is then ignored."""
        self._cache.observe(item)

    async def run(self) -> None:
        while True:
            try:
                if self._must_list:
                    await self._list()
                await self._follow()
            except KubeError as error:
                await self._back_off(error)

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
        """Watch from the last resourceVersion until the server ends the watch or the idle timeout passes."""
        loop = asyncio.get_running_loop()
        started = last_line = loop.time()
        received = 0
        try:
            async with (
                asyncio.timeout(self._silence) as deadline,
                self._client.watch(
                    self._target,
                    self._selection,
                    since=self._cache.progress,
                    seconds=self._lifetime(),
                    bookmarks=self._silence is not None,
                    known=self._cache.written,
                ) as events,
            ):
                self.problem, self.lost_at = "", None
                async for event in events:
                    # Every event would set a timer, so the idle timeout is prolonged once a second.
                    if self._silence is not None and loop.time() >= last_line + PROLONG_SECONDS:
                        last_line = loop.time()
                        deadline.reschedule(last_line + self._silence)
                    if self._was_silent:
                        self._judge_silence(event, resumed=loop.time() - started)
                    self._apply(event)
                    self._failures = 0
                    received += 1
                    if received % EVENTS_PER_TURN == 0:
                        await asyncio.sleep(0)
        except TimeoutError:
            self._was_silent = True
            self._log.debug("watch.idle", seconds=self._silence, version=self._cache.progress)
            return
        if not received and loop.time() - started < MIN_WATCH_SECONDS:
            self._failures += 1
            await asyncio.sleep(self._backoff.delay(self._failures, self._chance))

    def _judge_silence(self, event: WatchEvent[Any], *, resumed: float) -> None:
        """
        Warn if there was news while the last watch was silent: then its connection was lost.

        Silence alone says nothing: kube-apiserver drops bookmarks that are older than the list a watch began
        with, so a kind that does not change may send none until etcd reports progress, after ten minutes.
        See https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/apiserver/pkg/storage/cacher/cache_watcher.go
        """
        self._was_silent = False
        if not isinstance(event, Bookmark) and resumed < MIN_WATCH_SECONDS:
            self._log.warning("watch.silent", seconds=self._silence, version=self._cache.progress)

    def _apply(self, event: WatchEvent[Any]) -> None:
        match event:
            case Bookmark(version=version):
                self._cache.reached(version)
            case UndecodableObject(which=which, error=error):
                self._log.error("object.unreadable", key=which.key, error=str(error))
                if which.key in self._cache.store:  # what is held is stale, and a list drops it
                    raise StaleObject(which.key)
                self._cache.reached(which.version)
            case _:
                self._cache.changed(event)

    async def _back_off(self, error: KubeError) -> None:
        self._failures += 1
        if isinstance(error, Gone):
            self._log.info("watch.expired", version=self._cache.progress, error=str(error))
            self._must_list = True
            if self._failures == 1:
                return
        if isinstance(error, UndecodableResponse | StaleObject):
            self._must_list = True  # what the stream said of an object is lost
        self.problem = str(error)
        if self.lost_at is None:
            self.lost_at = asyncio.get_running_loop().time()
        wait = max(retry_after_of(error), self._backoff.delay(self._failures, self._chance))
        self._log.warning("informer.failed", error=str(error), failures=self._failures, wait=round(wait, 3))
        await asyncio.sleep(wait)

    @property
    def _log(self) -> structlog.stdlib.BoundLogger:
        return log.bind(kind=self._target.kind)

    def _lifetime(self) -> int:
        """Spread the ends of watches, so that they do not reconnect all at once."""
        shortest = 300 if self._silence is not None else 7200
        return round(shortest * (1 + self._chance.random()))
