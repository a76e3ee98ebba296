"""Client, informers, election and events on a real kube-apiserver: what holds in process holds there."""

import asyncio
from pathlib import Path
from random import Random

import pytest

from karpenter.api.cluster import PriorityClass
from karpenter.api.node import Node
from karpenter.api.pod import Pod, PodTemplate
from karpenter.base.clock import SystemClock
from karpenter.kube.client import Client
from karpenter.kube.errors import NotFound
from karpenter.kube.http import Endpoint, HttpTransport, StaticCredentials, Trust
from karpenter.kube.rest import Selection
from karpenter.kube.targets import untyped
from tests.contract.kubernetes.servers import real
from tests.unit.kube.scenarios import CONFIGS, DEPLOYMENTS, SCENARIOS, title

REAL_TIME = True

ACCOUNTS = untyped("v1", "serviceaccounts", kind="ServiceAccount", namespaced=True)


async def ready(client: Client) -> None:
    """Wait until pods can be made: their service account comes a little after the server."""
    async with asyncio.timeout(60):
        while True:
            try:
                await client.get(ACCOUNTS, "default", namespace="default")
            except NotFound:
                await asyncio.sleep(0.2)
            else:
                return


async def clean(client: Client) -> None:
    here = Selection(namespace="default")
    for kind in (CONFIGS, DEPLOYMENTS):
        for item in (await client.list(kind, here)).items:
            await client.delete(kind, item["metadata"]["name"], namespace="default")
    for pod in (await client.list(Pod, here)).items:
        await client.delete(Pod, pod.name, namespace="default", grace=0)
    for template in (await client.list(PodTemplate, here)).items:
        await client.delete(PodTemplate, template.name, namespace="default")
    for node in (await client.list(Node)).items:
        await client.delete(Node, node.name)
    for priority in (await client.list(PriorityClass, Selection(labels="of=test"))).items:
        await client.delete(PriorityClass, priority.name)


@pytest.mark.controlplane
async def test_every_scenario_on_the_real_control_plane(chance: Random, tmp_path: Path) -> None:
    """One control plane is started, and every scenario run on it in turn."""
    with real(tmp_path) as running:
        authority = tmp_path / "authority.crt"
        await asyncio.to_thread(authority.write_bytes, running.address.authority)
        endpoint = Endpoint(server=running.address.url, trust=Trust(ca_file=str(authority)))
        client = Client(
            HttpTransport(endpoint, StaticCredentials(token=running.address.token)), chance=chance
        )
        try:
            await ready(client)
            failed = {}
            for scenario in SCENARIOS:
                try:
                    await scenario(client, SystemClock())
                except Exception as error:  # noqa: BLE001  every scenario has its turn, and all failures are shown
                    failed[title(scenario)] = repr(error)
                await clean(client)
        finally:
            await client.close()

    assert failed == {}
