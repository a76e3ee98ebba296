"""
The garbage collector: watches every served kind, and carries out what :mod:`.garbagecollector_graph`
decides.

An owner that is not in the graph may not have been watched yet, so before a dependent is deleted the API
server is asked for the owner. The served kinds are discovered again whenever a CustomResourceDefinition
changes. See https://kubernetes.io/docs/concepts/architecture/garbage-collection/
"""

import asyncio
from collections import OrderedDict
from functools import partial
from random import Random

import structlog

from karpenter.api.meta import OwnerReference
from karpenter.base.clock import Clock
from karpenter.base.queue import Supervisor
from karpenter.controllers.controller import Controller
from karpenter.kube.client import Client
from karpenter.kube.errors import Conflict, KubeError, NotFound
from karpenter.kube.informer import Informer, InformerDelete, InformerEvent
from karpenter.kube.patches import MergePatch
from karpenter.kube.rest import Preconditions
from karpenter_local.controllers.discovery import PartialObject, PartialObjects, Served, discover
from karpenter_local.controllers.garbagecollector_graph import (
    Action,
    Delete,
    DropFinalizer,
    DropOwners,
    GraphNode,
    OwnerGraph,
    decide,
)
from karpenter_local.controllers.loop import RETRIES

log = structlog.stdlib.get_logger(__name__)

DISCOVERY_SECONDS = 600.0
"""Seconds between two looks at what is served, if no definition changes in between."""
SETTLE_SECONDS = 0.2
"""Seconds that a changed definition is given to be served."""
WORKERS = 4
MAX_REMEMBERED_OWNERS = 4096
"""Owners known to be gone, so that the server is not asked about each of their dependents."""
IGNORED = frozenset({"Event"})


class Collector:
    """Deletes what has lost its owners."""

    name = "garbage-collector"

    def __init__(self, client: Client, clock: Clock, *, chance: Random) -> None:
        self._client = client
        self._clock = clock
        self._chance = chance
        self._graph = OwnerGraph()
        self._loop = Controller(self, workers=WORKERS, backoff=RETRIES)
        self._kinds: dict[tuple[str, str], Served] = {}
        self._following: dict[Served, tuple[Informer[PartialObject], Supervisor]] = {}
        self._redefined = asyncio.Event()
        self._absent: OrderedDict[str, None] = OrderedDict()

    def start(self, supervisor: Supervisor) -> None:
        supervisor.start("collector", self._follow)
        self._loop.start(supervisor)

    async def _follow(self) -> None:
        try:
            while True:
                try:
                    await self._look()
                except KubeError as error:
                    log.warning("collector.blind", error=str(error))
                await self._definitions_change()
        finally:
            for kind in list(self._following):
                await self._unfollow(kind)

    async def _definitions_change(self) -> None:
        self._redefined.clear()
        try:
            async with asyncio.timeout(DISCOVERY_SECONDS):
                await self._redefined.wait()
        except TimeoutError:
            return
        await self._clock.sleep(SETTLE_SECONDS)

    async def _look(self) -> None:
        """Follow the kinds that came, and forget those that went."""
        served = [each for each in await discover(self._client) if each.kind not in IGNORED]
        self._kinds = {(each.group, each.kind): each for each in served}
        watchable = [each for each in served if {"watch", "delete"} <= each.verbs]
        for kind in [each for each in self._following if each not in watchable]:
            await self._unfollow(kind)
        for kind in watchable:
            if kind not in self._following:
                informer: Informer[PartialObject] = Informer(
                    self._client, PartialObjects.of(kind), chance=self._chance, silence=None
                )
                informer.subscribe(partial(self._changed, kind))
                supervisor = Supervisor(chance=self._chance)
                supervisor.start(f"collector/{kind.plural}", informer.run)
                self._following[kind] = informer, supervisor

    async def _unfollow(self, kind: Served) -> None:
        informer, supervisor = self._following.pop(kind)
        await supervisor.stop()
        for found in informer.store:
            self._graph.remove(found.metadata.uid)

    def _changed(self, kind: Served, event: InformerEvent[PartialObject]) -> None:
        meta = event.object.metadata
        if kind.kind == "CustomResourceDefinition":
            self._redefined.set()
        if isinstance(event, InformerDelete):
            affected = self._graph.remove(meta.uid)
            self._note_absent(meta.uid)
        else:
            affected = self._graph.put(
                GraphNode(
                    api_version=kind.api_version,
                    kind=kind.kind,
                    namespace=meta.namespace,
                    name=meta.name,
                    uid=meta.uid,
                    owners=meta.owner_references,
                    finalizers=meta.finalizers,
                    leaving=meta.deletion_timestamp is not None,
                )
            )
        for uid in affected:
            self._loop.queue.add(uid)

    async def reconcile(self, key: str) -> float | None:
        """Delete an object whose owners are gone; `key` is its uid."""
        node = self._graph.find(key)
        if node is None:
            return None
        absent = [owner.uid for owner in node.owners if await self._is_gone(node, owner)]
        for action in decide(self._graph, node, absent):
            await self._perform(action)
        return None

    async def _is_gone(self, node: GraphNode, owner: OwnerReference) -> bool:
        """Say whether an owner is gone; if the graph does not know it, ask the server."""
        if self._graph.find(owner.uid) is not None:
            return False
        if owner.uid in self._absent:
            return True
        kind = self._kinds.get((owner.api_version.rpartition("/")[0], owner.kind))
        if kind is None or (kind.namespaced and not node.namespace):
            return False  # of a kind that cannot be asked about: leave it alone
        try:
            found = await self._client.get(
                PartialObjects.of(kind), owner.name, namespace=node.namespace if kind.namespaced else ""
            )
        except NotFound:
            self._note_absent(owner.uid)
            return True
        return found.metadata.uid != owner.uid

    def _note_absent(self, uid: str) -> None:
        self._absent[uid] = None
        if len(self._absent) > MAX_REMEMBERED_OWNERS:
            self._absent.popitem(last=False)

    async def _perform(self, action: Action) -> None:
        node = action.node
        kind = self._kinds.get((node.api_version.rpartition("/")[0], node.kind))
        if kind is None:
            return
        target = PartialObjects.of(kind)
        try:
            match action:
                case Delete(propagation=propagation):
                    await self._client.delete(
                        target,
                        node.name,
                        namespace=node.namespace,
                        only_if=Preconditions(uid=node.uid),
                        propagation=propagation,
                    )
                    log.debug("object.collected", kind=node.kind, namespace=node.namespace, name=node.name)
                case DropOwners(uids=uids):
                    found = await self._client.get(target, node.name, namespace=node.namespace)
                    kept = [o for o in found.metadata.owner_references if o.uid not in uids]
                    await self._patch(
                        target, found, {"ownerReferences": [_plain(owner) for owner in kept] or None}
                    )
                case DropFinalizer(finalizer=finalizer):
                    found = await self._client.get(target, node.name, namespace=node.namespace)
                    finalizers = [each for each in found.metadata.finalizers if each != finalizer]
                    await self._patch(target, found, {"finalizers": finalizers or None})
        except (NotFound, Conflict):
            # Gone, replaced under its name, or changed meanwhile: its next event queues it again.
            self._loop.queue.retry(node.uid)

    async def _patch(self, target: PartialObjects, found: PartialObject, metadata: dict[str, object]) -> None:
        meta = found.metadata
        change = MergePatch({"metadata": {"uid": meta.uid, **metadata}}, meta.resource_version)
        await self._client.patch(target, meta.name, change, namespace=meta.namespace)


def _plain(owner: OwnerReference) -> dict[str, object]:
    plain: dict[str, object] = {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
    }
    if owner.controller:
        plain["controller"] = True
    if owner.block_owner_deletion:
        plain["blockOwnerDeletion"] = True
    return plain
