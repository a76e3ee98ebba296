"""
One process of the operator: its own wire, clock and dice, and no memory of any earlier one.

Killing it is not stopping it: its wire is severed first, so that nothing that it does on its way out reaches
anybody.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final

from karpenter.base.aio.bucket import TokenBucket
from karpenter.cloud.kwok import KwokProvider
from karpenter.cloud.kwok.seams import ObjectClasses
from karpenter.kube.client import Client
from karpenter.kube.inprocess import InProcess
from karpenter.operator.doors import Objects
from karpenter.operator.wiring import Operator, Parts
from karpenter.simulation.clock import WrongClock
from karpenter.simulation.wire import Wire

if TYPE_CHECKING:
    from karpenter.base.clock import Clock
    from karpenter.cloud.kwok import KwokCloud
    from karpenter.kube.transport import Handler
    from karpenter.operator.settings import Settings
    from karpenter.simulation.wire import Heard

CLUSTER: Final = "simulation"
"""The name under which machines are tagged."""


class Replica:
    """An operator, and what it runs on."""

    def __init__(
        self,
        server: Handler,
        cloud: KwokCloud,
        *,
        name: str,
        clock: Clock,
        settings: Settings,
        heard: Heard,
    ) -> None:
        self.name = name
        self.clock = WrongClock(clock)
        chance = Random(name)  # noqa: S311  a simulation's dice
        self.wire = Wire(
            InProcess(server, headers=(("user-agent", "karpenter"),)), chance=chance, heard=heard
        )
        client = Client(
            self.wire, chance=chance, bucket=TokenBucket(rate=1e9, burst=1e9), manager="karpenter"
        )
        provider = KwokProvider(cloud, classes=ObjectClasses(Objects(client)), cluster=CLUSTER)
        self.operator = Operator(
            Parts(
                client=client,
                cloud=provider,
                settings=settings,
                clock=self.clock,
                chance=chance,
                threads=False,
            )
        )

    async def start(self) -> None:
        """Begin to work. May take long, where the wire is bad."""
        await self.operator.__aenter__()

    async def kill(self) -> None:
        """End at once."""
        self.wire.sever()
        await self.operator.__aexit__(None, None, None)
