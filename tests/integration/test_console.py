"""The console of a cluster that lives: what it shows as things happen, and what that costs the API server."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING

from karpenter.api.cluster import Event
from karpenter.cli.console import explain
from karpenter.cli.why import inquiry_of
from karpenter.console.live import ClusterFollower
from karpenter.console.state import Freshness
from karpenter.core.model.catalog import OfferingName
from karpenter.kube.client import Client
from karpenter.kube.errors import Unreachable
from karpenter.operator.options import parse_settings
from karpenter_local.sandbox.sandbox import Sandbox
from karpenter_local.virtual import run_virtual

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from karpenter.kube.transport import Request, Response, Streaming, Transport

IDLE = 1200.0


class CountingTransport:
    """Carries requests, and counts them."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.methods: list[str] = []
        self.is_lost = False
        """Whether nothing comes back any more, while watches that are open stay open and silent."""

        self.beats = 0
        """Requests that ask only whether the server is there."""

    async def send(self, request: Request) -> Response:
        self.methods.append(request.method)
        self.beats += request.path == "/version"
        if self.is_lost:
            raise Unreachable("connection refused", request=request)
        return await self._inner.send(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Response | Streaming]:
        self.methods.append(request.method)
        async with self._inner.stream(request) as answer:
            yield answer

    async def close(self) -> None:
        await self._inner.close()


def follower(sandbox: Sandbox, transport: Transport) -> ClusterFollower:
    """Return the console's view of a sandbox."""
    settings = parse_settings({})
    return ClusterFollower(
        Client(transport, chance=Random(1)),  # noqa: S311  retries
        title="test",
        catalog=lambda _: sandbox.kwok.catalog,
        ask=lambda view, types, now: inquiry_of(view, types, settings, now),
        clock=sandbox.clock,
        chance=Random(1),  # noqa: S311  retries
    )


def test_a_live_cluster_is_followed_at_little_cost() -> None:
    """Machines that come, fill and go are frames and rows; an idle cluster costs a few requests a minute."""

    async def scenario() -> None:
        async with Sandbox(name="test") as sandbox:
            await sandbox.create_node_pool(disruption={"consolidateAfter": "5s"})
            await sandbox.deploy(replicas=2)
            await sandbox.until_running(2)
            transport = CountingTransport(sandbox.running.transport())
            async with follower(sandbox, transport) as source:
                assert source.document().snapshot.bill.running == 2
                began, beats = len(transport.methods), transport.beats
                page = source.messages.subscribe(0)
                await asyncio.sleep(IDLE)
                beats = transport.beats - beats
                idle = len(transport.methods) - began - beats
                await sandbox.scale("inflate", 9)
                await sandbox.until_running(9)
                await sandbox.scale("inflate", 0)
                await asyncio.sleep(120)
                document = source.document()
                inquiry = source.inquiry(None)
        assert set(transport.methods) == {"GET"}
        assert idle / (IDLE / 60) < 3, idle
        assert 5 < beats / (IDLE / 60) < 7, beats
        assert page is not None
        kinds = {row.kind for row in document.decisions}
        assert kinds >= {"provision", "disrupt"}
        assert any("launch" in row.title and row.hourly > 0 for row in document.decisions)
        assert max(frame.bill.running for frame in document.frames) == 9
        assert document.frames[-1].bill.machines == 0
        assert document.plans
        assert explain(inquiry, "nodepool/default").answer == "It is not used: no pod waits."

    run_virtual(scenario())


def test_launches_that_fail_count_in_what_is_asked() -> None:
    """What was sold out a moment ago is not on sale in the questions of the page."""
    name = "c-1x-amd64-linux/test-zone-a/spot"

    async def scenario() -> None:
        async with Sandbox(name="test") as sandbox:
            transport = CountingTransport(sandbox.running.transport())
            async with follower(sandbox, transport) as source:
                now = sandbox.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
                event = {
                    "metadata": {"name": "x.1", "annotations": {"karpenter.sh/sold-out-offerings": name}},
                    "involvedObject": {"kind": "NodeClaim", "name": "default-x"},
                    "reason": "InsufficientCapacityError",
                    "source": {"component": "karpenter"},
                    "lastTimestamp": now,
                }
                await sandbox.client.create(Event, event, namespace="default")
                await asyncio.sleep(5)
                inquiry = source.inquiry(None)
        (kind, *_) = inquiry.catalog.types
        gone = [str(OfferingName.of(kind, each)) for each in kind.offerings if not each.available]
        assert [each.claim for each in inquiry.failures] == ["default-x"]
        assert gone == [name]

    run_virtual(scenario())


def test_a_cluster_that_is_gone_is_not_live() -> None:
    """An open page is told when the API server stops to answer, and when it is back."""

    async def scenario() -> None:
        async with Sandbox(name="test") as sandbox:
            transport = CountingTransport(sandbox.running.transport())
            async with follower(sandbox, transport) as source:
                page = source.messages.subscribe(0)
                assert page is not None
                await asyncio.sleep(30)
                assert source.document().freshness == Freshness()
                transport.is_lost, lost_at = True, sandbox.clock.now()
                await asyncio.sleep(60)
                freshness = source.document().freshness
                transport.is_lost = False
                await asyncio.sleep(5)
                again = source.document().freshness
        assert freshness.as_of is not None
        assert timedelta() <= lost_at - freshness.as_of <= timedelta(seconds=11)
        assert "connection refused" in freshness.problem
        assert again == Freshness()
        told = [page.get_nowait() for _ in range(page.qsize())]
        assert [each.event for each in told].count("freshness") == 2

    run_virtual(scenario())


def test_events_say_what_the_console_says() -> None:
    """People who read Events with kubectl and those who click in the console read the same words."""

    async def scenario() -> None:
        async with Sandbox(name="test") as sandbox:
            await sandbox.create_node_pool(limits={"cpu": "4"}, disruption={"consolidateAfter": "5s"})
            await sandbox.deploy("fits", replicas=1, cpu="3")
            await sandbox.until_running(1)
            await sandbox.deploy("waits", replicas=1, cpu="2")
            await asyncio.sleep(60)
            async with follower(sandbox, sandbox.running.transport()) as source:
                inquiry = source.inquiry(None)
                (waiting,) = (each for each in await sandbox.pods() if not each.spec.node_name)
                (node,) = await sandbox.nodes()
                of_pod = explain(inquiry, f"pod/{waiting.key}")
                of_node = explain(inquiry, f"node/{node.name}")
            events = await sandbox.events()
        (miss,) = of_pod.node_pools
        assert miss.message == "pool default is at its limit of 4 cpu"
        told = {(each.reason, each.message) for each in events}
        assert ("FailedScheduling", f"Failed to schedule pod: NodePool default: {miss.message}") in told
        (nominated,) = (message for reason, message in told if reason == "Nominated")
        assert nominated.startswith("Pod should schedule on nodeclaim/default-")
        assert "no existing node takes it; " in nominated
        assert of_node.answer.startswith("It stays: ")
        kept = of_node.answer.removeprefix("It stays: ").removesuffix(".")
        assert kept in {
            message for reason, message in told if reason in {"Unconsolidatable", "DisruptionBlocked"}
        }

    run_virtual(scenario())
