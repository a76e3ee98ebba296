"""``karpenter local up --with-karpenter``, as processes that users start."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import aiohttp
import pytest
from click.testing import CliRunner, Result

from karpenter.api.cluster import Lease, Service
from karpenter.api.node import Node
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodepool import NodePool
from karpenter.api.pod import Pod
from karpenter.api.workloads import Deployment
from karpenter.cli import main
from karpenter.kube.rest import Selection
from karpenter.kube.transport import Request
from tests.integration.process import connected, inflate, pool
from tests.integration.settling import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from karpenter.kube.client import Client

REAL_TIME = True


def run(*arguments: str) -> Result:
    """Run ``karpenter local`` with these arguments."""
    return CliRunner().invoke(main, ["local", *arguments])


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A state directory of its own; whatever was started there is ended."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("BATCH_IDLE_DURATION", "100ms")
    yield tmp_path / "karpenter-local"
    run("down")


async def all_run(client: Client) -> bool:
    pods = (await client.list(Pod, Selection(namespace="default"))).items
    return len(pods) == 3 and all(pod.status.phase == "Running" for pod in pods)


async def check_installed(client: Client) -> None:
    """Look for the operator where an installed one is found, and read its log."""
    labels = Selection(namespace="kube-system", labels="app.kubernetes.io/name=karpenter")
    [pod] = (await client.list(Pod, labels)).items
    lease = await client.get(Lease, "karpenter-leader-election", namespace="kube-system")
    await client.get(Service, "karpenter", namespace="kube-system")
    deployed = await until(
        lambda: client.get(Deployment, "karpenter", namespace="kube-system"),
        lambda found: found.status.available_replicas == 1,
    )
    path = f"/api/v1/namespaces/kube-system/pods/{pod.name}/log"
    log = await client.send(Request(method="GET", path=path, query=(("tailLines", "50"),)))

    assert (pod.status.phase, pod.spec.node_name, deployed.spec.replicas) == ("Running", "", 1)
    assert lease.spec.holder_identity.startswith(f"{pod.name}_")
    assert b"operator.leads" in log.body


async def test_the_tutorial(place: Path) -> None:
    """Pods get machines, a node that is deleted is drained and replaced, and down ends all of it."""
    up = await asyncio.to_thread(run, "up", "--with-karpenter")
    assert up.exit_code == 0, up.stderr
    facts = json.loads(run("status", "-o", "json").stdout)
    assert "runs, metrics at http://127.0.0.1:" in run("status").stdout

    async with connected(place / "kubeconfig") as client:
        await check_installed(client)
        await client.create(NodePool, pool())
        await client.create(Deployment, inflate(3), namespace="default")
        await until(lambda: all_run(client), bool)
        [node] = (await client.list(Node)).items
        [claim] = (await client.list(NodeClaim)).items
        assert claim.status.node_name == node.name

        await client.delete(Node, node.name)
        await until(lambda: client.list(Node), lambda found: node.name not in [n.name for n in found.items])
        await until(lambda: all_run(client), bool)
        assert claim.name not in [each.name for each in (await client.list(NodeClaim)).items]

        async with aiohttp.ClientSession() as session, session.get(facts["karpenter"]) as scraped:
            assert "karpenter_nodeclaims_created_total{" in await scraped.text()

    assert (await asyncio.to_thread(run, "down")).exit_code == 0
    with pytest.raises(aiohttp.ClientConnectorError):
        async with aiohttp.ClientSession() as session:
            await session.get(facts["karpenter"])


def test_bad_settings(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A setting that the operator cannot use keeps both from starting, and the reason is one sentence."""
    monkeypatch.setenv("KWOK_LAUNCH_LATENCY", "soon")
    refused = run("up", "--with-karpenter")

    assert refused.exit_code == 2
    assert "error: setting KWOK_LAUNCH_LATENCY" in refused.stderr
    assert run("status").exit_code == 1
    assert not (place / "kubeconfig").exists()
