"""
A large cluster at rest: nodes of one pool that are complete, each nearly full of pods that run.

The machines are the cheapest that hold their pods, so that there is nothing to be saved.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from karpenter.api.labels import (
    CAPACITY_TYPE,
    INITIALIZED,
    INSTANCE_TYPE,
    NODEPOOL,
    NODEPOOL_HASH,
    NODEPOOL_HASH_VERSION,
    REGISTERED,
    TERMINATION_FINALIZER,
    ZONE,
)
from karpenter.api.node import Node
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodepool import NodePool
from karpenter.api.pod import Pod
from karpenter.core.model.nodepool_hash import POOL_HASH_VERSION, pool_hash
from karpenter.kube.patches import MergePatch

if TYPE_CHECKING:
    from karpenter.kube.client import Client

TYPE: Final = "c-16x-amd64-linux"
ALL: Final = {"cpu": "16", "memory": "32Gi", "pods": "256", "ephemeral-storage": "20Gi"}
ROOM: Final = {**ALL, "cpu": "15900m", "memory": "32758Mi"}
BORN: Final = "2026-01-01T00:00:00Z"
CLASS: Final = "karpenter.kwok.sh/kwoknodeclass"
MARKS: Final = (
    "Launched",
    "Registered",
    "Initialized",
    "Consolidatable",
    "ConsistentStateFound",
    "Ready",
)
OWNER: Final = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "controller": True}


async def fill(client: Client, *, nodes: int, pods: int, pool: dict[str, Any]) -> None:
    """Make a node class, a pool, its nodes with their claims, and the pods on them."""
    made = await client.create(NodePool, pool)
    for number in range(nodes):
        await _machine(client, made, number)
        for each in range(number * pods // nodes, (number + 1) * pods // nodes):
            await _pod(client, f"web-{each:05d}", f"kwok-{number:04d}")
        await asyncio.sleep(0)


async def _machine(client: Client, pool: NodePool, number: int) -> None:
    name, node = f"default-{number:04d}", f"kwok-{number:04d}"
    labels = {
        NODEPOOL: pool.name,
        INSTANCE_TYPE: TYPE,
        ZONE: f"test-zone-{'abcd'[number % 4]}",
        CAPACITY_TYPE: "on-demand",
        CLASS: "default",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "karpenter.kwok.sh/instance-size": "16",
    }
    spec = pool.spec.template.spec
    claim = {
        "metadata": {
            "name": name,
            "labels": labels,
            "annotations": {NODEPOOL_HASH: pool_hash(pool), NODEPOOL_HASH_VERSION: POOL_HASH_VERSION},
            "finalizers": [TERMINATION_FINALIZER],
        },
        "spec": {
            "nodeClassRef": {
                "group": spec.node_class_ref.group,
                "kind": spec.node_class_ref.kind,
                "name": "default",
            },
            "expireAfter": "Never",
            "requirements": [{"key": INSTANCE_TYPE, "operator": "In", "values": [TYPE]}],
            "resources": {"requests": {"cpu": "15", "memory": "20Gi", "pods": "20"}},
        },
    }
    provider_id = f"kwok://{node}"
    status = {"providerID": provider_id, "nodeName": node, "capacity": ALL, "allocatable": ROOM}
    conditions = [_condition(kind, generation=1) for kind in MARKS]
    await client.create(NodeClaim, claim)
    await client.patch(
        NodeClaim, name, MergePatch({"status": {**status, "conditions": conditions}}), subresource="status"
    )
    body = {
        "metadata": {
            "name": node,
            "labels": {**labels, REGISTERED: "true", INITIALIZED: "true", "kubernetes.io/hostname": node},
            "finalizers": [TERMINATION_FINALIZER],
        },
        "spec": {"providerID": provider_id},
    }
    await client.create(Node, body)
    report = {"capacity": ALL, "allocatable": ROOM, "conditions": [_condition("Ready")]}
    await client.patch(Node, node, MergePatch({"status": report}), subresource="status")


def pod_body(name: str, node: str) -> dict[str, Any]:
    """Return a pod on a node; on none, if that is empty."""
    requests = {"cpu": "750m", "memory": "1Gi"}
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": {"app": "web"},
            "ownerReferences": [{**OWNER, "name": "web", "uid": "web"}],
        },
        "spec": {
            **({"nodeName": node} if node else {}),
            "containers": [{"name": "main", "image": "pause", "resources": {"requests": requests}}],
        },
    }


async def _pod(client: Client, name: str, node: str) -> None:
    await client.create(Pod, pod_body(name, node), namespace="default")
    status = {
        "phase": "Running",
        "startTime": BORN,
        "conditions": [_condition("PodScheduled"), _condition("Ready")],
    }
    await client.patch(Pod, name, MergePatch({"status": status}), namespace="default", subresource="status")


def _condition(kind: str, generation: int = 0) -> dict[str, Any]:
    held = {"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": BORN}
    return {**held, "observedGeneration": generation} if generation else held
