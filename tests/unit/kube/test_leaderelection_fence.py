"""A leader whose lease was not renewed in time writes nothing; one that is only slow goes on."""

import asyncio
from random import Random
from typing import Any

import pytest

from karpenter.api.node import Node
from karpenter.base.ratelimiting import Fence, LeaseNotHeld
from karpenter.kube.client import Client
from karpenter.kube.leaderelection import LeaderElector, LeadershipLost, LockName
from karpenter.kube.patches import MergePatch
from karpenter.kube.transport import Request, Response, Streaming
from karpenter_local.apiserver.inprocess import InProcess
from karpenter_local.virtual import VirtualClock, VirtualLoop
from tests.unit.kube.toy import Toy

LEASE = "kube-system/karpenter"
CHANGE = MergePatch({"spec": {"unschedulable": True}})


class SuspendedClock(VirtualClock):
    """A clock whose machine may have been suspended: timers did not notice."""

    asleep = 0.0

    def boottime(self) -> float:
        """Return virtual seconds, and those of the suspension."""
        return super().boottime() + self.asleep


class SlowToy(Toy):
    """A server that carries out what it is asked, and answers later or never."""

    late = 0.0

    async def handle(self, request: Request) -> Response | Streaming:
        response = await super().handle(request)
        await asyncio.sleep(self.late)
        return response


class Leader:
    """A candidate whose work is done through a client that its fence guards."""

    def __init__(self, toy: Toy, name: str = "a") -> None:
        chance = Random(name)  # noqa: S311  jitter is no secret
        self.toy = toy
        self.clock = SuspendedClock()
        self.fence = Fence(self.clock.boottime)
        self.slow_paths = 0
        self.client = Client(InProcess(toy), chance=chance, fence=self.fence)
        self.election = LeaderElector(
            Client(InProcess(toy), chance=chance, attempts=1),
            LockName(namespace="kube-system", name="karpenter", identity=name),
            clock=self.clock,
            chance=chance,
            fence=self.fence,
            on_slow_path=self._count,
        )
        toy.put("nodes", "n1")

    def _count(self) -> None:
        self.slow_paths += 1

    async def write(self) -> None:
        await self.client.patch(Node, "n1", CHANGE)

    def start(self) -> asyncio.Task[None]:
        return asyncio.create_task(self.election.lead(asyncio.Event().wait))  # type: ignore[arg-type]  # what it returns is of no interest

    def writes(self) -> list[str]:
        """Return the changes of nodes that the server saw."""
        return [each.path for each in self.toy.requests if each.method != "GET" and "/nodes" in each.path]


async def end(task: asyncio.Task[None]) -> None:
    """Cancel a task and wait for it."""
    task.cancel()
    await asyncio.wait([task])


async def test_a_candidate_writes_nothing(toy: Toy) -> None:
    """Before the lease is ours, the fence is closed, but for reads."""
    leader = Leader(toy)

    await leader.client.get(Node, "n1")
    with pytest.raises(LeaseNotHeld, match="PATCH /api/v1/nodes/n1: this replica no longer holds the lease"):
        await leader.write()
    assert leader.writes() == []


async def test_a_leader_writes_for_as_long_as_it_renews(toy: Toy) -> None:
    """Every renewal moves the end of the term; when the term has ended in order, nothing passes."""
    leader = Leader(toy)
    task = leader.start()
    for _ in range(10):
        await asyncio.sleep(7)
        await leader.write()
    await end(task)

    assert len(leader.writes()) == 10
    with pytest.raises(LeaseNotHeld):
        await leader.write()


@pytest.mark.parametrize(
    "events",
    [pytest.param(False, id="a client"), pytest.param(True, id="a client of its own rate limit")],
)
async def test_a_leader_that_was_suspended_writes_nothing_and_leads_no_more(toy: Toy, events: bool) -> None:
    """The first write after waking is refused although no timer has fired, and ends the term."""
    leader = Leader(toy)
    task = leader.start()
    await asyncio.sleep(1)
    leader.clock.asleep = 40
    toy.put("leases", "karpenter", namespace="kube-system", spec={"holderIdentity": "successor"})

    client = leader.client.with_bucket(leader.client._bucket) if events else leader.client
    with pytest.raises(LeaseNotHeld):
        await client.evict("web-0", namespace="default")
    with pytest.raises(LeadershipLost, match="lost to successor; its work was stopped"):
        await task
    assert not leader.election.leading
    assert [each.method for each in toy.requests if "/pods" in each.path] == []
    assert toy.objects["leases"][LEASE]["spec"]["holderIdentity"] == "successor"


async def test_work_that_a_refused_write_ends(toy: Toy) -> None:
    """The end of the term is told, and not the write that was refused."""
    leader = Leader(toy)

    async def work() -> None:
        await asyncio.sleep(1)
        leader.clock.asleep = 40
        await leader.write()

    with pytest.raises(LeadershipLost):
        await leader.election.lead(work)


async def test_a_refusal_in_a_thread_ends_the_term(toy: Toy) -> None:
    """Calls to the cloud are made in threads."""
    leader = Leader(toy)
    task = leader.start()
    await asyncio.sleep(1)
    leader.clock.asleep = 40

    with pytest.raises(LeaseNotHeld):
        await asyncio.to_thread(leader.fence.check, "ec2:TerminateInstances")
    with pytest.raises(LeadershipLost):
        await task


async def test_a_write_that_waited_is_checked_when_it_is_sent(toy: Toy) -> None:
    """A request that is to be retried is not, when the lease was lost meanwhile."""
    leader = Leader(toy)
    task = leader.start()
    await asyncio.sleep(1)
    saw = len(toy.requests)

    def busy(request: Request) -> Any:
        if request.path.endswith("/n1"):
            leader.clock.asleep = 40
            return Response(status=429, headers=(("retry-after", "1"),), body=b"{}")
        return None

    toy.faults.append(busy)
    with pytest.raises(LeaseNotHeld):
        await leader.write()
    assert [each.path for each in toy.requests[saw:] if "/nodes" in each.path] == ["/api/v1/nodes/n1"]
    await asyncio.wait([task])


@pytest.mark.parametrize("begins", [10.0, 11.9, 12.0, 13.5], ids=lambda begins: f"from {begins:g} s on")
@pytest.mark.parametrize("carried_out", [False, True], ids=["not carried out", "carried out"])
async def test_a_server_that_answers_nothing_for_five_seconds(begins: float, carried_out: bool) -> None:
    """What is asked meanwhile is never answered; the term goes on, and its writes with it."""
    toy = SlowToy()
    leader = Leader(toy)
    task = leader.start()
    await asyncio.sleep(begins)
    if carried_out:
        toy.late = 1000.0
    else:
        toy.answers_after = 1000.0
    await asyncio.sleep(5)
    toy.late = toy.answers_after = 0.0
    await asyncio.sleep(60)

    assert leader.election.leading
    await leader.write()
    assert toy.objects["leases"][LEASE]["spec"]["leaseTransitions"] == 1
    await end(task)


@pytest.mark.parametrize("begins", [10.0, 11.9, 12.1, 13.0], ids=lambda begins: f"from {begins:g} s on")
@pytest.mark.parametrize("answers_after", [0.0, 0.2], ids=["answers at once", "answers after 0.2 s"])
async def test_a_machine_that_does_nothing_else_for_six_seconds(begins: float, answers_after: float) -> None:
    """
    Answers and timers that are late together, again and again, cost no lease: only what was not renewed
    within ten seconds is lost.
    """
    toy = Toy()
    toy.answers_after = answers_after
    leader = Leader(toy)
    task = leader.start()
    await asyncio.sleep(begins)
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    for _ in range(10):
        loop.hold(6.0)
        await asyncio.sleep(3.0)

    assert leader.election.leading
    await leader.write()
    assert toy.objects["leases"][LEASE]["spec"]["leaseTransitions"] == 1
    await end(task)


async def test_a_renewal_of_its_own_that_came_late_is_no_loss() -> None:
    """The conflict with our own write is resolved by reading who holds the lease, in the same attempt."""
    toy = SlowToy()
    leader = Leader(toy)
    task = leader.start()
    await asyncio.sleep(11)
    toy.late = 1000.0
    await asyncio.sleep(2)  # the renewal at 12 s is carried out and never answered
    toy.late = 0.0
    await asyncio.sleep(5)  # it was given up at 17 s

    assert (leader.election.leading, leader.slow_paths) == (True, 1)
    assert toy.objects["leases"][LEASE]["spec"]["renewTime"] == "2025-01-01T00:00:17.000000Z"
    await end(task)


async def test_a_lease_that_ran_out_is_not_lost_to_its_own_identity() -> None:
    """The message names a successor, and never the replica that tells it."""
    toy = SlowToy()
    leader = Leader(toy)
    task = leader.start()
    await asyncio.sleep(11)
    toy.late = 1000.0

    with pytest.raises(LeadershipLost) as caught:
        await task
    assert (caught.value.holder, "lost to" in str(caught.value)) == ("", False)
