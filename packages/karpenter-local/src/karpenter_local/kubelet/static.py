"""
Static pods: what a node runs because its own files say so, mirrored in the API so that others see it.

A mirror pod belongs to its Node and carries the annotations that tell it apart. Deleting it does not end the
pod: the node makes the mirror anew.
"""

import asyncio
import hashlib
from copy import deepcopy

import msgspec
import structlog

from karpenter.api.pod import Pod
from karpenter.kube.errors import KubeError
from karpenter.kube.informer import InformerDelete, InformerEvent
from karpenter.kube.targets import Plain
from karpenter_local.controllers.informers import Informers
from karpenter_local.controllers.writer import Writer
from karpenter_local.kubelet.duequeue import DueQueue
from karpenter_local.kubelet.hollownode import HollowNode

log = structlog.stdlib.get_logger(__name__)

# https://kubernetes.io/docs/tasks/configure-pod-container/static-pod/
MIRROR = "kubernetes.io/config.mirror"
RETRY_SECONDS = 1.0
"""Seconds after which a mirror that was deleted is made again."""


def mirror_of(manifest: Plain, node: str, node_uid: str) -> Plain:
    body = deepcopy(manifest)
    meta = body.setdefault("metadata", {})
    digest = hashlib.blake2b(msgspec.json.encode(manifest, order="sorted"), digest_size=16).hexdigest()
    meta["name"] = f"{meta['name']}-{node}"
    meta.setdefault("namespace", "kube-system")
    meta["annotations"] = {
        **(meta.get("annotations") or {}),
        "kubernetes.io/config.hash": digest,
        MIRROR: digest,
        "kubernetes.io/config.source": "file",
    }
    meta["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "Node", "name": node, "uid": node_uid, "controller": True}
    ]
    spec = body["spec"]
    spec["nodeName"] = node
    spec["tolerations"] = [*(spec.get("tolerations") or ()), {"effect": "NoExecute", "operator": "Exists"}]
    return body


class StaticPods:
    """Keeps the mirrors of static pods."""

    def __init__(self, hollow_nodes: dict[str, HollowNode], informers: Informers, writer: Writer) -> None:
        self._hollow_nodes = hollow_nodes
        self._pods = informers.pods
        self._writer = writer
        self._wanted: dict[str, tuple[str, Plain]] = {}
        """Key of the mirror to its node and its manifest."""
        self.due_queue: DueQueue[str] = DueQueue()

    def subscribe(self) -> None:
        self._pods.subscribe(self._pod_changed)

    def run(self, hollow_node: HollowNode, manifest: Plain) -> str:
        """Let a node run a static pod; return the key of its mirror."""
        meta = mirror_of(manifest, hollow_node.name, hollow_node.uid)["metadata"]
        key = f"{meta['namespace']}/{meta['name']}"
        self._wanted[key] = (hollow_node.name, manifest)
        self.due_queue.put(key, asyncio.get_running_loop().time())
        return key

    def _pod_changed(self, event: InformerEvent[Pod]) -> None:
        if isinstance(event, InformerDelete) and event.key in self._wanted:
            self.due_queue.put(event.key, asyncio.get_running_loop().time() + RETRY_SECONDS)

    async def step(self, key: str) -> None:
        """Make a mirror that is missing, if its node is there."""
        node, manifest = self._wanted[key]
        hollow_node = self._hollow_nodes.get(node)
        if hollow_node is None or not hollow_node.health.reports or key in self._pods.store:
            return
        body = mirror_of(manifest, node, hollow_node.uid)
        try:
            await self._writer.ensure(Pod, body, namespace=body["metadata"]["namespace"])
        except KubeError as error:
            log.warning("mirror.not_made", pod=key, error=str(error))
            self.due_queue.put(key, asyncio.get_running_loop().time() + RETRY_SECONDS)
