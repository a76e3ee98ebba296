"""
Writes of the embedded controllers, scheduler and kubelets: through the client, and into the informers at
once.

The server's reply to each write is given to the informer of its kind, so the next reader sees it before the
watch delivers it. A delete of what is gone and a create of what exists are not errors.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from karpenter.api.meta import ObjectReference, Resource
from karpenter.base.ratelimiting import TokenBucket
from karpenter.kube import rest
from karpenter.kube.client import Client, Kind
from karpenter.kube.errors import AlreadyExists, Conflict, NotFound
from karpenter.kube.patches import MergePatch, Patch, StrategicPatch
from karpenter.kube.recorder import RecordedEvent, Recorder
from karpenter.kube.rest import Preconditions
from karpenter.kube.targets import Plain, target_of
from karpenter_local.controllers.informers import Informers

T = TypeVar("T")


YIELD_EVERY = 16
"""Writes after which the other tasks get a turn: in process, a write is answered without waiting."""
# https://github.com/kubernetes/client-go/blob/master/tools/record/events_cache.go
EVENT_BURST = 25
"""
Events about one object in quick succession; after that, one every five minutes, as client-go's spam filter.
"""
EVENT_QPS = 1 / 300
MAX_EVENT_OBJECTS = 4096


class Writer:
    """Writes as one component, and records Events."""

    def __init__(self, client: Client, informers: Informers, recorder: Recorder) -> None:
        self.client = client
        self._informers = informers
        self._recorder = recorder
        self._writes = 0
        self._batch_delay: OrderedDict[str, TokenBucket] = OrderedDict()
        """The event budget of each object."""

    async def create(self, kind: Kind[T], body: Mapping[str, Any], *, namespace: str = "") -> T:
        """Make an object.

        Raises:
            KubeError: as the client does.
        """
        made = await self.client.create(kind, body, namespace=namespace)
        self._observe(kind, made)
        await self._yield_to_others()
        return made

    async def ensure(self, kind: Kind[T], body: Mapping[str, Any], *, namespace: str = "") -> bool:
        """Make an object unless one of its name is there; say whether it was made."""
        try:
            await self.create(kind, body, namespace=namespace)
        except AlreadyExists:
            return False
        return True

    async def patch(
        self, kind: Kind[T], name: str, change: Patch, *, namespace: str = "", subresource: str = ""
    ) -> T | None:
        """Change part of an object; None if it is gone."""
        try:
            changed = await self.client.patch(
                kind, name, change, namespace=namespace, subresource=subresource
            )
        except NotFound:
            return None
        self._observe(kind, changed)
        await self._yield_to_others()
        return changed

    async def merge(
        self, kind: Kind[T], name: str, changes: Mapping[str, Any], *, namespace: str = "", version: str = ""
    ) -> T | None:
        """Merge `changes` into an object; None if it is gone.

        Raises:
            Conflict: it is no longer at `version`.
        """
        return await self.patch(kind, name, MergePatch(changes, version), namespace=namespace)

    async def set_status(
        self,
        kind: Kind[T],
        name: str,
        status: Mapping[str, Any],
        *,
        namespace: str = "",
        strategic: bool = False,
    ) -> T | None:
        """Merge into the status of an object; strategic, lists are merged by their keys."""
        change: Patch = StrategicPatch({"status": status}) if strategic else MergePatch({"status": status})
        return await self.patch(kind, name, change, namespace=namespace, subresource="status")

    async def delete(
        self,
        kind: Kind[Any],
        name: str,
        *,
        namespace: str = "",
        uid: str = "",
        grace: int | None = None,
        propagation: str = "",
    ) -> bool:
        """Ask for an object to go; say whether there was one (of that uid) to ask."""
        target = target_of(kind)
        request = rest.delete(
            target,
            name,
            namespace=namespace,
            only_if=Preconditions(uid=uid),
            grace=grace,
            propagation=propagation,
        )
        try:
            response = await self.client.send(request)
        except (NotFound, Conflict):
            return False
        if msgspec.json.decode(response.body, type=_Head).kind == target.kind:
            self._observe(kind, target.read(response.body))
        await self._yield_to_others()
        return True

    def record_event(
        self, about: Plain | Resource | ObjectReference, type_: str, reason: str, message: str
    ) -> None:
        """Publish an event about an object, unless too much is being said of it."""
        subject = reference(about)
        if not self._bucket(subject.uid).try_take():
            return
        self._recorder.publish(
            RecordedEvent(
                about=subject,
                type="Warning" if type_ == "Warning" else "Normal",
                reason=reason,
                message=message,
                quiet_for=0.0,
            )
        )

    def _bucket(self, uid: str) -> TokenBucket:
        bucket = self._batch_delay.get(uid)
        if bucket is None:
            bucket = self._batch_delay[uid] = TokenBucket(rate=EVENT_QPS, burst=EVENT_BURST)
            if len(self._batch_delay) > MAX_EVENT_OBJECTS:
                self._batch_delay.popitem(last=False)
        return bucket

    async def _yield_to_others(self) -> None:
        self._writes += 1
        if self._writes % YIELD_EVERY == 0:
            await asyncio.sleep(0)

    def _observe(self, kind: Kind[T], item: T) -> None:
        informer = self._informers.of(target_of(kind).kind)
        if informer is not None:
            informer.observe(item)


class _Head(msgspec.Struct, frozen=True):
    kind: str = ""


def reference(about: Plain | Resource | ObjectReference) -> ObjectReference:
    if isinstance(about, ObjectReference):
        return about
    if isinstance(about, dict):
        meta = about["metadata"]
        return ObjectReference(
            api_version=about["apiVersion"],
            kind=about["kind"],
            namespace=meta.get("namespace", ""),
            name=meta["name"],
            uid=meta.get("uid", ""),
            resource_version=meta.get("resourceVersion", ""),
        )
    meta = about.metadata
    return ObjectReference(
        api_version=about.api_version,
        kind=about.kind,
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
    )
