"""
Which objects a workload manages: those that name it as their controller and match its selector.

A matching object without a controller is adopted; a managed one that no longer matches is released. Both are
decided here as values and written by :class:`ControllerRefManager`.
"""

from collections.abc import Iterable
from typing import Generic, TypeVar

import msgspec

from karpenter.api.meta import Resource
from karpenter.core.model.selectors import Selector
from karpenter.kube.client import Kind
from karpenter.kube.targets import Plain
from karpenter_local.controllers import plain
from karpenter_local.controllers.writer import Writer

T = TypeVar("T")
R = TypeVar("R", bound=Resource)


class ClaimedObjects(msgspec.Struct, Generic[T], frozen=True):
    """Candidates, by what becomes of them."""

    mine: tuple[T, ...]
    adopt: tuple[T, ...]
    release: tuple[T, ...]


def sort_pods(owner: Plain, selector: Selector, candidates: Iterable[R]) -> ClaimedObjects[R]:
    """Sort structs of the owner's namespace by whether it manages, adopts or releases them."""
    mine: list[R] = []
    adopt: list[R] = []
    release: list[R] = []
    uid = plain.uid_of(owner)
    for item in candidates:
        managed_by = plain.managing_owner(item.metadata.owner_references)
        matches = selector.matches(item.metadata.labels)
        if managed_by is not None and managed_by.uid == uid:
            (mine if matches else release).append(item)
        elif managed_by is None and matches and item.metadata.deletion_timestamp is None:
            adopt.append(item)
    return ClaimedObjects(tuple(mine), tuple(adopt), tuple(release))


def sort_plain(owner: Plain, selector: Selector, candidates: Iterable[Plain]) -> ClaimedObjects[Plain]:
    """Sort plain objects of the owner's namespace by whether it manages, adopts or releases them."""
    mine: list[Plain] = []
    adopt: list[Plain] = []
    release: list[Plain] = []
    for item in candidates:
        managed_by = plain.controller_uid(item)
        matches = selector.matches(plain.labels_of(item))
        if managed_by == plain.uid_of(owner):
            (mine if matches else release).append(item)
        elif not managed_by and matches and not plain.is_leaving(item):
            adopt.append(item)
    return ClaimedObjects(tuple(mine), tuple(adopt), tuple(release))


class ControllerRefManager:
    """Writes adoptions and releases."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    async def settle_pods(self, owner: Plain, kind: type[R], found: ClaimedObjects[R]) -> list[R]:
        """Adopt and release structs; return those that the owner manages afterwards."""
        kept = list(found.mine)
        if not plain.is_leaving(owner):
            for item in found.adopt:
                refs = [msgspec.to_builtins(ref) for ref in item.metadata.owner_references]
                taken = await self._write(owner, kind, (item.namespace, item.name, item.metadata.uid), refs)
                kept += [taken] if taken is not None else []
        for item in found.release:
            refs = [msgspec.to_builtins(r) for r in item.metadata.owner_references]
            await self._drop(owner, kind, (item.namespace, item.name, item.metadata.uid), refs)
        return kept

    async def settle_plain(
        self, owner: Plain, kind: Kind[Plain], found: ClaimedObjects[Plain]
    ) -> list[Plain]:
        """Adopt and release plain objects; return those that the owner manages afterwards."""
        kept = list(found.mine)
        if not plain.is_leaving(owner):
            for item in found.adopt:
                which = (plain.namespace_of(item), plain.name_of(item), plain.uid_of(item))
                taken = await self._write(owner, kind, which, plain.owners_of(item))
                kept += [taken] if taken is not None else []
        for item in found.release:
            which = (plain.namespace_of(item), plain.name_of(item), plain.uid_of(item))
            await self._drop(owner, kind, which, plain.owners_of(item))
        return kept

    async def _write(
        self, owner: Plain, kind: Kind[T], which: tuple[str, str, str], refs: list[Plain]
    ) -> T | None:
        namespace, name, uid = which
        changes = {"metadata": {"uid": uid, "ownerReferences": [*refs, plain.reference_to(owner)]}}
        return await self._writer.merge(kind, name, changes, namespace=namespace)

    async def _drop(
        self, owner: Plain, kind: Kind[T], which: tuple[str, str, str], refs: list[Plain]
    ) -> None:
        namespace, name, uid = which
        others = [ref for ref in refs if ref["uid"] != plain.uid_of(owner)]
        await self._writer.merge(
            kind, name, {"metadata": {"uid": uid, "ownerReferences": others}}, namespace=namespace
        )
