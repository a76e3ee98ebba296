"""
Shared informers of the embedded cluster: one copy of each kind, kept current by one watch.

Pods, nodes and volumes are held as structs, which are small; workloads as plain data, which is complete.
Controllers, scheduler and kubelets of one process share these copies.
"""

from collections.abc import Iterable
from functools import cached_property
from random import Random
from typing import Any, TypeVar

from karpenter.api.cluster import Lease, Namespace, PodDisruptionBudget, Service
from karpenter.api.meta import Resource
from karpenter.api.node import Node
from karpenter.api.pod import Pod
from karpenter.api.storage import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from karpenter.base.queue import Supervisor
from karpenter.kube.client import Client
from karpenter.kube.informer import IDLE_TIMEOUT, IndexFunc, Informer
from karpenter.kube.rest import Selection
from karpenter.kube.targets import Plain, Untyped, untyped
from karpenter_local.controllers import plain
from karpenter_local.controllers.pods import PodPredicate

R = TypeVar("R", bound=Resource)

BY_OWNER = "owner"
"""Objects by the uid of the owner that manages them."""
BY_NAMESPACE = "namespace"
BY_NODE = "node"
"""Pods by the node they are bound to, attachments by the node they attach to."""
BY_CLAIM = "claim"
"""Pods by the keys of the claims they use."""

DEPLOYMENTS = untyped("apps/v1", "deployments", kind="Deployment", namespaced=True)
REPLICA_SETS = untyped("apps/v1", "replicasets", kind="ReplicaSet", namespaced=True)
STATEFUL_SETS = untyped("apps/v1", "statefulsets", kind="StatefulSet", namespaced=True)
DAEMON_SETS = untyped("apps/v1", "daemonsets", kind="DaemonSet", namespaced=True)
REVISIONS = untyped("apps/v1", "controllerrevisions", kind="ControllerRevision", namespaced=True)
JOBS = untyped("batch/v1", "jobs", kind="Job", namespaced=True)
CRON_JOBS = untyped("batch/v1", "cronjobs", kind="CronJob", namespaced=True)
SERVICE_ACCOUNTS = untyped("v1", "serviceaccounts", kind="ServiceAccount", namespaced=True)

NODE_LEASES = "kube-node-lease"


def unowned(namespace: str) -> str:
    """Return the key under which the index by owner keeps the objects of a namespace without a controller."""
    return f"unowned/{namespace}"


def owner_key(value: Resource) -> str:
    """Return the key under which the index by owner keeps an object."""
    owner = plain.managing_owner(value.metadata.owner_references)
    return unowned(value.namespace) if owner is None else owner.uid


def claim_names(pod: Pod) -> list[tuple[str, bool]]:
    """Return the claims that a pod uses, and whether each was made for it alone."""
    found = []
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            found.append((volume.persistent_volume_claim.claim_name, False))
        elif volume.ephemeral is not None:
            found.append((f"{pod.name}-{volume.name}", True))
    return found


class Informers:
    """Shared copies, each made when it is first asked for; ask before :meth:`start`."""

    def __init__(self, client: Client, *, chance: Random, silence: float | None = IDLE_TIMEOUT) -> None:
        """`silence` is after how many seconds the server counts as lost; never, without."""
        self._client = client
        self._chance = chance
        self._silence = silence
        self._made: dict[str, Informer[Any]] = {}

    def start(self, supervisor: Supervisor) -> None:
        """Begin to follow every kind that was asked for."""
        for name, informer in self._made.items():
            supervisor.start(f"informer/{name}", informer.run)

    async def wait_synced(self) -> None:
        for informer in self._made.values():
            await informer.wait_synced()

    def of(self, kind: str) -> Informer[Any] | None:
        """Return the copy of a kind, by its plural and group, if it was asked for."""
        return self._made.get(kind)

    @cached_property
    def pods(self) -> Informer[Pod]:
        return self._typed(
            Pod,
            {
                BY_OWNER: lambda pod: (owner_key(pod),),
                BY_NAMESPACE: _namespace,
                BY_NODE: lambda pod: [pod.spec.node_name] if pod.spec.node_name else [],
                BY_CLAIM: lambda pod: [f"{pod.namespace}/{name}" for name, _ in claim_names(pod)],
            },
        )

    @cached_property
    def pod_predicate(self) -> PodPredicate:
        return PodPredicate()

    @cached_property
    def nodes(self) -> Informer[Node]:
        return self._typed(Node)

    @cached_property
    def leases(self) -> Informer[Lease]:
        return self._typed(Lease, selection=Selection(namespace=NODE_LEASES))

    @cached_property
    def namespaces(self) -> Informer[Namespace]:
        return self._typed(Namespace)

    @cached_property
    def services(self) -> Informer[Service]:
        return self._typed(Service, {BY_NAMESPACE: _namespace})

    @cached_property
    def budgets(self) -> Informer[PodDisruptionBudget]:
        return self._typed(PodDisruptionBudget, {BY_NAMESPACE: _namespace})

    @cached_property
    def claims(self) -> Informer[PersistentVolumeClaim]:
        return self._typed(PersistentVolumeClaim, {BY_NAMESPACE: _namespace})

    @cached_property
    def volumes(self) -> Informer[PersistentVolume]:
        return self._typed(PersistentVolume)

    @cached_property
    def classes(self) -> Informer[StorageClass]:
        return self._typed(StorageClass)

    @cached_property
    def csi_nodes(self) -> Informer[CSINode]:
        return self._typed(CSINode)

    @cached_property
    def attachments(self) -> Informer[VolumeAttachment]:
        return self._typed(VolumeAttachment, {BY_NODE: lambda each: [each.spec.node_name]})

    @cached_property
    def deployments(self) -> Informer[Plain]:
        return self._whole(DEPLOYMENTS)

    @cached_property
    def replica_sets(self) -> Informer[Plain]:
        return self._whole(REPLICA_SETS)

    @cached_property
    def stateful_sets(self) -> Informer[Plain]:
        return self._whole(STATEFUL_SETS)

    @cached_property
    def daemon_sets(self) -> Informer[Plain]:
        return self._whole(DAEMON_SETS)

    @cached_property
    def revisions(self) -> Informer[Plain]:
        """The history of stateful and daemon sets, whole."""
        return self._whole(REVISIONS)

    @cached_property
    def jobs(self) -> Informer[Plain]:
        return self._whole(JOBS)

    @cached_property
    def cron_jobs(self) -> Informer[Plain]:
        return self._whole(CRON_JOBS)

    @cached_property
    def service_accounts(self) -> Informer[Plain]:
        return self._whole(SERVICE_ACCOUNTS)

    def _typed(
        self,
        kind: type[R],
        indexers: dict[str, IndexFunc[R]] | None = None,
        *,
        selection: Selection | None = None,
    ) -> Informer[R]:
        informer = Informer(
            self._client,
            kind,
            chance=self._chance,
            indexers=indexers,
            selection=selection or Selection(),
            silence=self._silence,
            shares=self._silence is not None,  # beside the server, the copies are the smaller part
        )
        self._made[kind.kind] = informer
        return informer

    def _whole(self, target: Untyped) -> Informer[Plain]:
        informer: Informer[Plain] = Informer(
            self._client,
            target,
            narrow=_without_managed_fields,
            chance=self._chance,
            silence=self._silence,
            shares=False,  # plain data has nothing that could be shared
            indexers={BY_OWNER: _plain_owner, BY_NAMESPACE: lambda value: [plain.namespace_of(value)]},
        )
        self._made[target.kind] = informer
        return informer


def _without_managed_fields(value: Plain) -> Plain:
    value["metadata"].pop("managedFields", None)
    return value


def _plain_owner(value: Plain) -> Iterable[str]:
    return (plain.controller_uid(value) or unowned(plain.namespace_of(value)),)


def _namespace(value: Resource) -> Iterable[str]:
    return (value.namespace,)
