"""
The faults, each a small class: it waits for its moment, does its harm, and leaves the world as it was.

:data:`OF_OPERATOR` are kills of the leading replica at moments that are chosen by what is seen in the
cluster; :data:`OTHERS` are all others. A fault returns when its harm is over: what happens then is recovery.
"""

from __future__ import annotations

import asyncio
import signal
import time
from typing import TYPE_CHECKING, ClassVar, Protocol

from tests.chaos.observer import Sight, disrupted
from tests.chaos.proxy import Breakage
from tests.chaos.replicas import FAKETIME, LEASE_SECONDS, ReplicaProcess

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.chaos.world import ChaosWorld

MOMENT_WITHIN = 8.0
HOUR = 3600
TRIES = 3


class ChaosFault(Protocol):
    """Something that goes wrong."""

    name: str

    def possible(self, world: ChaosWorld) -> bool: ...

    async def happen(self, world: ChaosWorld) -> None: ...


class KillLeader:
    """kill -9 of the leading replica, as soon as something is seen."""

    def __init__(self, moment: str, seen: Callable[[Sight], bool] | None) -> None:
        self.name = f"kill -9, {moment}"
        self._seen = seen

    def possible(self, _world: ChaosWorld) -> bool:
        return True

    async def happen(self, world: ChaosWorld) -> None:
        """Wait for the moment, or not longer than some seconds, and kill."""
        leader = await world.replicas.leader()
        if self._seen is None:
            await asyncio.sleep(world.chance.uniform(0.0, 5.0))
        else:
            ends = time.monotonic() + MOMENT_WITHIN
            while time.monotonic() < ends:
                sight = await world.observer.look()
                if sight is not None and self._seen(sight):
                    break
                await asyncio.sleep(0.02)
        await leader.kill()


def _claim_without_machine(sight: Sight) -> bool:
    return any(not each.get("status", {}).get("providerID") for each in sight.claims)


def _machine_without_node(sight: Sight) -> bool:
    return any(
        each.get("status", {}).get("providerID") and not each.get("status", {}).get("nodeName")
        for each in sight.claims
    )


def _claim_leaving(sight: Sight) -> bool:
    return any("deletionTimestamp" in each["metadata"] for each in sight.claims)


class KillBothReplicas:
    """kill -9 of both replicas at once."""

    name = "kill -9 of both replicas"

    def possible(self, _world: ChaosWorld) -> bool:
        return True

    async def happen(self, world: ChaosWorld) -> None:
        await world.replicas.leader()
        await asyncio.sleep(world.chance.uniform(0.0, 3.0))
        for each in list(world.replicas.all):
            await each.kill()


class StopLeader:
    """SIGTERM: the leader gives its lease away."""

    name = "failover by SIGTERM"

    def possible(self, _world: ChaosWorld) -> bool:
        return True

    async def happen(self, world: ChaosWorld) -> None:
        leader = await world.replicas.leader()
        await asyncio.sleep(world.chance.uniform(0.0, 3.0))
        leader.signal(signal.SIGTERM)
        await leader.ended()


class FreezeLeader:
    """SIGSTOP for longer than the lease: another replica leads when it wakes."""

    name = "failover by SIGSTOP"

    def possible(self, _world: ChaosWorld) -> bool:
        return True

    async def happen(self, world: ChaosWorld) -> None:
        """Stop the leader until another one leads, and continue it."""
        leader = await world.replicas.leader()
        await asyncio.sleep(world.chance.uniform(0.0, 3.0))
        leader.signal(signal.SIGSTOP)
        await asyncio.sleep(LEASE_SECONDS)
        await world.replicas.leader(other_than=leader)
        leader.signal(signal.SIGCONT)
        await leader.ended()


class KillComponent:
    """kill -9 of a component of the control plane, which is started again a moment later."""

    def __init__(self, component: str) -> None:
        self.name = f"kill -9 of {component}"
        self._component = component

    def possible(self, world: ChaosWorld) -> bool:
        """Only where the control plane has the component."""
        return self._component in world.plane.kills

    async def happen(self, world: ChaosWorld) -> None:
        await asyncio.sleep(world.chance.uniform(0.0, 3.0))
        await world.plane.kill(self._component)
        await asyncio.sleep(world.chance.uniform(0.0, 3.0))
        await world.plane.revive(self._component)


class BreakAnswers:
    """The way to the API server breaks a share of the answers for some seconds."""

    seconds: ClassVar[float] = 12.0

    def __init__(self, mode: Breakage, share: float) -> None:
        self.name = f"proxy: {mode.value}"
        self._mode, self._share = mode, share

    def possible(self, _world: ChaosWorld) -> bool:
        return True

    async def happen(self, world: ChaosWorld) -> None:
        world.proxy.mode, world.proxy.share = self._mode, self._share
        await asyncio.sleep(self.seconds)
        world.proxy.mode, world.proxy.share = Breakage.NONE, 0.0


class JumpClock:
    """The clock of the leading replica jumps an hour ahead, and back."""

    name = "clock +1 h, then -1 h"

    def possible(self, _world: ChaosWorld) -> bool:
        return FAKETIME.exists()

    async def happen(self, world: ChaosWorld) -> None:
        """Let a replica with a clock of its own lead, and move the clock."""
        moved = await self._leading(world)
        moved.jump(HOUR)
        await asyncio.sleep(8.0)
        await world.work()
        moved.jump(0)
        await asyncio.sleep(4.0)

    async def _leading(self, world: ChaosWorld) -> ReplicaProcess:
        """Return a replica with a clock of its own that leads; on a busy machine, not the first one does."""
        for _ in range(TRIES):
            leader = await world.replicas.leader()
            for each in list(world.replicas.all):
                if each is not leader:
                    await each.kill()
                    world.replicas.all.remove(each)
                    world.replicas.past.append(each)
            moved = await world.replicas.add(own_clock=True)
            leader.signal(signal.SIGTERM)
            await leader.ended()
            if await world.replicas.leader() is moved:
                return moved
        raise AssertionError("no replica with a clock of its own came to lead")


class FillDisk:
    """No file of the leading replica may grow: its flight record ends, its work does not."""

    name = "full disk under the record"

    def possible(self, _world: ChaosWorld) -> bool:
        return True

    async def happen(self, world: ChaosWorld) -> None:
        """Fill the disk, and look that the replica says so and goes on to lead."""
        leader = await world.replicas.leader()
        leader.fill_disk()
        await world.work()
        await asyncio.sleep(6.0)
        assert leader.runs, "the replica ended when its flight record could not grow"


OF_OPERATOR: tuple[ChaosFault, ...] = (
    KillLeader("claim without machine", _claim_without_machine),
    KillLeader("at random", None),
    KillLeader("machine without node", _machine_without_node),
    KillLeader("node tainted to go", lambda sight: bool(disrupted(sight))),
    KillLeader("claim being deleted", _claim_leaving),
    KillLeader("at random", None),
)
OTHERS: tuple[ChaosFault, ...] = (
    KillBothReplicas(),
    StopLeader(),
    FreezeLeader(),
    *(KillComponent(each) for each in ("karpenter-local", "kube-apiserver", "etcd")),
    *(KillComponent(each) for each in ("kube-controller-manager", "kube-scheduler")),
    BreakAnswers(Breakage.RESET, 0.2),
    BreakAnswers(Breakage.STALL, 0.3),
    BreakAnswers(Breakage.TRUNCATE, 0.2),
    BreakAnswers(Breakage.GONE, 0.5),
    BreakAnswers(Breakage.BUSY, 0.5),
    BreakAnswers(Breakage.FAILED, 0.5),
    BreakAnswers(Breakage.SLOW_WATCH, 1.0),
    JumpClock(),
    FillDisk(),
)
