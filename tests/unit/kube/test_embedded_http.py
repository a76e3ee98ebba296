"""Client, informers, election and events on the embedded API server, over TLS, from its kubeconfig."""

from pathlib import Path
from random import Random

import pytest

from karpenter.base.clock import SystemClock
from karpenter.kube.client import Client
from karpenter.kube.http import HttpTransport
from karpenter.kube.kubeconfig import from_kubeconfig
from karpenter_local.apiserver.http import SecureServer
from karpenter_local.apiserver.server import Server
from karpenter_local.kubeconfig import render, write
from tests.unit.kube.scenarios import SCENARIOS, Scenario, title

REAL_TIME = True


@pytest.mark.parametrize("scenario", SCENARIOS, ids=title)
async def test_over_tls(scenario: Scenario, chance: Random, tmp_path: Path) -> None:
    """What a client expects of a server holds over real sockets, found by a kubeconfig."""
    clock = SystemClock()
    front = SecureServer(Server(clock=clock, seed=1))
    url = await front.start()
    config = tmp_path / "config"
    write(config, render(name="local", url=url, authority=front.certificates.authority, token=front.token))
    cluster = await from_kubeconfig(str(config), environ={}, clock=clock)
    client = Client(HttpTransport(cluster.endpoint, cluster.credentials), chance=chance)
    try:
        await scenario(client, clock)
    finally:
        await client.close()
        await front.stop()
