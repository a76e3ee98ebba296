"""
One process of the operator: its own wire, clock and dice, and no memory of any earlier one.

Killing it is not stopping it: its wire is severed first, so that nothing that it does on its way out reaches
anybody.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from karpenter.base.ratelimiting import TokenBucket
from karpenter.kube.client import Client
from karpenter.operator.operator import Operator, OperatorDependencies
from karpenter_local.apiserver.inprocess import InProcess
from karpenter_local.simulation.network import Wire
from karpenter_local.virtual import WrongClock

if TYPE_CHECKING:
    from karpenter.base.clock import Clock
    from karpenter.kube.transport import Handler
    from karpenter.operator.options import Settings
    from karpenter_local.simulation.cloud import Sky
    from karpenter_local.simulation.network import Heard


class Replica:
    """An operator, and what it runs on."""

    def __init__(
        self,
        server: Handler,
        sky: Sky,
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
        self._account = sky.open(client, clock=self.clock, chance=chance, wire=self.wire)
        self.operator = Operator(
            OperatorDependencies(
                client=client,
                cloud=self._account.provider,
                settings=settings,
                clock=self.clock,
                chance=chance,
                threads=False,
            )
        )

    async def start(self) -> None:
        """Begin to work. May take long, where the wire is bad."""
        await self._account.begin()
        await self.operator.__aenter__()

    async def kill(self) -> None:
        """End at once."""
        self.wire.sever()
        self._account.end()
        await self.operator.__aexit__(None, None, None)
