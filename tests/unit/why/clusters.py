"""Small clusters that explanations are asked about."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from click.testing import CliRunner, Result

from karpenter.api.manifests import render_documents
from karpenter.cli import main

if TYPE_CHECKING:
    from pathlib import Path


NOW = "2026-03-02T12:00:00Z"  # a Monday
MONTH = 730


def pool(name: str = "default", *ways: str, **spec: Any) -> dict[str, Any]:
    """Return a NodePool that may buy in these capacity types, on-demand unless told."""
    template = spec.pop("template", {})
    disruption = {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}], **spec.pop("disruption", {})}
    reference = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
    wanted = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": list(ways or ("on-demand",))}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {
            "template": {
                "spec": {
                    "nodeClassRef": reference,
                    "requirements": [wanted],
                    "expireAfter": "Never",
                    **template,
                }
            },
            "disruption": disruption,
            **spec,
        },
    }


def pod(name: str, cpu: str = "1", memory: str = "1Gi", **spec: Any) -> dict[str, Any]:
    """Return a pod that waits, or one that runs if it has a nodeName."""
    requests = {"cpu": cpu, "memory": memory}
    running = "nodeName" in spec
    meta = {"name": name, "namespace": "default", **spec.pop("metadata", {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": requests}}], **spec},
        "status": {"phase": "Running" if running else "Pending"},
    }


def machine(name: str, *, steps: int = 3, node: bool = True, **spec: Any) -> list[dict[str, Any]]:
    """Return a NodeClaim ``claim-NAME`` that came this many steps far, and its node."""
    labels = {
        "karpenter.sh/nodepool": spec.pop("nodepool", "default"),
        "karpenter.sh/capacity-type": "on-demand",
        "node.kubernetes.io/instance-type": "four",
        "topology.kubernetes.io/zone": "zone-a",
        "kubernetes.io/hostname": name,
        "karpenter.sh/registered": "true",
    }
    if steps >= 3:
        labels["karpenter.sh/initialized"] = "true"
    has = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    told = ("Launched", "Registered", "Initialized", "Consolidatable")
    done = len(told) if steps >= 3 else steps
    conditions = [
        {"type": each, "status": "True", "lastTransitionTime": "2026-03-02T11:50:00Z"} for each in told[:done]
    ]
    reference = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
    claim = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": f"claim-{name}", "labels": labels, "creationTimestamp": "2026-03-01T00:00:00Z"},
        "spec": {
            "nodeClassRef": reference,
            "requirements": [],
            "expireAfter": "Never",
            "resources": {"requests": {"cpu": "3", "memory": "2Gi"}},
            **spec.pop("claim", {}),
        },
        "status": {
            "nodeName": name if node else "",
            "providerID": f"kwok://{name}" if steps else "",
            "capacity": has if steps else {},
            "allocatable": has if steps else {},
            "conditions": conditions,
        },
    }
    if not node:
        return [claim]
    ready = spec.pop("ready", "True")
    there = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"providerID": f"kwok://{name}", **spec},
        "status": {"capacity": has, "allocatable": has, "conditions": [{"type": "Ready", "status": ready}]},
    }
    return [claim, there]


def _kind(name: str, cpu: str, memory: str, price: float) -> dict[str, Any]:
    def sold(way: str, cost: float) -> dict[str, Any]:
        keys = {"karpenter.sh/capacity-type": way, "topology.kubernetes.io/zone": "zone-a"}
        entries = [{"key": key, "operator": "In", "values": [value]} for key, value in keys.items()]
        return {"Price": cost, "Available": True, "Requirements": entries}

    return {
        "name": name,
        "architecture": "amd64",
        "operatingSystems": ["linux"],
        "resources": {"cpu": cpu, "memory": memory, "pods": "110"},
        "offerings": [
            sold("on-demand", price),
            *([sold("spot", price / 4)] if name != "big" else []),
        ],
    }


def write_catalogue(folder: Path) -> str:
    """Write a catalogue of two types (``big`` is not sold as spot) and return its path."""
    file = folder / "types.json"
    file.write_text(json.dumps([_kind("four", "4", "8Gi", 0.1), _kind("big", "16", "32Gi", 0.4)]))
    return str(file)


def ask(target: str, objects: list[dict[str, Any]], folder: Path, *arguments: str) -> Result:
    """Run ``karpenter why`` on objects."""
    types = write_catalogue(folder)
    words = ["why", target, "-f", "-", "--now", NOW, "--catalog", types, *arguments]
    return CliRunner().invoke(main, words, input=render_documents(objects))


def answer(target: str, objects: list[dict[str, Any]], folder: Path, *arguments: str) -> dict[str, Any]:
    result = ask(target, objects, folder, "-o", "json", *arguments)
    assert result.exit_code in {0, 1}, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found
