"""
Volume usage: which PersistentVolumeClaims a pod mounts, and which CSI driver attaches them.

A node attaches a limited number of volumes per driver (CSINode), so pods are counted by driver. In-tree
plugins count as the CSI driver that they migrated to. From where a volume can be reached is in
:mod:`.volumetopology`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karpenter.api.pod import PersistentVolumeClaimSpec, Pod, Volume
    from karpenter.api.storage import PersistentVolumeClaim, StorageClass
    from karpenter.core.state.cluster import ClusterView

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# Of several default classes the newest counts:
# https://kubernetes.io/docs/concepts/storage/storage-classes/#default-storageclass
_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
# The CSI drivers that replace in-tree plugins (https://kubernetes.io/docs/concepts/storage/volumes/).
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
    """Why the volumes of a pod keep it from being scheduled; the text is one sentence."""


def claimed_volumes(pod: Pod) -> Iterator[tuple[str, Volume]]:
    """Yield the volumes of a pod that have a PersistentVolumeClaim, each with the key of its claim."""
    namespace = pod.metadata.namespace
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            yield f"{namespace}/{volume.persistent_volume_claim.claim_name}", volume
        elif volume.ephemeral is not None:
            # The claim of a generic ephemeral volume has the name of the pod and of the volume:
            # https://kubernetes.io/docs/concepts/storage/ephemeral-volumes/#persistentvolumeclaim-naming
            yield f"{namespace}/{pod.name}-{volume.name}", volume


def volumes_by_driver(pod: Pod, view: ClusterView) -> dict[str, frozenset[str]]:
    """Return the claims that a pod mounts by the CSI driver that attaches them, without unknown ones."""
    found: dict[str, frozenset[str]] = {}
    for key, volume in claimed_volumes(pod):
        try:
            claim, spec = volume_claim(key, volume, view)
        except VolumeProblem:
            continue
        driver = _driver(claim, spec, view)
        if driver:
            found[driver] = found.get(driver, frozenset()) | {key}
    return found


def volume_claim(
    key: str, volume: Volume, view: ClusterView
) -> tuple[PersistentVolumeClaim | None, PersistentVolumeClaimSpec]:
    """
    Return the claim of a volume, if it exists, and its spec.

    Raises:
        VolumeProblem: when the claim is missing, lost or being deleted.
    """
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


def storage_class_of(spec: PersistentVolumeClaimSpec, view: ClusterView) -> StorageClass | None:
    """Return the storage class of a claim: its own, or the newest default when it names none."""
    if spec.storage_class_name is not None:
        return view.storage_classes.get(spec.storage_class_name)
    # Of several default classes Kubernetes takes the newest:
    # https://kubernetes.io/docs/concepts/storage/storage-classes/#default-storageclass
    defaults = [
        c for c in view.storage_classes.values() if c.metadata.annotations.get(_DEFAULT_CLASS) == "true"
    ]
    return max(defaults, key=lambda c: c.metadata.creation_timestamp or _EPOCH, default=None)


def _driver(claim: PersistentVolumeClaim | None, spec: PersistentVolumeClaimSpec, view: ClusterView) -> str:
    if claim is not None and spec.volume_name:
        volume = view.volumes.get(spec.volume_name)
        if volume is not None and volume.spec.csi is not None:
            return volume.spec.csi.driver
        # In-tree EBS volumes are attached by the CSI driver since Kubernetes 1.23 and count against its
        # limit: https://kubernetes.io/docs/concepts/storage/volumes/#awselasticblockstore
        is_ebs = volume is not None and volume.spec.aws_elastic_block_store is not None
        return _IN_TREE["kubernetes.io/aws-ebs"] if is_ebs else ""
    storage_class = storage_class_of(spec, view)
    if storage_class is None:
        return ""
    return _IN_TREE.get(storage_class.provisioner, storage_class.provisioner)
