"""
Who belongs to whom, over all kinds, and what that means when an owner goes.

An object whose owners are all gone goes too. One that still has an owner only loses the references to those
that are gone. An owner that waits for its dependents (foreground deletion) has them deleted first; one that
leaves them behind (orphan) has their references removed.

Pure bookkeeping and decisions; :mod:`.collector` looks and writes.
"""

from collections.abc import Iterable

import msgspec

from karpenter.api.meta import OwnerReference

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"


class Thing(msgspec.Struct, frozen=True, kw_only=True):
    """One object of any kind."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    owners: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()
    leaving: bool = False

    @property
    def waits_for_dependents(self) -> bool:
        """Whether it goes only after what belongs to it."""
        return self.leaving and FOREGROUND in self.finalizers

    @property
    def orphans_dependents(self) -> bool:
        """Whether it goes and leaves behind what belongs to it."""
        return self.leaving and ORPHAN in self.finalizers


class DropOwners(msgspec.Struct, frozen=True):
    """Remove references to owners that are gone, or that wait for this object to go."""

    thing: Thing
    uids: tuple[str, ...]


class Delete(msgspec.Struct, frozen=True):
    """Delete an object that nobody owns any more."""

    thing: Thing
    propagation: str


class DropFinalizer(msgspec.Struct, frozen=True):
    """Let an owner go, because its dependents are dealt with."""

    thing: Thing
    finalizer: str


Action = DropOwners | Delete | DropFinalizer


class Graph:
    """Everything, by uid, and what belongs to it."""

    def __init__(self) -> None:
        self._things: dict[str, Thing] = {}
        self._dependents: dict[str, dict[str, None]] = {}

    def put(self, thing: Thing) -> list[str]:
        """Take in an object; return the uids that need to be looked at because of it."""
        before = self._things.get(thing.uid)
        if before is not None:
            self._unlink(before)
        self._things[thing.uid] = thing
        for owner in thing.owners:
            self._dependents.setdefault(owner.uid, {})[thing.uid] = None
        affected = [thing.uid] if thing.owners or thing.leaving else []
        if thing.waits_for_dependents and not (before is not None and before.waits_for_dependents):
            affected += self._dependents.get(thing.uid, {})
        # An owner that waits looks again when one of those it waits for changes its mind or its owners.
        affected += [o.uid for o in thing.owners if (w := self.find(o.uid)) and w.waits_for_dependents]
        return affected

    def remove(self, uid: str) -> list[str]:
        """Take in that an object is gone; return the uids that need to be looked at because of it."""
        thing = self._things.pop(uid, None)
        if thing is None:
            return []
        self._unlink(thing)
        return [*self._dependents.get(uid, ()), *(owner.uid for owner in thing.owners)]

    def find(self, uid: str) -> Thing | None:
        """Return the object with this uid."""
        return self._things.get(uid)

    def dependents(self, uid: str) -> list[Thing]:
        """Return what belongs to an object."""
        return [self._things[each] for each in self._dependents.get(uid, ()) if each in self._things]

    def _unlink(self, thing: Thing) -> None:
        for owner in thing.owners:
            children = self._dependents.get(owner.uid, {})
            children.pop(thing.uid, None)
            if not children:
                self._dependents.pop(owner.uid, None)


def decide(graph: Graph, thing: Thing, absent: Iterable[str]) -> list[Action]:
    """Return what to do about an object; `absent` are the uids of owners that are known to be gone."""
    if thing.orphans_dependents:
        dropped: list[Action] = [DropOwners(each, (thing.uid,)) for each in graph.dependents(thing.uid)]
        return [*dropped, DropFinalizer(thing, ORPHAN)]
    if thing.waits_for_dependents and not _blocking(graph, thing):
        return [DropFinalizer(thing, FOREGROUND)]
    return [] if thing.leaving else _without_owners(graph, thing, set(absent))


def _without_owners(graph: Graph, thing: Thing, gone: set[str]) -> list[Action]:
    waiting = [
        owner.uid
        for owner in thing.owners
        if (found := graph.find(owner.uid)) is not None and found.waits_for_dependents
    ]
    solid = [owner for owner in thing.owners if owner.uid not in gone and owner.uid not in waiting]
    lost = [owner.uid for owner in thing.owners if owner.uid in gone or owner.uid in waiting]
    if not lost:
        return []
    if solid:
        return [DropOwners(thing, tuple(lost))]
    if waiting and graph.dependents(thing.uid):
        return [Delete(thing, "Foreground")]
    return [Delete(thing, _propagation(thing))]


def _blocking(graph: Graph, thing: Thing) -> list[Thing]:
    """Return the dependents that the owner has to outlive."""
    return [
        each
        for each in graph.dependents(thing.uid)
        if any(owner.uid == thing.uid and owner.block_owner_deletion for owner in each.owners)
    ]


def _propagation(thing: Thing) -> str:
    if ORPHAN in thing.finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND in thing.finalizers else "Background"
