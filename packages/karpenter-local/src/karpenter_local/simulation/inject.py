"""Letting mishaps happen, and everything being well again in the end."""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING, Any

from karpenter_local.simulation.faults import (
    BadCalls,
    BreakNode,
    Crash,
    CutWatches,
    HoldWatches,
    SecondLeader,
    SilenceNode,
    TellTwice,
    WrongTime,
)
from karpenter_local.simulation.network import Weather

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from karpenter_local.simulation.faults import Mishap
    from karpenter_local.simulation.replica import Replica
    from karpenter_local.simulation.world import World

_AFTERMATH = 60.0
"""Seconds after which nothing is left of a second leader's doings."""


class Fate:
    """Lets mishaps happen to one world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._silent: dict[str, None] = {}

    def strike(self, mishap: Mishap) -> None:  # noqa: C901, PLR0912  one case for every mishap
        """Let one mishap happen; what lasts ends by itself."""
        world, leader = self._world, self._world.leader
        now = asyncio.get_running_loop().time()
        match mishap:
            case _ if world.sky.strike(mishap, self._later):
                return
            case SilenceNode(pick=pick, seconds=seconds):
                self._silence(pick, seconds)
            case BreakNode(pick=pick):
                self._break(pick)
            case CutWatches(forgotten=forgotten):
                if forgotten:
                    world.cluster.server.store.compact()
                for each in world.replicas:
                    each.wire.cut()
            case HoldWatches(plurals=plurals, seconds=seconds):
                for each in world.replicas:
                    each.wire.hold(plurals, now + seconds)
            case SecondLeader(seconds=seconds):
                self._spawn(self._two_leaders(seconds))
            case _ if leader is None:
                return
            case TellTwice(seconds=seconds):
                leader.wire.twice = self._dice(mishap)
                self._later(seconds, lambda: setattr(leader.wire, "twice", None))
            case BadCalls(seconds=seconds, share=share, kinds=kinds):
                leader.wire.weather = Weather(share=share, kinds=kinds, chance=self._dice(mishap))
                self._later(seconds, lambda: setattr(leader.wire, "weather", None))
            case WrongTime(ahead=ahead, seconds=seconds):
                leader.clock.ahead = ahead
                self._later(seconds, lambda: setattr(leader.clock, "ahead", 0.0))
            case Crash(calls=calls, carried_out=carried_out, down=down):
                leader.wire.sever_at(
                    calls, carried_out=carried_out, then=lambda: self._spawn(self._restart(leader, down))
                )

    def relent(self) -> None:
        """Let everything be well from now on."""
        world = self._world
        world.sky.relent()
        for replica in world.replicas:
            replica.wire.calm()
            replica.clock.ahead = 0.0
        for name in self._silent:
            self._revive(name)
        self._silent.clear()

    async def close(self) -> None:
        """Stop whatever is under way."""
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _silence(self, pick: float, seconds: float) -> None:
        nodes = sorted(self._world.cluster.fleet.nodes)
        if nodes:
            name = nodes[int(pick * len(nodes))]
            self._world.cluster.fleet.make(name, "silent")
            self._silent[name] = None
            self._later(seconds, lambda: self._revive(name))

    def _break(self, pick: float) -> None:
        fleet, nodes = self._world.cluster.fleet, self._world.mirror.nodes
        names = sorted(nodes.keys() & fleet.nodes)
        if names:
            name = names[int(pick * len(names))]
            fleet.make(name, "unready")
            self._world.broken.add(nodes[name].spec.provider_id)

    def _revive(self, name: str) -> None:
        fleet = self._world.cluster.fleet
        if name in fleet.nodes and fleet.health(name).state == "silent":
            fleet.make(name, "fine")

    async def _two_leaders(self, seconds: float) -> None:
        world, first = self._world, self._world.leader
        world.contested_until = world.clock.monotonic() + seconds + _AFTERMATH
        world.start()
        await asyncio.sleep(seconds)
        if first is not None:
            await world.kill(first)
        if not world.replicas:
            world.start()

    async def _restart(self, replica: Replica, down: float) -> None:
        await self._world.kill(replica)
        await asyncio.sleep(down)
        if not self._world.replicas:
            self._world.start()

    def _later(self, seconds: float, act: Callable[[], None]) -> None:
        async def wait() -> None:
            await asyncio.sleep(seconds)
            act()

        self._spawn(wait())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None
        task.add_done_callback(lambda ended: self._tasks.pop(ended, None))

    def _dice(self, mishap: Mishap) -> Random:
        return Random(f"{self._world.seed}/{mishap.at}")  # noqa: S311  a simulation's dice
