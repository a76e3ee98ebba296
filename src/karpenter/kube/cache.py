"""
What is news: turns lists, watch events and replies to our own writes into one story per object.

However often something is told, and however late, every listener hears each version of an object at most
once, in order, and hears of its end exactly once. An object that was deleted and made again while nobody
looked is told as an end and a beginning.

resourceVersions are compared as the numbers they are, across all objects of a kind. A server whose versions
are not numbers is taken at its word: only the very same version is recognised as old news.

No I/O and no clock: :mod:`.informer` feeds it.
"""

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec
import structlog

from karpenter.kube.sharing import share
from karpenter.kube.store import Indexer, Stamp, Store
from karpenter.kube.target import Identity, Target
from karpenter.kube.watch import Change

log = structlog.stdlib.get_logger(__name__)

H = TypeVar("H")

BEGINNING = "0"
"""The resourceVersion before all others."""

FAMILIES = 1000
"""Families that may be remembered beyond the number of objects."""


class Seen(msgspec.Struct, Generic[H], frozen=True):
    """An object is there, as it is now; `before` is what was told last, if it was told."""

    key: str
    object: H
    before: H | None = None


class Removed(msgspec.Struct, Generic[H], frozen=True):
    """An object is there no longer; this is what was told last."""

    key: str
    object: H


Event: TypeAlias = Seen[H] | Removed[H]
Listener: TypeAlias = Callable[[Event[H]], None]


def is_after(version: str, other: str) -> bool:
    """Return whether `version` is later than `other`; if that cannot be known, whether it differs."""
    if version.isdecimal() and other.isdecimal():
        return int(version) > int(other)
    return version != other


def _surely_after(version: str, other: str) -> bool:
    return version.isdecimal() and other.isdecimal() and int(version) > int(other)


class Cache(Generic[H]):
    """The newest of each object, and those who listen."""

    def __init__(
        self,
        target: Target[Any],
        *,
        narrow: Callable[[Any], H | None],
        indexers: Mapping[str, Indexer[H]] | None = None,
    ) -> None:
        self.store = Store[H](indexers)
        self.progress = BEGINNING
        """The resourceVersion up to which everything is known. What is held and later than it, we wrote."""

        self._target = target
        self._narrow = narrow
        self._listeners: list[Listener[H]] = []
        self._siblings: dict[str, str] = {}  # family to the key of one of it; the object may be gone

    def subscribe(self, listener: Listener[H]) -> Callable[[], None]:
        """Tell `listener` everything that is held, then everything that happens; the answer ends that."""
        self._listeners.append(listener)
        for key, item in self.store.items():
            self._tell_one(listener, Seen(key, item))
        return lambda: self._listeners.remove(listener)

    def listed(self, item: Any) -> str:
        """Take in an item of a list, and return its key.

        The list is right even where its versions are lower than ours: then the server was set back. Only
        what we wrote ourselves may be ahead of it.
        """
        which = self._target.identify(item)
        stamp = self.store.stamp(which.key)
        if stamp is None or not self._ahead_of(stamp, which.version):
            self._put(which, item)
        return which.key

    def completed(self, keys: set[str], version: str) -> None:
        """Take in the end of a list: what is held and was not in it has gone, unless we wrote it after."""
        for key, stamp in self.store.stamps():
            if key not in keys and not self._ahead_of(stamp, version):
                self._remove(key)
        self.progress = version

    def changed(self, change: Change[Any]) -> None:
        """Take in an event of a watch."""
        which = change.which
        if change.type == "DELETED":
            stamp = self.store.stamp(which.key)
            if stamp is not None and not _surely_after(stamp.version, which.version):
                self._remove(which.key)
        elif self._is_news(which):
            self._put(which, change.object)
        self.reached(which.version)

    def observe(self, item: Any) -> None:
        """Take in the server's reply to a write of our own, so that nobody waits for the watch to say it."""
        which = self._target.identify(item)
        held = which.key in self.store
        if self._is_newer_than_held(which) if held else is_after(which.version, self.progress):
            self._put(which, item)

    def reached(self, version: str) -> None:
        """Note that everything up to `version` was told, and nothing before it is news any more."""
        if is_after(version, self.progress):
            self.progress = version

    def _is_newer_than_held(self, which: Identity) -> bool:
        stamp = self.store.stamp(which.key)
        return stamp is None or is_after(which.version, stamp.version)

    def _is_news(self, which: Identity) -> bool:
        """Of an object that is not held, old news are told about its life before it was removed."""
        if which.key in self.store:
            return self._is_newer_than_held(which)
        return not _surely_after(self.progress, which.version)

    def _ahead_of(self, stamp: Stamp, version: str) -> bool:
        return _surely_after(stamp.version, version) and _surely_after(stamp.version, self.progress)

    def _put(self, which: Identity, item: Any) -> None:
        stamp = self.store.stamp(which.key)
        if stamp == Stamp(which.uid, which.version):
            return
        kept = self._narrow(item)
        if stamp is not None and (kept is None or stamp.uid != which.uid):
            self._remove(which.key)
        if kept is not None:
            self._economize(which.key, self._target.family(item), kept)
            before = self.store.put(which.key, kept, Stamp(which.uid, which.version))
            self._tell(Seen(which.key, kept, before))

    def _economize(self, key: str, family: str, kept: H) -> None:
        """Let `kept` share memory with what was held before, or else with one that is much like it."""
        if key in self.store:
            share(kept, self.store.get(key))
            return
        sibling = self._siblings.get(family, "")
        if sibling in self.store:
            share(kept, self.store.get(sibling))
            return
        share(kept, self.store.get(self._siblings.get("", "")))
        if len(self._siblings) > len(self.store) + FAMILIES:
            self._siblings.clear()
        self._siblings[family] = self._siblings[""] = key

    def _remove(self, key: str) -> None:
        before = self.store.remove(key)
        if before is not None:
            self._tell(Removed(key, before))

    def _tell(self, event: Event[H]) -> None:
        for listener in tuple(self._listeners):
            self._tell_one(listener, event)

    def _tell_one(self, listener: Listener[H], event: Event[H]) -> None:
        try:
            listener(event)
        except Exception:
            # One listener's bug must not stop the story for the others, nor go unheard.
            log.exception("listener.failed", kind=self._target.kind, key=event.key)
