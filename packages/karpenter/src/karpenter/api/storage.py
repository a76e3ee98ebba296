"""Volumes outside of pods: claims, volumes, classes, and what each node can attach."""

from typing import ClassVar

from msgspec import field

from karpenter.api.meta import ObjectReference, Resource, ResourceList, Timestamp, Wire
from karpenter.api.pod import NodeSelector, PersistentVolumeClaimSpec


class PersistentVolumeClaimStatus(Wire, frozen=True, kw_only=True):
    """State of a claim: bound to a volume or not."""

    phase: str = ""
    """Pending, Bound or Lost."""

    access_modes: tuple[str, ...] = ()
    capacity: ResourceList = field(default_factory=dict)


class PersistentVolumeClaim(Resource, frozen=True, kw_only=True):
    """A request for storage."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "PersistentVolumeClaim"

    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


# A volume can be used on the nodes that this selects, and pods follow it there:
# https://kubernetes.io/docs/concepts/storage/persistent-volumes/#node-affinity
class VolumeNodeAffinity(Wire, frozen=True, kw_only=True):
    """The nodes that can reach a volume."""

    required: NodeSelector | None = None


class CSIPersistentVolumeSource(Wire, frozen=True, kw_only=True):
    """A volume of a CSI driver."""

    driver: str
    volume_handle: str = ""


# The in-tree plugin was removed in Kubernetes 1.27; volumes of it are served by the EBS CSI driver:
# https://kubernetes.io/docs/concepts/storage/volumes/
# Volumes from before CSI drivers, which the EBS driver serves today:
# https://kubernetes.io/docs/concepts/storage/volumes/#aws-ebs-csi-migration
class AWSElasticBlockStoreSource(Wire, frozen=True, kw_only=True):
    """An EBS volume in the spelling from before CSI."""

    volume_id: str = field(name="volumeID", default="")


class PathSource(Wire, frozen=True, kw_only=True):
    """A directory or device of one node."""

    path: str = ""


class PersistentVolumeSpec(Wire, frozen=True, kw_only=True):
    """Storage behind a volume, and the claim that holds it."""

    capacity: ResourceList = field(default_factory=dict)
    access_modes: tuple[str, ...] = ()
    claim_ref: ObjectReference | None = None
    storage_class_name: str = ""
    persistent_volume_reclaim_policy: str = ""
    volume_mode: str = ""
    node_affinity: VolumeNodeAffinity | None = None
    csi: CSIPersistentVolumeSource | None = None
    aws_elastic_block_store: AWSElasticBlockStoreSource | None = None
    local: PathSource | None = None
    host_path: PathSource | None = None


class PersistentVolumeStatus(Wire, frozen=True, kw_only=True):
    """State of a volume: taken or not."""

    phase: str = ""


class PersistentVolume(Resource, frozen=True, kw_only=True):
    """A piece of storage."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "PersistentVolume"

    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()


class TopologySelectorLabelRequirement(Wire, frozen=True, kw_only=True):
    """A label and the values volumes may be made in."""

    key: str
    values: tuple[str, ...] = ()


# https://kubernetes.io/docs/concepts/storage/storage-classes/#allowed-topologies
class TopologySelectorTerm(Wire, frozen=True, kw_only=True):
    """Label conditions that must all hold."""

    match_label_expressions: tuple[TopologySelectorLabelRequirement, ...] = ()


# With WaitForFirstConsumer the pod chooses the zone of its volume, else the volume that of its pod:
# https://kubernetes.io/docs/concepts/storage/storage-classes/#volume-binding-mode
class StorageClass(Resource, frozen=True, kw_only=True):
    """A way of making volumes."""

    api_version: ClassVar[str] = "storage.k8s.io/v1"
    kind: ClassVar[str] = "StorageClass"

    provisioner: str = ""
    parameters: dict[str, str] = field(default_factory=dict)
    reclaim_policy: str = ""
    volume_binding_mode: str = ""
    """Immediate (also when absent) or WaitForFirstConsumer."""

    allow_volume_expansion: bool = False
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()


# https://kubernetes.io/docs/concepts/storage/storage-limits/
class VolumeNodeResources(Wire, frozen=True, kw_only=True):
    """Number of volumes of a driver that a node can hold; absent means no limit."""

    count: int | None = None


# How many volumes of a driver fit on a node:
# https://kubernetes.io/docs/concepts/storage/storage-limits/
class CSINodeDriver(Wire, frozen=True, kw_only=True):
    """A CSI driver that runs on the node."""

    name: str
    node_id: str = field(name="nodeID", default="")
    topology_keys: tuple[str, ...] = ()
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(Wire, frozen=True, kw_only=True):
    """The drivers of a node."""

    drivers: tuple[CSINodeDriver, ...] = ()


class CSINode(Resource, frozen=True, kw_only=True):
    """Drivers and volumes that the node of the same name can attach."""

    api_version: ClassVar[str] = "storage.k8s.io/v1"
    kind: ClassVar[str] = "CSINode"

    spec: CSINodeSpec = CSINodeSpec()


class VolumeAttachmentSource(Wire, frozen=True, kw_only=True):
    """The volume that is attached."""

    persistent_volume_name: str | None = None


# https://kubernetes.io/docs/reference/kubernetes-api/config-and-storage-resources/volume-attachment-v1/
class VolumeAttachmentSpec(Wire, frozen=True, kw_only=True):
    """Which volume is attached to which node, and by whom."""

    attacher: str = ""
    node_name: str = ""
    source: VolumeAttachmentSource = VolumeAttachmentSource()


class VolumeError(Wire, frozen=True, kw_only=True):
    """Last error of a volume."""

    time: Timestamp | None = None
    message: str = ""


class VolumeAttachmentStatus(Wire, frozen=True, kw_only=True):
    """State of an attachment: done or not."""

    attached: bool = False
    attach_error: VolumeError | None = None
    detach_error: VolumeError | None = None


class VolumeAttachment(Resource, frozen=True, kw_only=True):
    """A volume on its way to a node, there, or on its way off."""

    api_version: ClassVar[str] = "storage.k8s.io/v1"
    kind: ClassVar[str] = "VolumeAttachment"

    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()
    status: VolumeAttachmentStatus = VolumeAttachmentStatus()
