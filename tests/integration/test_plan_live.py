"""``karpenter plan`` on a live cluster, over HTTP, as a user types it."""

from __future__ import annotations

import asyncio
import json
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from karpenter.api.manifests import render_documents
from karpenter.api.node import Node
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodepool import NodePool
from karpenter.api.pod import Pod
from karpenter.base.clock import SystemClock
from karpenter.cli import main
from karpenter.kube.client import Client
from karpenter.kube.http import HttpTransport
from karpenter.kube.kubeconfig import find_cluster
from karpenter.kube.patches import MergePatch
from karpenter_local import kubeconfig
from karpenter_local.sandbox.cloud import create_kwok_node_class
from karpenter_local.sandbox.cluster import install_definitions
from tests.integration.serving import Running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


CLASS = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
TYPE, PRICE = "s-16x-amd64-linux", "on-demand"
LABELS = {
    "karpenter.sh/nodepool": "default",
    "karpenter.sh/capacity-type": PRICE,
    "karpenter.sh/registered": "true",
    "karpenter.sh/initialized": "true",
    "node.kubernetes.io/instance-type": TYPE,
    "topology.kubernetes.io/zone": "test-zone-a",
    "kubernetes.io/arch": "amd64",
    "kubernetes.io/os": "linux",
}
ROOM = {"cpu": "16", "memory": "64Gi", "pods": "110"}


def pool(**disruption: Any) -> dict[str, Any]:
    """Return a pool whose machines may all go at once."""
    requirements = [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": [PRICE]}]
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "default"},
        "spec": {
            "template": {
                "spec": {"nodeClassRef": CLASS, "requirements": requirements, "expireAfter": "Never"}
            },
            "disruption": {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}], **disruption},
        },
    }


async def _fill(config: Path) -> None:
    """Put a cluster there: a pool, and a large machine with one small pod on it."""
    cluster = await find_cluster(environ={}, clock=SystemClock(), kubeconfig=str(config))
    client = Client(HttpTransport(cluster.endpoint, cluster.credentials), chance=Random(1))  # noqa: S311  retries, not secrets
    await install_definitions(client)
    await create_kwok_node_class(client)
    await client.create(NodePool, pool())
    claim = {
        "metadata": {"name": "one", "labels": LABELS},
        "spec": {"nodeClassRef": CLASS, "requirements": []},
    }
    await client.create(NodeClaim, claim)
    done = {"status": "True", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    conditions = [
        {"type": each, "reason": each, **done} for each in ("Launched", "Registered", "Initialized")
    ]
    status = {"providerID": "kwok://one", "nodeName": "one", "capacity": ROOM, "allocatable": ROOM}
    change = MergePatch({"status": {**status, "conditions": conditions}})
    await client.patch(NodeClaim, "one", change, subresource="status")
    node = {"metadata": {"name": "one", "labels": LABELS}, "spec": {"providerID": "kwok://one"}}
    ready = {"capacity": ROOM, "allocatable": ROOM, "conditions": [{"type": "Ready", "status": "True"}]}
    await client.create(Node, node)
    await client.patch(Node, "one", MergePatch({"status": ready}), subresource="status")
    await client.patch(Node, "one", MergePatch({"spec": {"taints": []}}))  # a new node is not ready at first
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1", "controller": True}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    meta = {"name": "web-0", "ownerReferences": [owner]}
    body = {"metadata": meta, "spec": {"nodeName": "one", "containers": [container]}}
    await client.create(Pod, body, namespace="default")
    await client.close()


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of a cluster that listens on a port."""
    running = Running()
    front = running.front
    assert front is not None
    path = tmp_path_factory.mktemp("live") / "kubeconfig"
    text = kubeconfig.render(
        name="embedded", url=front.url, authority=front.certificates.authority, token=front.token
    )
    kubeconfig.write(path, text)
    asyncio.run(_fill(path))
    yield path
    running.stop()


def plan(config: Path, *arguments: str, objects: list[dict[str, Any]] | None = None) -> Result:
    """Run ``karpenter plan`` on the live cluster."""
    text = render_documents(objects or [])
    more = ["-f", "-"] if objects else []
    return CliRunner().invoke(main, ["plan", "--kubeconfig", str(config), *more, *arguments], input=text)


def test_a_live_cluster_is_planned_for(config: Path) -> None:
    """What runs is read from the cluster: the pod has its place, and the machine is too large for it."""
    found = json.loads(plan(config, "--disruption", "-o", "json").stdout)

    assert found["newNodes"] == []
    (command,) = found["commands"]
    assert (command["candidates"], command["decision"], command["podsMoved"]) == (["one"], "replace", 1)
    assert command["hourlyAfter"] < command["hourlyBefore"]


def test_the_page_shows_before_and_after(config: Path) -> None:
    """People see machines, prices by hour and month, and moves, before and after."""
    result = plan(config, "--disruption", "--context", "embedded")

    assert "1 machine → 1" in result.stdout
    assert " a month (" in " ".join(result.stdout.split())


def test_manifests_are_tried_on_the_live_cluster(config: Path) -> None:
    """What is given with -f replaces what the cluster has, without being applied."""
    changed = pool(consolidationPolicy="WhenEmpty")

    found = json.loads(plan(config, "--disruption", "-o", "json", objects=[changed]).stdout)

    assert [(kept["node"], kept["code"]) for kept in found["kept"]] == [("one", "WhenEmpty")]
    page = " ".join(plan(config, "--disruption", objects=[changed]).stdout.split())
    assert "$/month held by" in page
    assert "No machine would go now." in page


def test_a_new_workload_lands_beside_what_runs(config: Path) -> None:
    """A Deployment that the cluster does not know yet is expanded and placed on the machines there are."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}
    template = {"metadata": {"labels": {"app": "new"}}, "spec": {"containers": [container]}}
    body = {"replicas": 2, "selector": {"matchLabels": {"app": "new"}}, "template": template}
    new = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "new"}, "spec": body}

    found = json.loads(plan(config, "-o", "json", objects=[new]).stdout)

    assert found["existingNodes"] == [{"name": "one", "pods": ["default/new-0", "default/new-1"]}]


def test_a_context_that_is_not_there_is_refused(config: Path) -> None:
    """A wrong name ends the command with one sentence and nothing on standard output."""
    result = plan(config, "--context", "elsewhere")

    assert (result.exit_code, result.stdout) == (2, "")
    assert "elsewhere" in result.stderr


def test_nothing_to_plan_for_is_refused() -> None:
    """Without manifests and without a cluster there is nothing to say."""
    result = CliRunner().invoke(main, ["plan"], env={"KUBECONFIG": None, "HOME": "/nowhere"})

    assert result.exit_code == 2
    assert "--context" in result.stderr


def why(config: Path, *arguments: str) -> dict[str, Any]:
    """Return what ``karpenter why`` says of an object of the live cluster."""
    words = ["why", "--kubeconfig", str(config), "--context", "embedded", "-o", "json", *arguments]
    found: dict[str, Any] = json.loads(CliRunner().invoke(main, words).stdout)
    return found


def test_objects_of_a_live_cluster_are_explained(config: Path) -> None:
    """A node is told what it was bought for, who uses it and what becomes of it; a pod, where it runs."""
    node, pod = why(config, "node/one"), why(config, "pod", "web-0")

    assert node["answer"].startswith("It would go now (Underutilized), which saves $")
    assert "1 pod runs on it: ReplicaSet default/web" in node["because"]
    assert node["monthly"] > 0
    assert (pod["placed"], pod["object"]) == (True, "pod/default/web-0")
    assert pod["answer"].startswith(f"It runs on node one ({TYPE}, test-zone-a, {PRICE}, NodePool default)")
