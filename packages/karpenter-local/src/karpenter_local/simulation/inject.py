"""Injects faults into a simulated cluster, and ends them all when the time of faults is over."""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING, Any, Final

from karpenter_local.simulation.faults import (
    BadCalls,
    BadLaunch,
    BreakNode,
    Crash,
    CutWatches,
    HoldWatches,
    InjectedFault,
    Isolate,
    LoseEvictions,
    RepeatEvents,
    RestoreHistory,
    SecondLeader,
    SilenceNode,
    WrongTime,
)
from karpenter_local.simulation.invariants.invariant import pool_name
from karpenter_local.simulation.network import CallFaults, FaultyTransport

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from karpenter_local.sandbox.operators import Replica
    from karpenter_local.simulation.cluster import SimulatedCluster

_DISRUPTS: Final = b'"DisruptionReason"'
_RESTORED: Final = (
    "/api/v1/nodes",
    "/api/v1/pods",
    "/apis/karpenter.sh/v1/nodeclaims",
    "/apis/karpenter.sh/v1/nodepools",
)
_AFTERMATH_SECONDS = 60.0
"""Seconds after which nothing is left of what a second leader did."""


class FaultInjector:
    """Injects faults into one simulated cluster."""

    def __init__(self, simulated: SimulatedCluster) -> None:
        self._simulated = simulated
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._silent: dict[str, None] = {}

    def inject(self, fault: InjectedFault) -> None:  # noqa: C901, PLR0912  one case for every fault
        """Inject one fault; one that lasts ends by itself."""
        simulated, seams, leader = self._simulated, self._simulated.seams(), self._simulated.leading
        now = asyncio.get_running_loop().time()
        simulated.launches_failed |= isinstance(fault, BadLaunch)
        match fault:
            case _ if simulated.cloud.inject(fault, self._later):
                return
            case SilenceNode(pick=pick, seconds=seconds):
                self._silence(pick, seconds)
            case BreakNode(pick=pick, pool=pool):
                self._break(pick, pool)
            case CutWatches(forgotten=forgotten):
                if forgotten:
                    simulated.sandbox.cluster.server.store.compact()
                for each in seams:
                    each.transport.cut()
            case HoldWatches(plurals=plurals, seconds=seconds):
                for each in seams:
                    each.transport.hold(plurals, now + seconds)
            case SecondLeader(seconds=seconds):
                self._spawn(self._two_leaders(seconds))
            case _ if leader is None:
                return
            case RepeatEvents(seconds=seconds):
                leader.transport.repeats = self._chance(fault)
                self._later(seconds, lambda: setattr(leader.transport, "repeats", None))
            case BadCalls(seconds=seconds, share=share, kinds=kinds):
                leader.transport.faults = CallFaults(share=share, kinds=kinds, chance=self._chance(fault))
                self._later(seconds, leader.transport.end_faults)
            case WrongTime(ahead=ahead, seconds=seconds):
                leader.clock.ahead = ahead
                simulated.wrong_until = max(simulated.wrong_until, now + seconds)
                self._later(seconds, lambda: setattr(leader.clock, "ahead", 0.0))
            case LoseEvictions(seconds=seconds):
                leader.transport.lose_evictions(now + seconds)
            case Isolate(seconds=seconds):
                leader.transport.isolate(now + seconds)
            case RestoreHistory(lag=lag):
                self._spawn(self._restore(leader.transport, lag))
            case Crash(calls=calls, carried_out=carried_out, down=down):
                replica = next(each for each in simulated.replicas if each.seams is leader)
                leader.transport.sever_at(
                    calls,
                    carried_out=carried_out,
                    then=lambda: self._spawn(self._restart(replica, down)),
                    armed_by=_DISRUPTS if fault.disrupting else b"",
                )

    def recover(self) -> None:
        """End every fault: from now on nothing goes wrong."""
        self._simulated.cloud.recover()
        for each in self._simulated.seams():
            each.transport.recover()
            each.clock.ahead = 0.0
        for name in self._silent:
            self._revive(name)
        self._silent.clear()

    async def close(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _silence(self, pick: float, seconds: float) -> None:
        kubelets = self._simulated.sandbox.cluster.hollow_nodes
        nodes = self._living()
        if nodes:
            name = nodes[int(pick * len(nodes))]
            kubelets.make(name, "silent")
            self._silent[name] = None
            self._later(seconds, lambda: self._revive(name))

    def _break(self, pick: float, pool: str) -> None:
        kubelets, nodes = self._simulated.sandbox.cluster.hollow_nodes, self._simulated.mirror.nodes
        there = [name for name in self._living() if name in nodes]
        names = [name for name in there if pool in {"", pool_name(nodes[name])}]
        if names:
            name = names[int(pick * len(names))]
            kubelets.make(name, "unready")
            self._simulated.broken.add(nodes[name].spec.provider_id)

    def _living(self) -> list[str]:
        """Return the nodes whose machine is there: the others are never heard of again."""
        kubelets = self._simulated.sandbox.cluster.hollow_nodes
        return [name for name in sorted(kubelets.nodes) if kubelets.health(name).state != "dead"]

    def _revive(self, name: str) -> None:
        kubelets = self._simulated.sandbox.cluster.hollow_nodes
        if name in kubelets.nodes and kubelets.health(name).state == "silent":
            kubelets.make(name, "fine")

    async def _two_leaders(self, seconds: float) -> None:
        sandbox, first = self._simulated.sandbox, self._simulated.sandbox.leader
        self._simulated.contested_until = self._simulated.clock.monotonic() + seconds + _AFTERMATH_SECONDS
        sandbox.begin_operator()
        await asyncio.sleep(seconds)
        if first is not None:
            await sandbox.kill_operator(first)
        if not sandbox.replicas:
            sandbox.begin_operator()

    async def _restart(self, replica: Replica, down: float) -> None:
        sandbox = self._simulated.sandbox
        await sandbox.kill_operator(replica)
        await asyncio.sleep(down)
        if len(sandbox.replicas) < (2 if sandbox.elects else 1):
            sandbox.begin_operator()

    async def _restore(self, transport: FaultyTransport, lag: float) -> None:
        older = await transport.snapshot(_RESTORED)
        await asyncio.sleep(lag)
        transport.restore(older)

    def _later(self, seconds: float, act: Callable[[], None]) -> None:
        async def wait() -> None:
            await asyncio.sleep(seconds)
            act()

        self._spawn(wait())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None
        task.add_done_callback(lambda ended: self._tasks.pop(ended, None))

    def _chance(self, fault: InjectedFault) -> Random:
        return Random(f"{self._simulated.sandbox.seed}/{fault.at}")  # noqa: S311  chance, not secrets
