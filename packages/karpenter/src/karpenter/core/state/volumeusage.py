"""
What a pod's volumes demand: where they can be reached from, and which driver attaches them.

A claim that is bound is where its volume is; one that is not yet bound may be made
wherever its storage class allows. Anything that would make the pod wait in vain (a claim
that is missing, lost or going away) is a reason not to look for a node at all.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from karpenter.api.labels import BIND_COMPLETED, HOSTNAME
from karpenter.core.model.requirement import RequirementError, requirement
from karpenter.core.model.requirements import NOTHING_REQUIRED, Requirements

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karpenter.api.pod import PersistentVolumeClaimSpec, Pod, Volume
    from karpenter.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
    from karpenter.core.state.cluster import ClusterView

_MOST_ALTERNATIVES: Final = 256
_BEGINNING: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
_IN_TREE: Final = {
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/azure-file": "file.csi.azure.com",
    "kubernetes.io/vsphere-volume": "csi.vsphere.vmware.com",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
}


class VolumeProblem(Exception):  # noqa: N818  it is a finding about the pod, not a fault of ours
    """Why a pod's volumes keep it from running anywhere; the text is one sentence."""


def claimed_volumes(pod: Pod) -> Iterator[tuple[str, Volume]]:
    """Yield the volumes of a pod that are claims, each with its claim's key."""
    namespace = pod.metadata.namespace
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            yield f"{namespace}/{volume.persistent_volume_claim.claim_name}", volume
        elif volume.ephemeral is not None:
            yield f"{namespace}/{pod.name}-{volume.name}", volume


def volume_requirements(pod: Pod, view: ClusterView) -> tuple[Requirements, ...]:
    """
    Return the places from which all volumes of a pod can be reached; nothing means anywhere.

    Raises:
        VolumeProblem: when the pod would wait in vain.
    """
    found: tuple[Requirements, ...] = ()
    for key, volume in claimed_volumes(pod):
        claim, spec = _claim(key, volume, view)
        places = _places(key, claim, spec, view)
        if places:
            found = _combined(found, places) if found else places
            if not found:
                raise VolumeProblem(
                    f"no node that reaches PersistentVolumeClaim {key} reaches the others too"
                )
    return found


def volumes_by_driver(pod: Pod, view: ClusterView) -> dict[str, frozenset[str]]:
    """Return the claims a pod mounts by the CSI driver that attaches them; unknown ones are left out."""
    found: dict[str, frozenset[str]] = {}
    for key, volume in claimed_volumes(pod):
        try:
            claim, spec = _claim(key, volume, view)
        except VolumeProblem:
            continue
        driver = _driver(claim, spec, view)
        if driver:
            found[driver] = found.get(driver, frozenset()) | {key}
    return found


def _claim(
    key: str, volume: Volume, view: ClusterView
) -> tuple[PersistentVolumeClaim | None, PersistentVolumeClaimSpec]:
    claim = view.volume_claims.get(key)
    if claim is not None:
        if claim.metadata.deletion_timestamp is not None:
            raise VolumeProblem(f"PersistentVolumeClaim {key} is being deleted")
        if claim.status.phase == "Lost":
            raise VolumeProblem(f"PersistentVolumeClaim {key} has lost its volume")
        return claim, claim.spec
    template = volume.ephemeral.volume_claim_template if volume.ephemeral is not None else None
    if template is None:
        raise VolumeProblem(f"PersistentVolumeClaim {key} does not exist")
    return None, template.spec


def _places(
    key: str, claim: PersistentVolumeClaim | None, spec: PersistentVolumeClaimSpec, view: ClusterView
) -> tuple[Requirements, ...]:
    if claim is not None and spec.volume_name:
        return _places_of_volume(_volume(key, claim, view))
    return _places_of_class(_binding_class(key, spec, view))


def _volume(key: str, claim: PersistentVolumeClaim, view: ClusterView) -> PersistentVolume:
    volume = view.volumes.get(claim.spec.volume_name)
    if volume is None:
        raise VolumeProblem(f"PersistentVolume {claim.spec.volume_name} of claim {key} does not exist")
    if volume.metadata.deletion_timestamp is not None:
        raise VolumeProblem(f"PersistentVolume {volume.name} of claim {key} is being deleted")
    if BIND_COMPLETED not in claim.metadata.annotations and claim.status.phase != "Bound":
        raise VolumeProblem(f"PersistentVolumeClaim {key} is not bound to {volume.name} yet")
    return volume


def _places_of_volume(volume: PersistentVolume) -> tuple[Requirements, ...]:
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return ()
    is_local = volume.spec.local is not None or volume.spec.host_path is not None
    found = []
    for term in affinity.required.node_selector_terms:
        entries = [e for e in term.match_expressions if not (is_local and e.key == HOSTNAME)]
        try:
            found.append(Requirements.from_entries(entries))
        except RequirementError as error:
            raise VolumeProblem(f"PersistentVolume {volume.name} cannot be placed: {error}") from None
    return () if NOTHING_REQUIRED in found else tuple(found)


def _class_of(spec: PersistentVolumeClaimSpec, view: ClusterView) -> StorageClass | None:
    """Return the storage class of a claim: its own, or the newest default when it names none."""
    if spec.storage_class_name is not None:
        return view.storage_classes.get(spec.storage_class_name)
    defaults = [
        c for c in view.storage_classes.values() if c.metadata.annotations.get(_DEFAULT_CLASS) == "true"
    ]
    return max(defaults, key=lambda c: c.metadata.creation_timestamp or _BEGINNING, default=None)


def _binding_class(key: str, spec: PersistentVolumeClaimSpec, view: ClusterView) -> StorageClass:
    """Return the storage class that makes a volume for a claim once its pod has a node."""
    found = _class_of(spec, view)
    if found is None and spec.storage_class_name:
        raise VolumeProblem(
            f"StorageClass {spec.storage_class_name} of PersistentVolumeClaim {key} does not exist"
        )
    if found is None:
        raise VolumeProblem(f"PersistentVolumeClaim {key} is not bound and has no storage class")
    if found.volume_binding_mode != "WaitForFirstConsumer":
        raise VolumeProblem(
            f"PersistentVolumeClaim {key} is not bound,"
            f" and StorageClass {found.name} binds claims before pods are placed"
        )
    return found


def _places_of_class(storage_class: StorageClass) -> tuple[Requirements, ...]:
    found = tuple(
        Requirements.of(requirement(e.key, "In", e.values) for e in term.match_label_expressions)
        for term in storage_class.allowed_topologies
    )
    return () if NOTHING_REQUIRED in found else found


def _driver(claim: PersistentVolumeClaim | None, spec: PersistentVolumeClaimSpec, view: ClusterView) -> str:
    if claim is not None and spec.volume_name:
        volume = view.volumes.get(spec.volume_name)
        if volume is not None and volume.spec.csi is not None:
            return volume.spec.csi.driver
        is_ebs = volume is not None and volume.spec.aws_elastic_block_store is not None
        return _IN_TREE["kubernetes.io/aws-ebs"] if is_ebs else ""
    storage_class = _class_of(spec, view)
    if storage_class is None:
        return ""
    return _IN_TREE.get(storage_class.provisioner, storage_class.provisioner)


def _combined(held: tuple[Requirements, ...], more: tuple[Requirements, ...]) -> tuple[Requirements, ...]:
    """Return every way to satisfy one of each side, each once."""
    pairs = [(one, other) for one in held for other in more if one.conflict(other) is None]
    return tuple(dict.fromkeys(one.intersect(other) for one, other in pairs))[:_MOST_ALTERNATIVES]
