"""Which volume a claim is bound to, as pure functions: the smallest free one that fits, and both statuses."""

from collections.abc import Iterable
from enum import Enum

from karpenter.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from karpenter.core.model.resources import parse_amount
from karpenter.kube.targets import Plain

# https://kubernetes.io/docs/reference/labels-annotations-taints/
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
PROVISIONER = "volume.kubernetes.io/storage-provisioner"
OLD_PROVISIONER = "volume.beta.kubernetes.io/storage-provisioner"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
WAIT = "WaitForFirstConsumer"


class Next(Enum):
    """Event that an unbound claim without a volume waits for."""

    CONSUMER = "a pod that uses it"
    PROVISIONER = "a volume to be made"
    VOLUME = "a volume to appear"


def claims_volume(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    """Say whether a volume is reserved for this very claim."""
    held_by = volume.spec.claim_ref
    return (
        held_by is not None
        and held_by.namespace == claim.namespace
        and held_by.name == claim.name
        and held_by.uid in {"", claim.metadata.uid}
    )


def fits(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    wanted = claim.spec
    return (
        (wanted.storage_class_name or "") == volume.spec.storage_class_name
        and set(wanted.access_modes) <= set(volume.spec.access_modes)
        and (wanted.volume_mode or "Filesystem") == (volume.spec.volume_mode or "Filesystem")
        and size_of(volume) >= parse_amount("storage", wanted.resources.requests.get("storage", 0))
    )


def size_of(volume: PersistentVolume) -> int:
    return parse_amount("storage", volume.spec.capacity.get("storage", 0))


def choose(
    claim: PersistentVolumeClaim, volumes: Iterable[PersistentVolume], *, waits: bool
) -> PersistentVolume | None:
    """
    Return the volume that the claim should be bound to, if there is one.

    One reserved for the claim always wins; otherwise the smallest that fits, unless the claim `waits` for a
    pod.
    """
    free: list[PersistentVolume] = []
    for volume in volumes:
        if volume.metadata.deletion_timestamp is not None:
            continue
        if claims_volume(claim, volume):
            return volume
        if not waits and volume.spec.claim_ref is None and fits(claim, volume):
            free.append(volume)
    return min(free, key=lambda volume: (size_of(volume), volume.name), default=None)


def what_next(claim: PersistentVolumeClaim, chosen_class: StorageClass | None) -> Next:
    """Return what an unbound claim waits for when no volume is there for it."""
    if chosen_class is None or chosen_class.provisioner in {"", NO_PROVISIONER}:
        if chosen_class is not None and chosen_class.volume_binding_mode == WAIT:
            return Next.CONSUMER
        return Next.VOLUME
    if chosen_class.volume_binding_mode == WAIT and SELECTED_NODE not in claim.metadata.annotations:
        return Next.CONSUMER
    return Next.PROVISIONER


def reservation(claim: PersistentVolumeClaim) -> Plain:
    """Return the reference by which a volume says that it belongs to a claim."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": claim.namespace,
        "name": claim.name,
        "uid": claim.metadata.uid,
    }


def bound_status(volume: PersistentVolume) -> Plain:
    return {
        "phase": "Bound",
        "accessModes": list(volume.spec.access_modes),
        "capacity": {"storage": volume.spec.capacity.get("storage", "0")},
    }


def volume_phase(volume: PersistentVolume, holder: PersistentVolumeClaim | None) -> str:
    """Return the phase of a volume, given the claim by the name it is reserved for."""
    held_by = volume.spec.claim_ref
    if held_by is None or not held_by.uid:
        return "Available"
    if holder is None or holder.metadata.uid != held_by.uid:
        return "Released"
    return "Bound" if holder.spec.volume_name == volume.name else "Available"
