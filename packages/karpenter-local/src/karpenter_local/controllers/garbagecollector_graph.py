"""
The graph of owner references over all kinds, and what to do when an owner is deleted.

An object whose owners are all gone is deleted. One that still has an owner loses the references to those
that are gone. Foreground deletion of an owner deletes its dependents first; orphan deletion removes their
references.

Pure; :mod:`.garbagecollector` watches and writes.
"""

from collections.abc import Iterable

import msgspec

from karpenter.api.meta import OwnerReference

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"


class GraphNode(msgspec.Struct, frozen=True, kw_only=True):
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

    node: GraphNode
    uids: tuple[str, ...]


class Delete(msgspec.Struct, frozen=True):
    """Delete an object whose owners are all gone."""

    node: GraphNode
    propagation: str


class DropFinalizer(msgspec.Struct, frozen=True):
    """Let an owner go, because its dependents are dealt with."""

    node: GraphNode
    finalizer: str


Action = DropOwners | Delete | DropFinalizer


class OwnerGraph:
    """Everything, by uid, and what belongs to it."""

    def __init__(self) -> None:
        self._things: dict[str, GraphNode] = {}
        self._dependents: dict[str, dict[str, None]] = {}

    def put(self, node: GraphNode) -> list[str]:
        """Take in an object; return the uids that need to be looked at because of it."""
        before = self._things.get(node.uid)
        if before is not None:
            self._unlink(before)
        self._things[node.uid] = node
        for owner in node.owners:
            self._dependents.setdefault(owner.uid, {})[node.uid] = None
        affected = [node.uid] if node.owners or node.leaving else []
        if node.waits_for_dependents and not (before is not None and before.waits_for_dependents):
            affected += self._dependents.get(node.uid, {})
        # An owner that waits looks again when one of those it waits for changes its mind or its owners.
        affected += [o.uid for o in node.owners if (w := self.find(o.uid)) and w.waits_for_dependents]
        return affected

    def remove(self, uid: str) -> list[str]:
        """Take in that an object is gone; return the uids that need to be looked at because of it."""
        node = self._things.pop(uid, None)
        if node is None:
            return []
        self._unlink(node)
        return [*self._dependents.get(uid, ()), *(owner.uid for owner in node.owners)]

    def find(self, uid: str) -> GraphNode | None:
        return self._things.get(uid)

    def dependents(self, uid: str) -> list[GraphNode]:
        return [self._things[each] for each in self._dependents.get(uid, ()) if each in self._things]

    def _unlink(self, node: GraphNode) -> None:
        for owner in node.owners:
            children = self._dependents.get(owner.uid, {})
            children.pop(node.uid, None)
            if not children:
                self._dependents.pop(owner.uid, None)


def decide(graph: OwnerGraph, node: GraphNode, absent: Iterable[str]) -> list[Action]:
    """Return what to do about an object; `absent` are the uids of owners that are known to be gone."""
    if node.orphans_dependents:
        dropped: list[Action] = [DropOwners(each, (node.uid,)) for each in graph.dependents(node.uid)]
        return [*dropped, DropFinalizer(node, ORPHAN)]
    if node.waits_for_dependents and not _blocking(graph, node):
        return [DropFinalizer(node, FOREGROUND)]
    return [] if node.leaving else _without_owners(graph, node, set(absent))


def _without_owners(graph: OwnerGraph, node: GraphNode, gone: set[str]) -> list[Action]:
    waiting = [
        owner.uid
        for owner in node.owners
        if (found := graph.find(owner.uid)) is not None and found.waits_for_dependents
    ]
    solid = [owner for owner in node.owners if owner.uid not in gone and owner.uid not in waiting]
    lost = [owner.uid for owner in node.owners if owner.uid in gone or owner.uid in waiting]
    if not lost:
        return []
    if solid:
        return [DropOwners(node, tuple(lost))]
    if waiting and graph.dependents(node.uid):
        return [Delete(node, "Foreground")]
    return [Delete(node, _propagation(node))]


def _blocking(graph: OwnerGraph, node: GraphNode) -> list[GraphNode]:
    return [
        each
        for each in graph.dependents(node.uid)
        if any(owner.uid == node.uid and owner.block_owner_deletion for owner in each.owners)
    ]


def _propagation(node: GraphNode) -> str:
    if ORPHAN in node.finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND in node.finalizers else "Background"
