"""Client, informers, election and events on the embedded API server, in process and in virtual time."""

from random import Random

import pytest

from karpenter.api.node import Node
from karpenter.kube.client import Client
from karpenter.kube.informer import Informer
from karpenter_local.apiserver.inprocess import InProcess
from karpenter_local.apiserver.server import Server
from karpenter_local.virtual import VirtualClock
from tests.unit.kube.scenarios import SCENARIOS, Scenario, running, title, until


@pytest.mark.parametrize("scenario", SCENARIOS, ids=title)
async def test_in_process(scenario: Scenario, chance: Random) -> None:
    """What a client expects of a server holds without a wire."""
    clock = VirtualClock()
    client = Client(InProcess(Server(clock=clock, seed=1)), chance=chance)

    await scenario(client, clock)


async def test_an_informer_that_was_away_too_long(chance: Random) -> None:
    """One that comes back after the server forgot where it was lists anew, and tells the differences."""
    server = Server(clock=VirtualClock(), seed=1)
    client = Client(InProcess(server), chance=chance)
    informer = Informer(client, Node, chance=chance)
    heard: list[str] = []
    informer.subscribe(lambda event: heard.append(f"{type(event).__name__} {event.key}"))
    for name in ("same", "dropped"):
        await client.create(Node, {"metadata": {"name": name}})
    async with running(informer.run()):
        await informer.wait_synced()
    heard.clear()

    await client.delete(Node, "dropped")
    await client.create(Node, {"metadata": {"name": "new"}})
    server.store.compact()
    async with running(informer.run()):
        await until(lambda: len(heard) > 1)

    assert heard == ["InformerUpdate new", "InformerDelete dropped"]
