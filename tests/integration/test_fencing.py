"""
Two operators as processes, of which the leading one is stopped in the middle of a drain and continued.

Each reaches the API server through a port of its own, which records what it asks.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

from karpenter.api.cluster import Lease, PodDisruptionBudget
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodepool import NodePool
from karpenter.api.pod import Pod
from karpenter.api.workloads import Deployment
from karpenter_local import kubeconfig
from karpenter_local.apiserver.http import SecureServer
from karpenter_local.sandbox.options import ClusterOptions, KwokOptions
from karpenter_local.sandbox.sandbox import Sandbox
from tests.integration.process import inflate, pool
from tests.integration.settling import until

if TYPE_CHECKING:
    from pathlib import Path

    from aiohttp import web

    from karpenter.kube.client import Client
    from karpenter_local.apiserver.server import Server

REAL_TIME = True
LEASE = "karpenter-leader-election"


class RecordedReplica(SecureServer):
    """A port of the API server, and the replica that uses it."""

    def __init__(self, server: Server, directory: Path, name: str) -> None:
        super().__init__(server)
        self.asked: list[str] = []
        self.log = directory / f"{name}.log"
        self._config = directory / f"{name}.kubeconfig"

    async def _serve(self, incoming: web.BaseRequest) -> web.StreamResponse:
        self.asked.append(f"{incoming.method} {incoming.rel_url.raw_path}")
        return await super()._serve(incoming)

    async def run(self) -> asyncio.subprocess.Process:
        text = kubeconfig.render(
            name="replica", url=await self.start(), authority=self.certificates.authority, token=self.token
        )
        self._config.write_text(text)
        command = (sys.executable, "-m", "tests.integration.replica", str(self._config))
        with self.log.open("ab") as output:
            return await asyncio.create_subprocess_exec(*command, stdout=output, stderr=output)

    async def evictions(self) -> int:
        """Return how many evictions it has asked for."""
        return sum(each.endswith("/eviction") for each in self.asked)


async def holder(client: Client) -> str:
    leases = (await client.list(Lease)).items
    return next((each.spec.holder_identity for each in leases if each.name == LEASE), "")


async def draining(client: Client) -> None:
    """Let a node drain whose only pod may not be evicted, by its PodDisruptionBudget."""
    claims = await until(
        lambda: client.list(NodeClaim), lambda found: any(each.status.node_name for each in found.items)
    )
    await until(
        lambda: client.list(Pod), lambda found: any(each.status.phase == "Running" for each in found.items)
    )
    await client.delete(NodeClaim, claims.items[0].name)


def budget() -> dict[str, Any]:
    """Return a PodDisruptionBudget that allows no eviction."""
    selector = {"matchLabels": {"app": "inflate"}}
    return {"metadata": {"name": "inflate"}, "spec": {"minAvailable": 1, "selector": selector}}


async def test_a_leader_that_was_stopped_and_continued_writes_nothing(tmp_path: Path) -> None:
    """When it wakes its successor leads: it sends no write at all, names the successor and exits with 1."""
    sandbox = Sandbox(
        clock="real", cluster=ClusterOptions(http=True), cloud=KwokOptions(in_operator=True), operators=0
    )
    async with sandbox:
        client, server = sandbox.client, sandbox.cluster.server
        old, new = (RecordedReplica(server, tmp_path, name) for name in ("old", "new"))
        await client.create(NodePool, pool())
        await client.create(PodDisruptionBudget, budget(), namespace="default")
        await client.create(Deployment, inflate(1), namespace="default")
        stopped = await old.run()
        first = await until(lambda: holder(client), bool)
        successor = await new.run()
        try:
            await draining(client)
            await until(old.evictions, lambda count: count)

            os.kill(stopped.pid, signal.SIGSTOP)
            second = await until(lambda: holder(client), lambda found: found not in {"", first})
            await until(new.evictions, lambda count: count)
            before = len(old.asked)
            os.kill(stopped.pid, signal.SIGCONT)
            async with asyncio.timeout(20):
                code = await stopped.wait()

            since = old.asked[before:]
            assert [each for each in since if not each.startswith("GET ")] == []
            assert (code, await holder(client)) == (1, second), old.log.read_text()
            assert f"the lease was lost to {second}" in old.log.read_text()
            assert "reconciler.crashed" not in old.log.read_text()
        finally:
            for process in (stopped, successor):
                if process.returncode is None:
                    process.kill()
                    await process.wait()
            await old.stop()
            await new.stop()
