"""
Carrying out a placement: first the volumes, then the pod.

A claim that waits for its first consumer is annotated with the selected node, or bound to a free volume; the
volume controller does the rest, and the pod is bound once every claim is. If that takes too long, or the
volume controller gives the claim back, the pod is tried again from the start.
"""

import asyncio

from karpenter.api.pod import Pod
from karpenter.api.storage import PersistentVolume, PersistentVolumeClaim
from karpenter.kube.informer import Informer, InformerEvent
from karpenter_local.controllers.writer import Writer
from karpenter_local.scheduler.place import Placed
from karpenter_local.scheduler.storage import SELECTED_NODE
from karpenter_local.scheduler.volumes import Binding

# bindTimeoutSeconds: https://kubernetes.io/docs/reference/config-api/kube-scheduler-config.v1/
BIND_TIMEOUT_SECONDS = 600.0
"""Seconds for which the volumes of a pod may take to be bound."""


class BindingFailed(Exception):  # noqa: N818  says what happened
    """A placement could not be carried out; the text is for the pod's events."""


class Binder:
    """Binds volumes and pods."""

    def __init__(
        self,
        writer: Writer,
        claims: Informer[PersistentVolumeClaim],
    ) -> None:
        self._writer = writer
        self._claims = claims
        self._waiting: dict[str, list[asyncio.Event]] = {}
        claims.subscribe(self._claim_changed)

    async def bind(self, pod: Pod, placed: Placed) -> None:
        """Put `pod` on its node.

        Raises:
            BindingFailed: its volumes could not be had.
            KubeError: the server refused.
        """
        for binding in placed.bindings:
            await self._begin(binding, placed.node)
        try:
            async with asyncio.timeout(BIND_TIMEOUT_SECONDS):
                for binding in placed.bindings:
                    await self._bound(binding.claim)
        except TimeoutError:
            raise BindingFailed("binding volumes: context deadline exceeded") from None
        await self._writer.client.bind(
            pod.name, namespace=pod.namespace, node=placed.node, uid=pod.metadata.uid
        )

    async def _begin(self, binding: Binding, node: str) -> None:
        claim = binding.claim
        if binding.volume:
            holder = {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": claim.namespace,
                "name": claim.name,
                "uid": claim.metadata.uid,
            }
            await self._writer.merge(PersistentVolume, binding.volume, {"spec": {"claimRef": holder}})
        else:
            await self._writer.merge(
                PersistentVolumeClaim,
                claim.name,
                {"metadata": {"annotations": {SELECTED_NODE: node}}},
                namespace=claim.namespace,
            )

    async def _bound(self, claim: PersistentVolumeClaim) -> None:
        changed = asyncio.Event()
        self._waiting.setdefault(claim.key, []).append(changed)
        try:
            while True:
                now = self._claims.store.get(claim.key)
                if now is None or now.metadata.uid != claim.metadata.uid:
                    raise BindingFailed(f'binding volumes: persistentvolumeclaim "{claim.name}" not found')
                if now.spec.volume_name and now.status.phase == "Bound":
                    return
                changed.clear()
                await changed.wait()
        finally:
            self._waiting[claim.key].remove(changed)
            if not self._waiting[claim.key]:
                del self._waiting[claim.key]

    def _claim_changed(self, event: InformerEvent[PersistentVolumeClaim]) -> None:
        for waiting in self._waiting.get(event.key, ()):
            waiting.set()
