"""
The attach-detach controller: VolumeAttachments for the volumes that pods on a node use.

A volume that only one node may use gets no second attachment until the first is gone. CSI drivers attach and
detach, see :mod:`karpenter_local.kubelet.csi`.
"""

import hashlib
from typing import TYPE_CHECKING

import msgspec

from karpenter.api.node import Node
from karpenter.api.storage import PersistentVolume, VolumeAttachment
from karpenter.base.queue import WorkQueue
from karpenter_local.controllers import pods
from karpenter_local.controllers.informers import BY_CLAIM, Informers, claim_names
from karpenter_local.controllers.loop import wake
from karpenter_local.controllers.writer import Writer

if TYPE_CHECKING:
    from karpenter.kube.targets import Plain

EVERYTHING = "everything"
COLLECT_SECONDS = 0.1
"""Seconds for which changes are collected before everything is looked at."""

_SHARED = frozenset({"ReadWriteMany", "ReadOnlyMany"})


class WantedAttachment(msgspec.Struct, frozen=True, order=True):
    """A volume that should be attached to a node."""

    volume: str
    node: str


# getAttachmentName of the CSI plugin: csi- and a SHA-256.
def attachment_name(wanted: WantedAttachment, driver: str) -> str:
    """Return the name of an attachment: the same for the same volume, driver and node."""
    digest = hashlib.sha256(f"{wanted.volume}{driver}{wanted.node}".encode()).hexdigest()
    return f"csi-{digest}"


class AttachController:
    """Goes over all pods with volumes and asks for what they need."""

    name = "attach-detach"

    def __init__(self, informers: Informers, writer: Writer) -> None:
        self._pods = informers.pods
        self._predicate = informers.pod_predicate
        self._nodes = informers.nodes
        self._claims = informers.claims
        self._volumes = informers.volumes
        self._attachments = informers.attachments
        self._writer = writer

    def watch(self, queue: WorkQueue[str]) -> None:
        """Look at everything soon after a pod with volumes, a volume or an attachment changes."""

        def soon(_: str) -> float:
            return COLLECT_SECONDS

        wake(
            self._pods,
            queue,
            lambda pod: [EVERYTHING] if claim_names(pod) else [],
            after=soon,
            predicate=self._predicate,
        )
        wake(self._claims, queue, lambda _: [EVERYTHING], after=soon)
        wake(self._volumes, queue, lambda _: [EVERYTHING], after=soon)
        wake(self._attachments, queue, lambda _: [EVERYTHING], after=soon)

    async def reconcile(self, key: str) -> float | None:
        _ = key
        wanted = self._wanted()
        known = {
            WantedAttachment(item.spec.source.persistent_volume_name or "", item.spec.node_name): item
            for item in self._attachments.store
        }
        for each, attachment in sorted(known.items(), key=lambda item: item[0]):
            if each not in wanted and attachment.metadata.deletion_timestamp is None:
                await self._writer.delete(VolumeAttachment, attachment.name, uid=attachment.metadata.uid)
        taken = {each.volume: each.node for each in known}
        for key_, volume in sorted(wanted.items(), key=lambda item: item[0]):
            if key_ not in known and (_SHARED & set(volume.spec.access_modes) or key_.volume not in taken):
                assert volume.spec.csi is not None
                driver = volume.spec.csi.driver
                body = {
                    "metadata": {"name": attachment_name(key_, driver)},
                    "spec": {
                        "attacher": driver,
                        "nodeName": key_.node,
                        "source": {"persistentVolumeName": volume.name},
                    },
                }
                await self._writer.ensure(VolumeAttachment, body)
                taken[key_.volume] = key_.node
        await self._report(known)
        return None

    def _wanted(self) -> dict[WantedAttachment, PersistentVolume]:
        found: dict[WantedAttachment, PersistentVolume] = {}
        for key in self._pods.store.values(BY_CLAIM):
            claim = self._claims.store.get(key)
            volume = self._volumes.store.get(claim.spec.volume_name) if claim is not None else None
            if volume is None or volume.spec.csi is None:
                continue
            for pod in self._pods.store.find(BY_CLAIM, key):
                if pod.spec.node_name in self._nodes.store and not pods.is_finished(pod):
                    found[WantedAttachment(volume.name, pod.spec.node_name)] = volume
        return found

    async def _report(self, known: dict[WantedAttachment, VolumeAttachment]) -> None:
        by_node: dict[str, list[Plain]] = {}
        for key, attachment in sorted(known.items(), key=lambda item: item[0]):
            volume = self._volumes.store.get(key.volume)
            if attachment.status.attached and volume is not None and volume.spec.csi is not None:
                csi = volume.spec.csi
                name = f"kubernetes.io/csi/{csi.driver}^{csi.volume_handle}"
                by_node.setdefault(key.node, []).append({"name": name, "devicePath": ""})
        for node in self._nodes.store:
            attached = by_node.get(node.name, [])
            if [each["name"] for each in attached] != [each.name for each in node.status.volumes_attached]:
                await self._writer.set_status(Node, node.name, {"volumesAttached": attached or None})
