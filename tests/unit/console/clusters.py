"""Small clusters that the console shows."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from karpenter.api.manifests import render_documents
from karpenter.cli.planning.input import read_input
from karpenter.cli.why import inquiry_of
from karpenter.cloud.catalogs.load import load_catalog
from karpenter.operator.options import parse_settings
from tests.unit.why.clusters import machine, pod, pool, write_catalogue

if TYPE_CHECKING:
    from pathlib import Path

    from karpenter.why.answer import Inquiry

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


def small_cluster() -> list[dict[str, Any]]:
    """Return a NodePool, a machine with pods of a Deployment and a DaemonSet, and a pod that waits."""
    web = [_owned(f"web-5d9c-{name}", "ReplicaSet", "web-5d9c", nodeName="n") for name in "ab"]
    agent = _owned("agent-x", "DaemonSet", "agent", "100m", "128Mi", nodeName="n")
    return [pool(limits={"cpu": "8"}), *machine("n"), *web, agent, pod("late")]


def _owned(
    name: str, kind: str, owner: str, cpu: str = "1", memory: str = "1Gi", **spec: Any
) -> dict[str, Any]:
    reference = {"apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": owner, "controller": True}
    labels = {"pod-template-hash": "5d9c"} if kind == "ReplicaSet" else {}
    return pod(name, cpu, memory, metadata={"ownerReferences": [reference], "labels": labels}, **spec)


def inquiry(objects: list[dict[str, Any]], folder: Path) -> Inquiry:
    """Return a cluster of these objects, and how to ask what the operator would do with it."""
    file = folder / "objects.yaml"
    file.write_text(render_documents(objects))
    found = read_input([str(file)])
    assert not found.problems, found.problems
    return inquiry_of(found.view, load_catalog(write_catalogue(folder)), parse_settings({}), NOON)
