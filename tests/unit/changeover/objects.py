"""Objects of a cluster with Karpenter 1.14 in it, as an API server holds them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from karpenter.install.release import ReleaseRecord, release_secret

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
LATER = "2026-03-01T11:00:00Z"


def deployment(*, environment: dict[str, str] | None = None, args: list[str] | None = None) -> dict[str, Any]:
    variables = {"CLUSTER_NAME": "blue", "FEATURE_GATES": "NodeRepair=false", **(environment or {})}
    container = {
        "name": "controller",
        "image": "public.ecr.aws/karpenter/controller:1.14.1@sha256:0",
        "args": args or [],
        "env": [
            *({"name": name, "value": value} for name, value in variables.items()),
            {"name": "SYSTEM_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
        ],
    }
    labels = {"app.kubernetes.io/name": "karpenter", "app.kubernetes.io/instance": "karpenter"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "karpenter", "namespace": "kube-system", "labels": labels},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def secret(values: dict[str, Any], *, revision: int = 3) -> dict[str, Any]:
    """Return the Secret in which Helm keeps the release."""
    record = ReleaseRecord(
        name="karpenter",
        namespace="kube-system",
        revision=revision,
        status="deployed",
        chart="karpenter",
        chart_version="1.14.1",
        app_version="1.14.1",
        updated="",
        config=values,
    )
    return release_secret(record, now=NOW, files={}, objects=[])


def rule(*expressions: str) -> dict[str, Any]:
    rules = [{"alert": f"A{number}", "expr": text} for number, text in enumerate(expressions)]
    meta = {"name": "karpenter", "namespace": "monitoring"}
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": meta,
        "spec": {"groups": [{"name": "karpenter", "rules": rules}]},
    }


CLASS = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
# What the Go code of Karpenter 1.14.1 gives for this template.
POOL_HASH = "7428780003907761376"
TYPE = "s-16x-amd64-linux"
ROOM = {"cpu": "16", "memory": "64Gi", "pods": "110"}


def pool(**disruption: Any) -> dict[str, Any]:
    """Return a NodePool, as Karpenter has stamped it."""
    notes = {"karpenter.sh/nodepool-hash": POOL_HASH, "karpenter.sh/nodepool-hash-version": "v3"}
    template = {"nodeClassRef": CLASS, "requirements": [], "expireAfter": "Never"}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "default", "annotations": notes},
        "spec": {
            "template": {"spec": template},
            "disruption": {"consolidateAfter": "Never", "budgets": [{"nodes": "100%"}], **disruption},
        },
    }


def machine(name: str, *, pool_hash: str = POOL_HASH, drifted: bool = False) -> list[dict[str, Any]]:
    """Return a claim and its node, as Karpenter makes them."""
    labels = {
        "karpenter.sh/nodepool": "default",
        "karpenter.sh/capacity-type": "on-demand",
        "node.kubernetes.io/instance-type": TYPE,
        "topology.kubernetes.io/zone": "test-zone-a",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
    }
    notes = {"karpenter.sh/nodepool-hash": pool_hash, "karpenter.sh/nodepool-hash-version": "v3"}
    kinds = ["Launched", "Registered", "Initialized", *(["Drifted"] if drifted else [])]
    conditions = [
        {"type": each, "status": "True", "reason": each, "message": "", "lastTransitionTime": LATER}
        for each in kinds
    ]
    meta = {"name": name, "uid": name, "labels": labels, "annotations": notes, "creationTimestamp": LATER}
    claim = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": meta,
        "spec": {"nodeClassRef": CLASS, "requirements": [], "expireAfter": "Never"},
        "status": {
            "providerID": f"kwok://{name}",
            "nodeName": name,
            "capacity": ROOM,
            "allocatable": ROOM,
            "conditions": conditions,
        },
    }
    ready = {"karpenter.sh/registered": "true", "karpenter.sh/initialized": "true"}
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {**meta, "labels": {**labels, **ready, "kubernetes.io/hostname": name}},
        "spec": {"providerID": f"kwok://{name}"},
        "status": {
            "capacity": ROOM,
            "allocatable": ROOM,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    return [claim, node]


def pod(name: str, node: str, cpu: str = "1") -> dict[str, Any]:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1", "controller": True}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": name, "ownerReferences": [owner]},
        "spec": {"nodeName": node, "containers": [container]},
        "status": {"phase": "Running"},
    }


def node_class() -> dict[str, Any]:
    ready = {"type": "Ready", "status": "True", "reason": "Ready", "lastTransitionTime": LATER, "message": ""}
    return {
        "apiVersion": "karpenter.kwok.sh/v1alpha1",
        "kind": "KWOKNodeClass",
        "metadata": {"name": "default"},
        "spec": {},
        "status": {"conditions": [ready]},
    }
