"""
The volumes that pods use on each node: said to be in use before they are attached, and until the last pod is
done.

A pod starts once every volume that its driver has to attach is attached. Who attaches is not known here.
"""

import asyncio

import structlog

from karpenter.api.node import Node
from karpenter.api.pod import Pod
from karpenter.api.storage import PersistentVolume
from karpenter.kube.errors import KubeError
from karpenter_local.controllers.informers import Informers, claim_names
from karpenter_local.controllers.writer import Writer
from karpenter_local.kubelet.duequeue import DueQueue

log = structlog.stdlib.get_logger(__name__)

RETRY_SECONDS = 1.0


class Mounts:
    """Which pod uses which volume where."""

    def __init__(self, informers: Informers, writer: Writer) -> None:
        self._claims = informers.claims
        self._volumes = informers.volumes
        self._nodes = informers.nodes
        self._writer = writer
        self.due_queue: DueQueue[str] = DueQueue()
        """Nodes whose report on volumes is out of date."""
        self._used: dict[str, dict[str, tuple[str, ...]]] = {}
        """Node to pod to the unique names of its volumes."""

    def needed(self, node: str, pod: Pod) -> None:
        """Note that a pod is about to use its volumes; the node soon says so."""
        names = tuple(unique_name(volume) for volume in self._attachable(pod))
        if names and self._used.setdefault(node, {}).get(pod.key) != names:
            self._used[node][pod.key] = names
            self.due_queue.put(node, self._now())

    def released(self, node: str, key: str) -> None:
        """Note that a pod is done with its volumes; the node soon says so."""
        if self._used.get(node, {}).pop(key, None) is not None:
            self.due_queue.put(node, self._now())

    async def step(self, node: str) -> None:
        names = sorted({name for names in self._used.get(node, {}).values() for name in names})
        try:
            await self._writer.set_status(Node, node, {"volumesInUse": names or None})
        except KubeError as error:
            log.warning("node.volumes_not_reported", node=node, error=str(error))
            self.due_queue.put(node, self._now() + RETRY_SECONDS)

    def attached(self, node: str, pod: Pod) -> bool:
        """Say whether everything the pod needs is attached to the node and every claim is bound."""
        if any(self._volume(pod.namespace, name) is None for name, _ in claim_names(pod)):
            return False
        found = self._nodes.store.get(node)
        there = {each.name for each in found.status.volumes_attached} if found is not None else set()
        return all(unique_name(volume) in there for volume in self._attachable(pod))

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _attachable(self, pod: Pod) -> list[PersistentVolume]:
        found = (self._volume(pod.namespace, name) for name, _ in claim_names(pod))
        return [volume for volume in found if volume is not None and volume.spec.csi is not None]

    def _volume(self, namespace: str, claim: str) -> PersistentVolume | None:
        found = self._claims.store.get(f"{namespace}/{claim}")
        return self._volumes.store.get(found.spec.volume_name) if found is not None else None


def unique_name(volume: PersistentVolume) -> str:
    """Return the name by which nodes and controllers know a volume of a CSI driver."""
    assert volume.spec.csi is not None
    return f"kubernetes.io/csi/{volume.spec.csi.driver}^{volume.spec.csi.volume_handle}"
