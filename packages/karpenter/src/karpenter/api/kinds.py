"""The table of kinds: apiVersion, kind, plural, scope, and the struct that each is decoded into."""

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from karpenter.api.capacitybuffer import CapacityBuffer
from karpenter.api.cluster import Event, Lease, Namespace, PodDisruptionBudget, PriorityClass, Service
from karpenter.api.dra import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.kwoknodeclass import KWOKNodeClass
from karpenter.api.meta import Resource
from karpenter.api.node import Node
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodeoverlay import NodeOverlay
from karpenter.api.nodepool import NodePool
from karpenter.api.pod import Pod, PodTemplate
from karpenter.api.storage import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from karpenter.api.workloads import (
    CronJob,
    DaemonSet,
    Deployment,
    Job,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of object."""

    struct: type[Resource]
    plural: str
    namespaced: bool
    ours: bool = False
    """Whether we define it, rather than Kubernetes."""

    @property
    def api_version(self) -> str:
        """Group and version, such as ``apps/v1``; the core group is just ``v1``."""
        return self.struct.api_version

    @property
    def name(self) -> str:
        """The kind, such as ``Pod``."""
        return self.struct.kind

    @property
    def group(self) -> str:
        """The group; empty for the core group."""
        return self.api_version.rpartition("/")[0]

    @property
    def version(self) -> str:
        return self.api_version.rpartition("/")[2]


def _namespaced(struct: type[Resource], plural: str, *, ours: bool = False) -> Kind:
    return Kind(struct=struct, plural=plural, namespaced=True, ours=ours)


def _cluster(struct: type[Resource], plural: str, *, ours: bool = False) -> Kind:
    return Kind(struct=struct, plural=plural, namespaced=False, ours=ours)


ALL_KINDS: tuple[Kind, ...] = (
    _cluster(NodePool, "nodepools", ours=True),
    _cluster(NodeClaim, "nodeclaims", ours=True),
    _cluster(NodeOverlay, "nodeoverlays", ours=True),
    _namespaced(CapacityBuffer, "capacitybuffers", ours=True),
    _cluster(KWOKNodeClass, "kwoknodeclasses", ours=True),
    _cluster(EC2NodeClass, "ec2nodeclasses", ours=True),
    _namespaced(Pod, "pods"),
    _namespaced(PodTemplate, "podtemplates"),
    _cluster(Node, "nodes"),
    _cluster(Namespace, "namespaces"),
    _namespaced(Service, "services"),
    _namespaced(Event, "events"),
    _namespaced(ReplicationController, "replicationcontrollers"),
    _namespaced(PersistentVolumeClaim, "persistentvolumeclaims"),
    _cluster(PersistentVolume, "persistentvolumes"),
    _namespaced(Deployment, "deployments"),
    _namespaced(ReplicaSet, "replicasets"),
    _namespaced(StatefulSet, "statefulsets"),
    _namespaced(DaemonSet, "daemonsets"),
    _namespaced(Job, "jobs"),
    _namespaced(CronJob, "cronjobs"),
    _namespaced(PodDisruptionBudget, "poddisruptionbudgets"),
    _cluster(PriorityClass, "priorityclasses"),
    _cluster(StorageClass, "storageclasses"),
    _cluster(CSINode, "csinodes"),
    _cluster(VolumeAttachment, "volumeattachments"),
    _namespaced(Lease, "leases"),
    _namespaced(ResourceClaim, "resourceclaims"),
    _namespaced(ResourceClaimTemplate, "resourceclaimtemplates"),
    _cluster(ResourceSlice, "resourceslices"),
    _cluster(DeviceClass, "deviceclasses"),
)

KINDS: Mapping[tuple[str, str], Kind] = MappingProxyType({(k.api_version, k.name): k for k in ALL_KINDS})
"""Kinds by apiVersion and kind."""

_BY_STRUCT: Mapping[type[Resource], Kind] = MappingProxyType({k.struct: k for k in ALL_KINDS})


def kind_of(struct: type[Resource]) -> Kind:
    return _BY_STRUCT[struct]
