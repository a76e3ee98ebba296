"""
The persistent volume controllers: bind claims to volumes, keep the phases of both, and protect them in use.

:mod:`.binding` decides which volume fits. CSI drivers create and delete volumes: a claim that needs one is
only annotated with its provisioner.
"""

from karpenter.api.pod import Pod
from karpenter.api.storage import PersistentVolume, PersistentVolumeClaim
from karpenter.base.queue import WorkQueue
from karpenter.kube.targets import Plain
from karpenter_local.controllers import binding, pods
from karpenter_local.controllers.binding import Next
from karpenter_local.controllers.informers import BY_CLAIM, Informers
from karpenter_local.controllers.loop import wake
from karpenter_local.controllers.writer import Writer

# https://kubernetes.io/docs/concepts/storage/persistent-volumes/
CLAIM_PROTECTION = "kubernetes.io/pvc-protection"
VOLUME_PROTECTION = "kubernetes.io/pv-protection"


class ClaimController:
    """Binds claims."""

    name = "persistentvolume-binder"

    def __init__(self, informers: Informers, writer: Writer) -> None:
        self._claims = informers.claims
        self._volumes = informers.volumes
        self._classes = informers.classes
        self._writer = writer

    def watch(self, queue: WorkQueue[str]) -> None:
        """Look at a claim when it or its volume changes; at all unbound ones when a volume becomes free."""
        wake(self._claims, queue, lambda claim: [claim.key])
        wake(self._volumes, queue, self._concerned)
        wake(self._classes, queue, lambda _: self._unbound())

    def _concerned(self, volume: PersistentVolume) -> list[str]:
        held_by = volume.spec.claim_ref
        return [f"{held_by.namespace}/{held_by.name}"] if held_by is not None else self._unbound()

    def _unbound(self) -> list[str]:
        return [claim.key for claim in self._claims.store if claim.status.phase != "Bound"]

    async def reconcile(self, key: str) -> float | None:
        claim = self._claims.store.get(key)
        if claim is None or claim.metadata.deletion_timestamp is not None:
            return None
        if claim.spec.volume_name:
            await self._follow(claim)
            return None
        chosen_class = self._classes.store.get(claim.spec.storage_class_name or "")
        waits = chosen_class is not None and chosen_class.volume_binding_mode == binding.WAIT
        volume = binding.choose(claim, self._volumes.store, waits=waits)
        if volume is not None:
            await self._bind(claim, volume)
            return None
        match binding.what_next(claim, chosen_class):
            case Next.CONSUMER:
                message = "waiting for first consumer to be created before binding"
                self._record_once(claim, "WaitForFirstConsumer", message)
            case Next.PROVISIONER:
                assert chosen_class is not None
                await self._ask_for_one(claim, chosen_class.provisioner)
            case Next.VOLUME:
                message = "no persistent volumes available for this claim and no storage class is set"
                self._record_once(claim, "FailedBinding", message)
        if not claim.status.phase:
            await self._set_status(claim, {"phase": "Pending"})
        return None

    async def _follow(self, claim: PersistentVolumeClaim) -> None:
        """Keep a claim that names its volume in step with it."""
        volume = self._volumes.store.get(claim.spec.volume_name)
        if volume is None:
            if claim.status.phase == "Bound":
                await self._set_status(claim, {"phase": "Lost"})
        elif volume.spec.claim_ref is None or binding.claims_volume(claim, volume):
            if claim.status.phase != "Bound" or volume.status.phase != "Bound":
                await self._bind(claim, volume)
        elif not claim.status.phase:
            await self._set_status(claim, {"phase": "Pending"})

    async def _bind(self, claim: PersistentVolumeClaim, volume: PersistentVolume) -> None:
        held_by = volume.spec.claim_ref
        if held_by is None or held_by.uid != claim.metadata.uid:
            change: Plain = {"spec": {"claimRef": binding.reservation(claim)}}
            if held_by is None:
                change["metadata"] = {"annotations": {binding.BOUND_BY_CONTROLLER: "yes"}}
            version = volume.metadata.resource_version
            await self._writer.merge(PersistentVolume, volume.name, change, version=version)
        notes = {binding.BIND_COMPLETED: "yes"}
        if not claim.spec.volume_name:
            notes[binding.BOUND_BY_CONTROLLER] = "yes"
        await self._writer.merge(
            PersistentVolumeClaim,
            claim.name,
            {
                "metadata": {"uid": claim.metadata.uid, "annotations": notes},
                "spec": {"volumeName": volume.name},
            },
            namespace=claim.namespace,
        )
        await self._writer.set_status(PersistentVolume, volume.name, {"phase": "Bound"})
        await self._set_status(claim, binding.bound_status(volume))

    async def _ask_for_one(self, claim: PersistentVolumeClaim, provisioner: str) -> None:
        if claim.metadata.annotations.get(binding.PROVISIONER) == provisioner:
            return
        notes = {binding.PROVISIONER: provisioner, binding.OLD_PROVISIONER: provisioner}
        await self._writer.merge(
            PersistentVolumeClaim, claim.name, {"metadata": {"annotations": notes}}, namespace=claim.namespace
        )
        message = (
            "Waiting for a volume to be created either by the external provisioner "
            f"'{provisioner}' or manually by the system administrator. If volume creation is delayed, "
            "please verify that the provisioner is running and correctly registered."
        )
        self._record_once(claim, "ExternalProvisioning", message)

    async def _set_status(self, claim: PersistentVolumeClaim, status: Plain) -> None:
        await self._writer.set_status(PersistentVolumeClaim, claim.name, status, namespace=claim.namespace)

    def _record_once(self, claim: PersistentVolumeClaim, reason: str, message: str) -> None:
        self._writer.record_event(claim, "Normal", reason, message)


class VolumeController:
    """Keeps the phase of volumes."""

    name = "persistentvolume-phase"

    def __init__(self, informers: Informers, writer: Writer) -> None:
        self._claims = informers.claims
        self._volumes = informers.volumes
        self._writer = writer

    def watch(self, queue: WorkQueue[str]) -> None:
        wake(self._volumes, queue, lambda volume: [volume.name])
        wake(self._claims, queue, lambda claim: [claim.spec.volume_name] if claim.spec.volume_name else [])

    async def reconcile(self, key: str) -> float | None:
        """Write the phase, and remove the protection of a volume that no claim is bound to."""
        volume = self._volumes.store.get(key)
        if volume is None:
            return None
        held_by = volume.spec.claim_ref
        holder = self._claims.store.get(f"{held_by.namespace}/{held_by.name}") if held_by else None
        phase = binding.volume_phase(volume, holder)
        if phase != volume.status.phase:
            await self._writer.set_status(PersistentVolume, volume.name, {"phase": phase})
        leaving = volume.metadata.deletion_timestamp is not None
        if leaving and phase != "Bound" and VOLUME_PROTECTION in volume.metadata.finalizers:
            kept = [each for each in volume.metadata.finalizers if each != VOLUME_PROTECTION]
            await self._writer.merge(
                PersistentVolume, volume.name, {"metadata": {"finalizers": kept or None}}
            )
        return None


class ClaimProtection:
    """Lets a claim that is being deleted go once no pod uses it."""

    name = "pvc-protection"

    def __init__(self, informers: Informers, writer: Writer) -> None:
        self._claims = informers.claims
        self._pods = informers.pods
        self._predicate = informers.pod_predicate
        self._writer = writer

    def watch(self, queue: WorkQueue[str]) -> None:
        """Look at a claim when it or a pod that uses it changes."""
        wake(self._claims, queue, lambda claim: [claim.key])
        wake(self._pods, queue, self._claims_of, predicate=self._predicate)

    def _claims_of(self, pod: Pod) -> list[str]:
        return [
            f"{pod.namespace}/{volume.persistent_volume_claim.claim_name}"
            for volume in pod.spec.volumes
            if volume.persistent_volume_claim is not None
        ] + [f"{pod.namespace}/{pod.name}-{each.name}" for each in pod.spec.volumes if each.ephemeral]

    async def reconcile(self, key: str) -> float | None:
        """Remove the protection finalizer if no pod uses the claim."""
        claim = self._claims.store.get(key)
        if claim is None or claim.metadata.deletion_timestamp is None:
            return None
        if CLAIM_PROTECTION not in claim.metadata.finalizers:
            return None
        users = self._pods.store.find(BY_CLAIM, key)
        if any(not pods.is_finished(pod) and pod.spec.node_name for pod in users):
            return None
        kept = [each for each in claim.metadata.finalizers if each != CLAIM_PROTECTION]
        await self._writer.merge(
            PersistentVolumeClaim,
            claim.name,
            {"metadata": {"finalizers": kept or None}},
            namespace=claim.namespace,
        )
        return None
