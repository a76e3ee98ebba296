"""Client, informers, election and events on the embedded API server, in process and in virtual time."""

from random import Random

import pytest

from karpenter.base.aio.virtual import VirtualClock
from karpenter.kube.client import Client
from karpenter.kube.inprocess import InProcess
from karpenter.local.server import Server

from .scenarios import SCENARIOS, Scenario, title


@pytest.mark.parametrize("scenario", SCENARIOS, ids=title)
async def test_in_process(scenario: Scenario, chance: Random) -> None:
    """What a client expects of a server holds without a wire."""
    clock = VirtualClock()
    client = Client(InProcess(Server(clock=clock, seed=1)), chance=chance)

    await scenario(client, clock)
