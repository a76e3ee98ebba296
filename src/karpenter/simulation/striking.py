"""Letting mishaps happen, and everything being well again in the end."""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING, Any

from karpenter.cloud.errors import CloudUnreachable, LaunchFailed
from karpenter.cloud.kwok import Fail, Hang, LoseAnswer, NeverJoin, Slow
from karpenter.cloud.kwok.joining import SCHEME
from karpenter.simulation.mishaps import (
    BadCalls,
    BadCloud,
    BadLaunch,
    Crash,
    CutWatches,
    Drift,
    HoldWatches,
    LoseMachine,
    SecondLeader,
    SellOut,
    SilenceNode,
    TellTwice,
    WrongTime,
)
from karpenter.simulation.replica import CLUSTER
from karpenter.simulation.wire import Weather

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from karpenter.cloud.kwok.faults import Call, Fault
    from karpenter.simulation.mishaps import Mishap
    from karpenter.simulation.replica import Replica
    from karpenter.simulation.world import World

_LAUNCHES: dict[str, Fault] = {
    "fail": Fail(LaunchFailed("the simulation says no")),
    "hang": Hang(),
    "lose": LoseAnswer(),
    "lose and hang": LoseAnswer(hangs=True),
    "slow": Slow(60.0),
    "never join": NeverJoin(),
}
_AFTERMATH = 60.0
"""Seconds after which nothing is left of a second leader's doings."""

_CHANGES = frozenset({"launch", "terminate"})


class Fate:
    """Lets mishaps happen to one world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._tasks: set[asyncio.Task[None]] = set()
        self._silent: set[str] = set()
        self._bad_cloud: tuple[float, Random] | None = None
        world.cloud.control.follow(self._rule)

    def strike(self, mishap: Mishap) -> None:  # noqa: C901, PLR0912  one case for every mishap
        """Let one mishap happen; what lasts ends by itself."""
        world, leader = self._world, self._world.leader
        now = asyncio.get_running_loop().time()
        match mishap:
            case SellOut(zone=zone, seconds=seconds):
                world.cloud.control.sell_out(zone=zone)
                self._later(seconds, lambda: world.cloud.control.restock(zone=zone))
            case BadLaunch(kind=kind, count=count):
                world.cloud.control.next("launch", *[_LAUNCHES[kind]] * count)
            case LoseMachine() | Drift():
                self._machine(mishap)
            case SilenceNode(pick=pick, seconds=seconds):
                self._silence(pick, seconds)
            case BadCloud(seconds=seconds, share=share):
                self._bad_cloud = (share, self._dice(mishap))
                self._later(seconds, self._good_cloud)
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
        world.cloud.control.behave()
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

    def _rule(self, call: Call) -> Fault | None:
        leader = self._world.leader
        if leader is not None and call.method in _CHANGES:
            match leader.wire.count():
                case "before":
                    return Hang()
                case "after":
                    return LoseAnswer(hangs=True)
        if self._bad_cloud is not None and call.method != "interruptions":
            share, chance = self._bad_cloud
            if chance.random() < share:
                lost = LaunchFailed if call.method == "launch" else CloudUnreachable
                return Fail(lost("the simulation says no"))
        return None

    def _good_cloud(self) -> None:
        self._bad_cloud = None

    def _machine(self, mishap: LoseMachine | Drift) -> None:
        control = self._world.cloud.control
        machines = control.machines(CLUSTER)
        if not machines:
            return
        chosen = machines[int(mishap.pick * len(machines))].provider_id
        node = chosen.removeprefix(SCHEME)
        match mishap:
            case Drift():
                control.drift(chosen)
            case LoseMachine(announced=True):
                self._world.doomed.add(chosen)
                control.interrupt(chosen)
            case LoseMachine():
                if node in self._world.cluster.fleet.nodes:
                    self._world.cluster.fleet.make(node, "dead")
                control.kill(chosen)

    def _silence(self, pick: float, seconds: float) -> None:
        nodes = sorted(self._world.cluster.fleet.nodes)
        if nodes:
            name = nodes[int(pick * len(nodes))]
            self._world.cluster.fleet.make(name, "silent")
            self._silent.add(name)
            self._later(seconds, lambda: self._revive(name))

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
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _dice(self, mishap: Mishap) -> Random:
        return Random(f"{self._world.seed}/{mishap.at}")  # noqa: S311  a simulation's dice
