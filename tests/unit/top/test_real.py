"""Watching a cluster of a real kube-apiserver, which selects Events and serves no kinds of Karpenter."""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING

import pytest

from karpenter.api.cluster import Event
from karpenter.api.node import Node
from karpenter.kube.client import Client
from karpenter.kube.http import Endpoint, HttpTransport, StaticCredentials, Trust
from karpenter.top.feed import LiveFeed, TopMonitor
from karpenter.top.snapshot import TopOptions
from tests.contract.kubernetes.servers import real

if TYPE_CHECKING:
    from pathlib import Path

REAL_TIME = True


@pytest.mark.controlplane
async def test_a_real_cluster_without_karpenter(tmp_path: Path) -> None:
    """Its nodes are rows, only the Events of Karpenter are read, and nothing had to be left out."""
    with real(tmp_path) as running:
        authority = tmp_path / "authority.crt"
        await asyncio.to_thread(authority.write_bytes, running.address.authority)
        endpoint = Endpoint(server=running.address.url, trust=Trust(ca_file=str(authority)))

        def connect() -> Client:
            transport = HttpTransport(endpoint, StaticCredentials(token=running.address.token))
            return Client(transport, chance=Random(1))  # noqa: S311  retries

        client = connect()
        labels = {"node.kubernetes.io/instance-type": "m5.large", "topology.kubernetes.io/zone": "us-east-1a"}
        await client.create(Node, {"metadata": {"name": "one", "labels": labels}})
        for name in ("karpenter", "kubelet"):
            event = {
                "metadata": {"name": name},
                "involvedObject": {"kind": "Node", "name": "one", "namespace": "default"},
                "reason": name.title(),
                "source": {"component": name},
            }
            await client.create(Event, event, namespace="default")
        await client.close()
        monitor = TopMonitor(LiveFeed(connect()), None)
        await monitor.start()
        found = monitor.take(TopOptions())
        await monitor.stop()
    assert [(row.name, row.price) for row in found.rows] == [("one", 0.096)]
    assert [each.reason for each in found.decisions] == ["Karpenter"]
    assert found.notes == ()
