"""
The operator as a process that is killed in the middle of its work: nothing is lost, nothing is doubled.

Both processes are on record, and every decision of both, made in threads and in real time, can be made again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.api.node import Node
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodepool import NodePool
from karpenter.api.pod import Pod
from karpenter.api.workloads import Deployment
from karpenter.replay.replay import Replay
from karpenter_local.sandbox.options import ClusterOptions, KwokOptions
from karpenter_local.sandbox.sandbox import Sandbox
from tests.integration.process import inflate, pool, started
from tests.integration.settling import until

if TYPE_CHECKING:
    import asyncio
    from pathlib import Path

    from karpenter.kube.client import Client

REAL_TIME = True
PODS = 12


async def running(client: Client) -> int:
    return sum(pod.status.phase == "Running" for pod in (await client.list(Pod)).items)


async def test_kill_in_the_middle_of_provisioning(tmp_path: Path) -> None:
    """Claims were made and no pod runs yet when the process dies; its successor finishes, with no spares."""
    config, log = tmp_path / "kubeconfig", tmp_path / "log"
    options = ["--kubeconfig", str(config), "--disable-leader-election", "true"]
    options += ["--metrics-port", "0", "--health-probe-port", "0", "--batch-idle-duration", "200ms"]
    options += ["--flight-record", str(tmp_path / "flight")]

    async def operator(latency: str) -> asyncio.subprocess.Process:
        return await started("run", *options, log=log, KWOK_LAUNCH_LATENCY=latency)

    sandbox = Sandbox(
        clock="real", cluster=ClusterOptions(http=True), cloud=KwokOptions(in_operator=True), operators=0
    )
    async with sandbox:
        client = sandbox.client
        config.write_text(sandbox.running.kubeconfig)
        # Wide apart, so that every pod needs a machine of its own: a double one would stay empty.
        apart = {
            "labelSelector": {"matchLabels": {"app": "inflate"}},
            "topologyKey": "kubernetes.io/hostname",
        }
        affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
        await client.create(NodePool, pool())
        await client.create(Deployment, inflate(PODS, affinity=affinity), namespace="default")

        first = await operator("60s")
        claims = await until(lambda: client.list(NodeClaim), lambda found: found.items)
        first.kill()
        await first.wait()
        assert await running(client) == 0
        made = {claim.name for claim in (await client.list(NodeClaim)).items}
        assert {claim.name for claim in claims.items} <= made

        second = await operator("0s")
        await until(lambda: running(client), lambda found: found == PODS)
        left = (await client.list(NodeClaim)).items
        nodes = (await client.list(Node)).items
        second.terminate()

        assert await second.wait() == 0, log.read_text()
        assert made <= {claim.name for claim in left}
        assert len(left) == len(nodes) == PODS
        assert {claim.status.provider_id for claim in left} == {node.spec.provider_id for node in nodes}

    for record in ("flight.1", "flight"):
        with (tmp_path / record).open("rb") as lines:
            replayed = list(Replay().run(lines))
        assert "provision" in {each.question for each in replayed}
        assert {each.result for each in replayed} == {"same"}
