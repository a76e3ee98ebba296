"""
A simulated CSI driver for every driver name there is: makes volumes, destroys them, attaches and detaches
them.

A volume is made in the zone of the node that was chosen for its first pod, or, with immediate binding,
in a zone that the class allows. Nothing is stored: a volume is a name and a size.
"""

import asyncio
import hashlib

import structlog

from karpenter.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass, VolumeAttachment
from karpenter.kube.errors import KubeError
from karpenter.kube.informer import InformerDelete, InformerEvent
from karpenter.kube.targets import Plain
from karpenter_local.controllers import binding
from karpenter_local.controllers.informers import Informers
from karpenter_local.controllers.writer import Writer
from karpenter_local.kubelet.duequeue import DueQueue

log = structlog.stdlib.get_logger(__name__)

DRIVER_SECONDS = 1.0
"""Seconds that a driver needs for anything it does."""
RETRY_SECONDS = 2.0

ZONE = "topology.kubernetes.io/zone"
_FINALIZER = "external-attacher/"
_CSI_NAMES = {
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
}


def volume_for(claim: PersistentVolumeClaim, chosen: StorageClass, zone: str) -> Plain:
    driver = _CSI_NAMES.get(chosen.provisioner, chosen.provisioner)
    size = claim.spec.resources.requests.get("storage", "1Gi")
    spec: Plain = {
        "capacity": {"storage": size},
        "accessModes": list(claim.spec.access_modes) or ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": chosen.reclaim_policy or "Delete",
        "storageClassName": chosen.name,
        "volumeMode": claim.spec.volume_mode or "Filesystem",
        "claimRef": binding.reservation(claim),
        "csi": {"driver": driver, "volumeHandle": f"vol-{_digest(claim.metadata.uid)[:17]}"},
    }
    if zone:
        expression = {"key": ZONE, "operator": "In", "values": [zone]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    return {
        "metadata": {
            "name": f"pvc-{claim.metadata.uid}",
            "annotations": {binding.PROVISIONED_BY: chosen.provisioner},
        },
        "spec": spec,
    }


def allowed_zones(chosen: StorageClass) -> list[str]:
    """Return the zones that a class restricts its volumes to; none if it does not."""
    return [
        value
        for term in chosen.allowed_topologies
        for expression in term.match_label_expressions
        if expression.key.endswith("/zone")
        for value in expression.values
    ]


class Drivers:
    """Does what real drivers' sidecars do, after a moment."""

    def __init__(self, informers: Informers, writer: Writer) -> None:
        self._claims = informers.claims
        self._volumes = informers.volumes
        self._classes = informers.classes
        self._attachments = informers.attachments
        self._nodes = informers.nodes
        self._writer = writer
        self.due_queue: DueQueue[tuple[str, str]] = DueQueue()

    def subscribe(self) -> None:
        """Begin to follow claims, volumes and attachments."""
        self._claims.subscribe(self._claim)
        self._volumes.subscribe(self._volume)
        self._attachments.subscribe(self._attachment)

    def _claim(self, event: InformerEvent[PersistentVolumeClaim]) -> None:
        if not isinstance(event, InformerDelete) and self._wants_volume(event.object):
            self._plan("claim", event.key)

    def _volume(self, event: InformerEvent[PersistentVolume]) -> None:
        if not isinstance(event, InformerDelete) and self._is_ours_to_destroy(event.object):
            self._plan("volume", event.key)

    def _attachment(self, event: InformerEvent[VolumeAttachment]) -> None:
        if isinstance(event, InformerDelete):
            for volume in self._volumes.store:
                if self._is_ours_to_destroy(volume):
                    self._plan("volume", volume.name)
            return
        leaving = event.object.metadata.deletion_timestamp is not None
        if leaving or not event.object.status.attached:
            self._plan("attachment", event.key)

    def _plan(self, what: str, key: str, after: float = DRIVER_SECONDS) -> None:
        self.due_queue.put((what, key), asyncio.get_running_loop().time() + after)

    def _wants_volume(self, claim: PersistentVolumeClaim) -> bool:
        return (
            not claim.spec.volume_name
            and claim.metadata.deletion_timestamp is None
            and bool(claim.metadata.annotations.get(binding.PROVISIONER))
        )

    def _is_ours_to_destroy(self, volume: PersistentVolume) -> bool:
        return (
            volume.status.phase == "Released"
            and volume.spec.persistent_volume_reclaim_policy == "Delete"
            and binding.PROVISIONED_BY in volume.metadata.annotations
            and volume.metadata.deletion_timestamp is None
        )

    async def step(self, subject: tuple[str, str]) -> None:
        what, key = subject
        try:
            match what:
                case "claim":
                    await self._provision(key)
                case "volume":
                    await self._destroy(key)
                case _:
                    await self._attach_or_detach(key)
        except KubeError as error:
            log.warning("driver.failed", what=what, key=key, error=str(error))
            self._plan(what, key, RETRY_SECONDS)

    async def _provision(self, key: str) -> None:
        claim = self._claims.store.get(key)
        if claim is None or not self._wants_volume(claim):
            return
        chosen = self._classes.store.get(claim.spec.storage_class_name or "")
        if chosen is None:
            return
        await self._writer.ensure(PersistentVolume, volume_for(claim, chosen, self._zone(claim, chosen)))
        message = f"Successfully provisioned volume pvc-{claim.metadata.uid}"
        self._writer.record_event(claim, "Normal", "ProvisioningSucceeded", message)

    def _zone(self, claim: PersistentVolumeClaim, chosen: StorageClass) -> str:
        selected = self._nodes.store.get(claim.metadata.annotations.get(binding.SELECTED_NODE, ""))
        if selected is not None:
            return selected.metadata.labels.get(ZONE, "")
        zones = allowed_zones(chosen) or sorted(
            {zone for node in self._nodes.store if (zone := node.metadata.labels.get(ZONE))}
        )
        return zones[int(_digest(claim.metadata.uid), 16) % len(zones)] if zones else ""

    async def _destroy(self, key: str) -> None:
        volume = self._volumes.store.get(key)
        if volume is None or not self._is_ours_to_destroy(volume):
            return
        if any(each.spec.source.persistent_volume_name == key for each in self._attachments.store):
            return  # looked at again when the attachment goes
        await self._writer.delete(PersistentVolume, key, uid=volume.metadata.uid)

    async def _attach_or_detach(self, key: str) -> None:
        attachment = self._attachments.store.get(key)
        if attachment is None:
            return
        finalizer = f"{_FINALIZER}{attachment.spec.attacher.replace('.', '-')}"
        if attachment.metadata.deletion_timestamp is not None:
            kept = [each for each in attachment.metadata.finalizers if each != finalizer]
            await self._writer.merge(VolumeAttachment, key, {"metadata": {"finalizers": kept or None}})
            return
        if finalizer not in attachment.metadata.finalizers:
            finalizers = [*attachment.metadata.finalizers, finalizer]
            await self._writer.merge(VolumeAttachment, key, {"metadata": {"finalizers": finalizers}})
        await self._writer.set_status(VolumeAttachment, key, {"attached": True})


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
