"""Watching a cluster, and when decisions are asked for."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from karpenter.api.cluster import Event
from karpenter.api.meta import convert
from karpenter.api.node import Node
from karpenter.api.nodepool import NodePool
from karpenter.kube.client import Client
from karpenter.top.advice import Advice, NodeAdvice
from karpenter.top.feed import LiveFeed, StaticFeed, TopMonitor
from karpenter.top.snapshot import TopOptions, snapshot_data
from karpenter.top.text import whole_page
from karpenter_local.apiserver.inprocess import InProcess
from karpenter_local.apiserver.server import Server
from tests.unit.cloud.catalogs.ec2.small_region import small_region
from tests.unit.top.clusters import NOW, ROOM, node, printed, view
from tests.unit.why.clusters import write_catalogue

if TYPE_CHECKING:
    from datetime import datetime

    from karpenter.core.model.catalog import Catalog
    from karpenter.core.state.cluster import ClusterView

LABELS = {
    "node.kubernetes.io/instance-type": "m5.large",
    "topology.kubernetes.io/zone": "us-east-1a",
    "topology.kubernetes.io/region": "us-east-1",
}
POOL = convert(
    {
        "metadata": {"name": "default"},
        "spec": {
            "template": {
                "spec": {
                    "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                    "requirements": [],
                }
            }
        },
    },
    NodePool,
)


def _client(server: Server) -> Client:
    return Client(InProcess(server), chance=Random(1))  # noqa: S311  retries


async def _add(client: Client, name: str) -> None:
    body: dict[str, Any] = {"metadata": {"name": name, "labels": LABELS}, "status": {"allocatable": ROOM}}
    await client.create(Node, body)


async def test_a_cluster_without_karpenter_is_watched() -> None:
    """Kinds that it does not serve are left out, prices are known, and a new node appears by itself."""
    server = Server()
    client = _client(server)
    await _add(client, "one")
    event = {
        "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"kind": "Node", "name": "one", "namespace": "default"},
        "reason": "Launched",
        "source": {"component": "karpenter"},
    }
    await client.create(Event, event, namespace="default")
    await client.create(
        Event, {**event, "metadata": {"name": "f"}, "source": {"component": "kubelet"}}, namespace="default"
    )
    monitor = TopMonitor(LiveFeed(_client(server)), None)
    await monitor.start()
    try:
        first = monitor.take(TopOptions())
        assert [(row.name, row.price) for row in first.rows] == [("one", 0.096)]
        assert monitor.catalog_name == "aws:us-east-1"
        assert [each.reason for each in first.decisions] == ["Launched"]
        before = monitor.revision
        await _add(client, "two")
        async with asyncio.timeout(5):
            while monitor.revision == before:  # noqa: ASYNC110  a reader polls it too
                await asyncio.sleep(0.01)
        assert len(monitor.take(TopOptions()).rows) == 2
    finally:
        await monitor.stop()
    await client.close()


async def test_decisions_are_asked_for_when_something_changed() -> None:
    """The first look asks; nothing changed, so the next does not."""
    asked = []

    def advise(seen: ClusterView, catalog: Catalog, now: datetime) -> Advice:
        asked.append((len(seen.nodes), bool(catalog.types), now))
        return Advice(
            nodes={"a": NodeAdvice(goes=True, code="Empty", sentence="It would go now.")}, saving=0.1
        )

    monitor = TopMonitor(StaticFeed(view(POOL, node("a", LABELS))), advise, clock=lambda: NOW)
    await monitor.start()
    assert [await monitor.advise(), await monitor.advise()] == [True, False]
    assert asked == [(1, True, NOW)]
    data = snapshot_data(monitor.take(TopOptions(extra_labels=("none",))), TopOptions(extra_labels=("none",)))
    assert (data["summary"]["wouldGo"], data["summary"]["monthlySaving"]) == (1, 73.0)
    assert data["nodes"][0]["why"] == "It would go now."
    assert data["nodes"][0]["labels"] == {"none": "-"}


async def test_a_decision_that_fails_is_a_note() -> None:
    """The rest of the screen is right without it."""

    def fail(*_: object) -> Advice:
        raise ValueError("odd")

    monitor = TopMonitor(StaticFeed(view(POOL, node("a", LABELS))), fail, clock=lambda: NOW)
    await monitor.start()
    assert await monitor.advise()
    assert "no decision could be made: odd" in monitor.take(TopOptions()).notes


@pytest.mark.parametrize("zone", ["elsewhere-1a"])
async def test_other_clouds_have_no_price(zone: str) -> None:
    """Where no catalogue suits the nodes, that is said."""
    there = node("a", {"topology.kubernetes.io/zone": zone}, providerID="openstack:///a")
    monitor = TopMonitor(StaticFeed(view(there)), None)
    await monitor.start()
    found = monitor.take(TopOptions())
    assert found.totals.unpriced == 1
    assert found.notes == ("no built-in catalogue suits these nodes; name one with --catalog",)


def _reprice(file: Path) -> None:
    file.write_text(file.read_text().replace("0.1", "0.25"))


async def test_prices_follow_the_file(tmp_path: Path) -> None:
    """A screen that stays open shows the prices of a catalogue that is written anew, and decides again."""
    file = Path(write_catalogue(tmp_path))
    row = node("a", {**LABELS, "node.kubernetes.io/instance-type": "four"})
    asked = []

    def advise(*_: object) -> Advice:
        asked.append(1)
        return Advice()

    monitor = TopMonitor(StaticFeed(view(POOL, row)), advise, catalog=str(file), clock=lambda: NOW)
    await monitor.start()
    assert monitor.take(TopOptions()).totals.hourly == 0.1
    before = monitor.revision
    assert not await monitor.refresh(now=True)
    _reprice(file)
    assert await monitor.refresh(now=True)
    assert monitor.revision != before
    assert monitor.take(TopOptions()).totals.hourly == 0.25


async def test_nodes_that_come_later_have_prices() -> None:
    """A cluster that has no node yet says by its first ones which catalogue suits it."""
    feed = StaticFeed(view())
    monitor = TopMonitor(feed, None, clock=lambda: NOW)
    await monitor.start()
    assert not await monitor.refresh(now=True)
    monitor._feed = StaticFeed(view(node("a", LABELS)))
    assert await monitor.refresh(now=True)
    assert monitor.take(TopOptions()).totals.hourly == 0.096


async def test_china_pays_in_yuan() -> None:
    """Prices come from the list of the region, and the sign is that of its currency."""
    labels = {
        **LABELS,
        "topology.kubernetes.io/region": "cn-north-1",
        "topology.kubernetes.io/zone": "cn-north-1a",
    }
    monitor = TopMonitor(StaticFeed(view(POOL, node("a", labels))), None, clock=lambda: NOW)
    await monitor.start()
    found = monitor.take(TopOptions())
    assert found.totals.unpriced == 0
    assert found.notes == ("cn-north-1 has a price list and no catalogue, so nothing is decided about nodes",)
    data = snapshot_data(found, TopOptions())
    assert data["summary"]["currency"] == "CNY"
    shown = "\n".join(printed(whole_page(found, TopOptions(), 160), 160))
    assert "m5.large/¥" in shown
    assert "¥/month" in shown
    assert "$" not in shown


async def test_live_prices_are_those_of_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    """With credentials AWS tells the prices; a spot node costs what it costs now, and no note is needed."""
    zone = {"topology.kubernetes.io/region": "eu-west-1", "topology.kubernetes.io/zone": "eu-west-1a"}
    labels = {**LABELS, **zone, "karpenter.sh/capacity-type": "spot"}
    with small_region(monkeypatch):
        monitor = TopMonitor(StaticFeed(view(node("a", labels))), None, live_prices=True, clock=lambda: NOW)
        await monitor.start()
        assert "spot prices are modelled" in monitor.take(TopOptions()).notes[0]
        assert await monitor.refresh(now=True)
    found = monitor.take(TopOptions())
    assert (found.totals.hourly, found.notes) == (0.05, ())
