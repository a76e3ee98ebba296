"""One of several candidates works, and has stopped before another begins."""

import asyncio
from random import Random
from typing import Any

import pytest
from structlog.typing import EventDict

from karpenter.kube.client import Client
from karpenter.kube.leaderelection import LeaderElector, LeadershipLost, LockName, Terms
from karpenter_local.apiserver.inprocess import InProcess
from karpenter_local.virtual import VirtualClock
from tests.unit.kube.toy import Toy, status

KEY = "kube-system/karpenter"


def now() -> float:
    return asyncio.get_running_loop().time()


class Candidate:
    """A replica, and when it worked."""

    def __init__(self, toy: Toy, name: str) -> None:
        self.transport = InProcess(toy)
        chance = Random(name)  # noqa: S311  jitter is no secret
        self.election = LeaderElector(
            Client(self.transport, chance=chance, attempts=1),
            LockName(namespace="kube-system", name="karpenter", identity=name),
            clock=VirtualClock(),
            chance=chance,
            on_slow_path=lambda: self.slow_paths.append(now()),
        )
        self.slow_paths: list[float] = []
        self.began: float | None = None
        self.ended: float | None = None

    async def work(self) -> None:
        self.began = now()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended = now()

    def start(self) -> asyncio.Task[None]:
        return asyncio.create_task(self.election.lead(self.work))


async def end(task: asyncio.Task[None]) -> None:
    """Cancel a task and wait for it."""
    task.cancel()
    await asyncio.wait([task])


def spec(toy: Toy) -> dict[str, Any]:
    held: dict[str, Any] = toy.objects["leases"][KEY]["spec"]
    return held


async def test_the_first_candidate_leads(toy: Toy) -> None:
    """A lease that is not there is made, and held under our name."""
    a = Candidate(toy, "a")
    task = a.start()
    await asyncio.sleep(1)

    assert (a.election.leading, a.election.leader, a.began) == (True, "a", 0)
    assert spec(toy) == {
        "holderIdentity": "a",
        "leaseDurationSeconds": 15,
        "acquireTime": "2025-01-01T00:00:00.000000Z",
        "renewTime": "2025-01-01T00:00:00.000000Z",
        "leaseTransitions": 1,
    }
    await end(task)


async def test_the_lease_is_renewed(toy: Toy) -> None:
    """Renewal moves its time and nothing else."""
    task = Candidate(toy, "a").start()
    await asyncio.sleep(61)

    assert spec(toy)["renewTime"] == "2025-01-01T00:01:00.000000Z"
    assert spec(toy)["acquireTime"] == "2025-01-01T00:00:00.000000Z"
    await end(task)


async def test_the_second_candidate_waits(toy: Toy) -> None:
    """While one leads, others do not, however long it takes."""
    a, b = Candidate(toy, "a"), Candidate(toy, "b")
    tasks = [a.start(), b.start()]
    await asyncio.sleep(600)

    assert (a.election.leading, b.election.leading, b.election.leader, b.began) == (True, False, "a", None)
    for task in tasks:
        await end(task)


async def test_a_cancelled_leader_stops_work_and_gives_the_lease_back(toy: Toy) -> None:
    """The successor begins within a retry, and after the end of the first one's work."""
    a, b = Candidate(toy, "a"), Candidate(toy, "b")
    first, second = a.start(), b.start()
    await asyncio.sleep(100)

    await end(first)
    assert (a.ended, spec(toy)["holderIdentity"]) == (100, "")
    await asyncio.sleep(3)

    assert b.began is not None
    assert 100 <= b.began <= 102.4
    assert spec(toy)["leaseTransitions"] == 2
    await end(second)


async def test_a_leader_that_vanishes_is_replaced_after_its_lease(toy: Toy) -> None:
    """A lease that nobody renews or returns is free once it has run out."""
    toy.put(
        "leases",
        "karpenter",
        namespace="kube-system",
        spec={"holderIdentity": "ghost", "leaseTransitions": 6},
    )
    b = Candidate(toy, "b")
    task = b.start()
    await asyncio.sleep(30)

    assert b.began is not None
    assert 15 <= b.began <= 17.4
    assert spec(toy)["leaseTransitions"] == 7
    await end(task)


async def test_a_leader_cut_off_stops_before_another_starts(toy: Toy, logs: list[EventDict]) -> None:
    """Who cannot renew stops after the renew deadline; the next begins only after the lease's end."""
    a, b = Candidate(toy, "a"), Candidate(toy, "b")
    first, second = a.start(), b.start()
    await asyncio.sleep(100)
    await a.transport.close()
    await asyncio.sleep(30)

    with pytest.raises(LeadershipLost, match="its work was stopped"):
        await first
    assert a.ended is not None
    assert b.began is not None
    assert a.ended <= 112
    assert b.began >= a.ended + 3
    assert {"lease.lost", "lease.not_reached"} <= {log["event"] for log in logs}
    await end(second)


async def test_a_short_outage_is_survived(toy: Toy) -> None:
    """Failures within the renew deadline do not end the work."""
    a = Candidate(toy, "a")
    task = a.start()
    await asyncio.sleep(10)
    toy.fault(status(500, "InternalError"), times=3)
    await asyncio.sleep(60)

    assert (a.election.leading, a.ended) == (True, None)
    await end(task)


async def test_a_server_that_hangs_counts_as_an_outage(toy: Toy) -> None:
    """A renewal that gets no answer is given up when the deadline has come."""
    a = Candidate(toy, "a")
    task = a.start()
    await asyncio.sleep(10)
    toy.answers_after = 1000

    with pytest.raises(LeadershipLost):
        await task
    assert a.ended == pytest.approx(20, abs=2)


async def test_a_lease_that_someone_took_is_lost_at_once(toy: Toy) -> None:
    """If the lease names another, work stops without waiting for the deadline."""
    a = Candidate(toy, "a")
    task = a.start()
    await asyncio.sleep(11)
    toy.put("leases", "karpenter", namespace="kube-system", spec={"holderIdentity": "usurper"})

    with pytest.raises(LeadershipLost, match="lost to usurper"):
        await task
    assert a.ended is not None
    assert a.ended <= 15
    assert spec(toy)["holderIdentity"] == "usurper"


async def test_a_lease_that_was_removed_is_made_again(toy: Toy) -> None:
    """Deleting the Lease does not end a term."""
    a = Candidate(toy, "a")
    task = a.start()
    await asyncio.sleep(11)
    toy.drop("leases", KEY)
    await asyncio.sleep(30)

    assert (a.ended, spec(toy)["holderIdentity"]) == (None, "a")
    assert len(a.slow_paths) == 1
    await end(task)


async def test_work_that_returns_ends_the_term(toy: Toy) -> None:
    """When there is no more work, the lease is given back."""
    election = Candidate(toy, "a").election

    await election.lead(lambda: asyncio.sleep(5))

    assert (now(), election.leading, spec(toy)["holderIdentity"]) == (5, False, "")


async def test_work_that_fails_ends_the_term(toy: Toy) -> None:
    """The failure is the caller's to see, and the lease is free."""

    async def fail() -> None:
        await asyncio.sleep(5)
        raise RuntimeError("out of cheese")

    with pytest.raises(RuntimeError, match="out of cheese"):
        await Candidate(toy, "a").election.lead(fail)

    assert spec(toy)["holderIdentity"] == ""


async def test_work_that_does_not_stop_is_named(toy: Toy) -> None:
    """Who cannot stop in time is told to end the process, and does not give back what may still be used."""
    a = Candidate(toy, "a")

    async def stubborn() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(60)

    task = asyncio.create_task(a.election.lead(stubborn))
    await asyncio.sleep(10)
    toy.put("leases", "karpenter", namespace="kube-system", spec={"holderIdentity": "usurper"})

    with pytest.raises(LeadershipLost, match="end the process") as caught:
        await task
    assert not caught.value.stopped
    await asyncio.sleep(100)


async def test_a_release_that_fails_is_logged(toy: Toy, logs: list[EventDict]) -> None:
    """The successor then waits for the lease's end; nothing else is lost."""
    a = Candidate(toy, "a")
    task = a.start()
    await asyncio.sleep(1)
    toy.fault(status(500, "InternalError"), times=100)

    await end(task)

    assert task.cancelled()
    assert "lease.not_released" in {log["event"] for log in logs}


@pytest.mark.parametrize(
    ("instead", "left"),
    [
        pytest.param(None, None, id="the lease was removed"),
        pytest.param("usurper", "usurper", id="the lease is another's"),
    ],
)
async def test_only_our_own_lease_is_given_back(toy: Toy, instead: str | None, left: str | None) -> None:
    """What is not ours any more is left as it is."""
    task = Candidate(toy, "a").start()
    await asyncio.sleep(1)
    if instead is None:
        toy.drop("leases", KEY)
    else:
        toy.put("leases", "karpenter", namespace="kube-system", spec={"holderIdentity": instead})

    await end(task)

    assert toy.objects["leases"].get(KEY, {}).get("spec", {}).get("holderIdentity") == left


async def test_two_that_try_at_once(toy: Toy) -> None:
    """Of many candidates that start in the same moment, exactly one leads."""
    candidates = [Candidate(toy, f"c{number}") for number in range(8)]
    tasks = [candidate.start() for candidate in candidates]
    await asyncio.sleep(20)

    assert sum(candidate.election.leading for candidate in candidates) == 1
    for task in tasks:
        await end(task)


@pytest.mark.parametrize(
    "terms",
    [
        pytest.param({"duration": 10.0}, id="a renewal that may outlast the lease"),
        pytest.param({"renew_within": 1.0}, id="a deadline shorter than one retry"),
        pytest.param({"retry": 0.0}, id="no pause at all"),
    ],
)
def test_terms_that_cannot_work_are_refused(terms: dict[str, float]) -> None:
    """Duration, deadline and retry must leave room for one another."""
    with pytest.raises(ValueError, match="a lease must last longer"):
        Terms(**terms)


async def test_terms_never_overlap(toy: Toy) -> None:
    """Through a rolling update with outages, no two ever work at the same time."""
    working: set[str] = set()
    overlaps: list[set[str]] = []

    class Watched(Candidate):
        async def work(self) -> None:
            name = str(id(self))
            working.add(name)
            if len(working) > 1:
                overlaps.append(set(working))
            try:
                await super().work()
            finally:
                working.discard(name)

    async def replica(name: str, lives: int) -> None:
        for life in range(lives):
            candidate = Watched(toy, f"{name}-{life}")
            task = candidate.start()
            await asyncio.sleep(11 + 3 * life)
            if life % 3 == 1:
                await candidate.transport.close()
                await asyncio.wait([task], timeout=30)
            await end(task)

    await asyncio.gather(replica("a", 8), replica("b", 9), replica("c", 7))

    assert overlaps == []
