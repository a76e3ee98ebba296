"""
The informers of the operator: one per kind, all updating the cluster state.

Which kinds are watched depends on settings and feature gates; a kind that no decision reads is not watched.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from karpenter.api.capacitybuffer import CapacityBuffer
from karpenter.api.cluster import Namespace, PodDisruptionBudget, Service
from karpenter.api.dra import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
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
from karpenter.api.workloads import DaemonSet, Deployment, ReplicaSet, ReplicationController, StatefulSet
from karpenter.cloud.catalogs.ec2.volumes import node_class_of
from karpenter.core.state.cluster import ClusterState, ObjectDeleted, ObjectUpdated
from karpenter.kube.informer import Informer, InformerEvent, InformerUpdate
from karpenter.kube.targets import target_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from random import Random

    from karpenter.api.meta import Resource
    from karpenter.base.queue import Supervisor
    from karpenter.kube.client import Client, Kind

ALWAYS: tuple[type[Resource], ...] = (
    Node,
    NodeClaim,
    NodePool,
    Pod,
    DaemonSet,
    Namespace,
    PodDisruptionBudget,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    CSINode,
    VolumeAttachment,
)
# Only default topology spread constraints read the owners of pods:
# https://kubernetes.io/docs/concepts/scheduling-eviction/topology-spread-constraints/
FOR_SPREAD: tuple[type[Resource], ...] = (Service, ReplicationController, ReplicaSet, StatefulSet)
FOR_BUFFERS: tuple[type[Resource], ...] = (CapacityBuffer, PodTemplate, Deployment, ReplicaSet, StatefulSet)
# https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/
FOR_DEVICES: tuple[type[Resource], ...] = (ResourceSlice, ResourceClaim, ResourceClaimTemplate, DeviceClass)
FOR_SURGE: tuple[type[Resource], ...] = (Deployment, ReplicaSet)
FOR_OVERLAYS: tuple[type[Resource], ...] = (NodeOverlay,)


class Watches:
    """One informer per kind, and the cluster state that they update."""

    def __init__(
        self,
        client: Client,
        store: ClusterState,
        *,
        kinds: Iterable[type[Resource]],
        classes: Mapping[tuple[str, str], Kind[Any]],
        chance: Random,
    ) -> None:
        """`classes` maps the group and kind of each node class to its REST target."""
        self._store = store
        self._informers: dict[str, Informer[Any]] = {}
        for kind in dict.fromkeys(kinds):
            self._informers[kind.kind] = Informer(client, kind, chance=chance)
        for (group, name), target in classes.items():
            self._informers[name] = Informer(
                client, target, narrow=partial(node_class_of, group=group, kind=name), chance=chance
            )

    def start(self, supervisor: Supervisor) -> None:
        for name, informer in self._informers.items():
            informer.subscribe(self._apply)
            supervisor.start(f"informer/{name}", informer.run)

    async def wait_synced(self) -> None:
        """Wait until every kind was listed once; from then on the cluster state is complete."""
        for informer in self._informers.values():
            await informer.wait_synced()
        self._store.complete = True

    @property
    def synced(self) -> bool:
        return all(informer.synced for informer in self._informers.values())

    @property
    def lost_at(self) -> float | None:
        """When the server stopped to answer one of them, by the loop's clock; None while it answers all."""
        return min((e.lost_at for e in self._informers.values() if e.lost_at is not None), default=None)

    def observe(self, kind: Kind[Any], item: Any) -> None:
        """Apply the server's reply to a write of ours, without waiting for its watch event."""
        # The watch event of a write may come seconds later, and a decision in between would not see the
        # write: https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
        informer = self._informers.get(target_of(kind).kind)
        if informer is not None:
            informer.observe(item)

    def _apply(self, event: InformerEvent[Any]) -> None:
        self._store.apply(
            ObjectUpdated(event.object) if isinstance(event, InformerUpdate) else ObjectDeleted(event.object)
        )
