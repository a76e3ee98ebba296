"""The copy stays current through everything a connection can do."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest
from structlog.typing import EventDict

from karpenter.api.node import Node
from karpenter.api.pod import Pod
from karpenter.kube.client import Client
from karpenter.kube.errors import UndecodableResponse, Unreachable
from karpenter.kube.informer import Informer, InformerEvent, InformerUpdate
from karpenter.kube.rest import Selection
from karpenter.kube.targets import Plain, untyped
from karpenter.kube.transport import Request, Response
from tests.unit.kube.toy import Toy, status

NODES = untyped("v1", "nodes", kind="Node", namespaced=False)


class Story:
    """What was told, in short."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def __call__(self, event: InformerEvent[Any]) -> None:
        self.heard.append(f"{'+' if isinstance(event, InformerUpdate) else '-'}{event.key}")


@asynccontextmanager
async def running(informer: Informer[Any]) -> AsyncIterator[Story]:
    """Run an informer, with someone who listens."""
    story = Story()
    informer.subscribe(story)
    task = asyncio.create_task(informer.run())
    try:
        yield story
    finally:
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled(), task.exception()


@pytest.fixture
def informer(client: Client, chance: Random) -> Informer[Node]:
    """An informer of nodes."""
    return Informer(client, Node, chance=chance)


def asked(toy: Toy) -> list[str]:
    """Return what the server was asked, in short."""
    return [
        f"watch {request.parameter('resourceVersion')}" if request.parameter("watch") else "list"
        for request in toy.requests
    ]


async def test_a_list_then_a_watch(informer: Informer[Node], toy: Toy) -> None:
    """What is there is listed; what happens later is told as it happens."""
    toy.put("nodes", "n1")
    toy.put("nodes", "n2")

    async with running(informer) as story:
        assert not informer.synced
        await informer.wait_synced()
        toy.put("nodes", "n3")
        toy.drop("nodes", "n1")
        await asyncio.sleep(1)

    assert story.heard == ["+n1", "+n2", "+n3", "-n1"]
    assert [node.name for node in informer.store] == ["n2", "n3"]
    assert asked(toy) == ["list", "watch 102"]


async def test_synced_only_after_the_last_page(client: Client, toy: Toy, chance: Random) -> None:
    """Half a list is not a synced copy."""
    for number in range(5):
        toy.put("nodes", f"n{number}")
    toy.answers_after = 1
    informer = Informer(client, Node, chance=chance, page=2)

    async with running(informer):
        await asyncio.sleep(2.5)
        halfway = (informer.synced, len(informer.store))
        await asyncio.sleep(1)

        assert (halfway, informer.synced, len(informer.store)) == ((False, 4), True, 5)


async def test_a_cut_watch_is_resumed_where_it_was(informer: Informer[Node], toy: Toy) -> None:
    """Nothing is listed again, and nothing that happened meanwhile is missed."""
    toy.put("nodes", "n1")

    async with running(informer) as story:
        await asyncio.sleep(2)
        toy.put("nodes", "n2")
        await asyncio.sleep(1)
        toy.cut()
        toy.put("nodes", "n3")
        await asyncio.sleep(1)

    assert story.heard == ["+n1", "+n2", "+n3"]
    assert asked(toy) == ["list", "watch 101", "watch 102"]


async def test_a_bookmark_is_where_a_watch_resumes(informer: Informer[Node], toy: Toy) -> None:
    """Bookmarks move the point of return forward while nothing happens to our objects."""
    async with running(informer):
        await asyncio.sleep(2)
        toy.bookmark()
        await asyncio.sleep(1)
        toy.cut()
        await asyncio.sleep(1)

    assert asked(toy) == ["list", "watch 100", "watch 101"]


async def test_a_forgotten_history_means_a_new_list(
    informer: Informer[Node], toy: Toy, logs: list[EventDict]
) -> None:
    """After 410 the list is made anew, at once, and only differences are told."""
    toy.put("nodes", "same")
    toy.put("nodes", "dropped")

    async with running(informer) as story:
        await asyncio.sleep(2)
        toy.cut()
        toy.drop("nodes", "dropped")
        toy.put("nodes", "new")
        toy.forget()
        await asyncio.sleep(0.1)
        assert informer.synced

    assert story.heard == ["+dropped", "+same", "+new", "-dropped"]
    assert asked(toy) == ["list", "watch 102", "watch 102", "list", "watch 104"]
    assert [log["event"] for log in logs if log["log_level"] != "debug"] == ["watch.expired"]


async def test_an_error_within_the_watch(informer: Informer[Node], toy: Toy) -> None:
    """A watch that ends with 410 in its stream is handled like one that was refused."""
    async with running(informer) as story:
        await asyncio.sleep(2)
        toy.history.append(
            (
                toy.version + 1,
                "ERROR",
                "nodes",
                {"kind": "Status", "code": 410, "reason": "Expired", "metadata": {}},
            )
        )
        toy.version += 1
        toy.put("nodes", "n1")
        await asyncio.sleep(0.1)

    assert story.heard == ["+n1"]
    assert asked(toy)[:3] == ["list", "watch 100", "list"]


async def test_a_server_that_forgets_all_the_time_is_not_hammered(
    informer: Informer[Node], toy: Toy, logs: list[EventDict]
) -> None:
    """Lists that are useless at once are made ever more slowly."""
    toy.fault(status(410, "Expired"), times=10_000, when="watch")

    async with running(informer):
        await asyncio.sleep(60)

    assert asked(toy).count("list") < 12
    assert "informer.failed" in {log["event"] for log in logs}


async def test_silence_never_freezes_the_copy(
    informer: Informer[Node], toy: Toy, logs: list[EventDict]
) -> None:
    """A connection on which nothing comes is dropped, and the watch resumed on a new one."""
    async with running(informer) as story:
        await asyncio.sleep(1)
        toy.silent = True
        toy.put("nodes", "n1")
        await asyncio.sleep(60)
        toy.silent = False
        assert story.heard == []
        await asyncio.sleep(40)

    assert story.heard == ["+n1"]
    assert asked(toy) == ["list", "watch 100", "watch 100"]
    assert [log["event"] for log in logs if log["log_level"] == "warning"] == ["watch.silent"]


async def test_a_kind_that_is_quiet_is_no_reason_to_warn(
    informer: Informer[Node], toy: Toy, logs: list[EventDict]
) -> None:
    """A server need not send bookmarks for a kind that does not change; nothing was missed."""
    async with running(informer) as story:
        await asyncio.sleep(200)
        toy.put("nodes", "n1")
        await asyncio.sleep(1)

    assert story.heard == ["+n1"]
    assert asked(toy) == ["list", "watch 100", "watch 100", "watch 100"]
    assert [log["event"] for log in logs if log["log_level"] == "warning"] == []


async def test_a_server_that_cannot_be_lost_may_be_silent(client: Client, toy: Toy, chance: Random) -> None:
    """In one process, nobody has to be asked whether he is still there."""
    informer: Informer[Node] = Informer(client, Node, chance=chance, silence=None)
    async with running(informer) as story:
        await asyncio.sleep(3600)
        toy.put("nodes", "n1")
        await asyncio.sleep(1)

    assert story.heard == ["+n1"]
    assert asked(toy) == ["list", "watch 100"]


async def test_bookmarks_break_the_silence(informer: Informer[Node], toy: Toy) -> None:
    """A watch on which only bookmarks come is alive."""
    async with running(informer):
        for _ in range(4):
            await asyncio.sleep(60)
            toy.bookmark()

    assert asked(toy) == ["list", "watch 100"]


@pytest.mark.parametrize(
    ("first", "until", "watches"),
    [
        pytest.param(0.9, 9.9, 1, id="until its time is over"),
        pytest.param(0.9, 10.1, 2, id="an event within a second prolongs nothing"),
        pytest.param(1.1, 11.0, 1, id="a later one does"),
        pytest.param(1.1, 11.2, 2, id="once"),
    ],
)
async def test_a_watch_is_given_up_after_its_silence(  # noqa: PLR0917  fixtures and the case
    client: Client, toy: Toy, chance: Random, first: float, until: float, watches: int
) -> None:
    """The idle timeout begins anew with an event, but for those that come within a second of the last one."""
    informer: Informer[Node] = Informer(client, Node, chance=chance, silence=10.0)
    async with running(informer):
        await asyncio.sleep(first)
        toy.put("nodes", "n1")
        await asyncio.sleep(until - first)

        assert len([each for each in asked(toy) if each != "list"]) == watches


async def test_a_watch_with_many_events_is_kept(client: Client, toy: Toy, chance: Random) -> None:
    """Events that come faster than once a second prolong the idle timeout as well."""
    informer: Informer[Node] = Informer(client, Node, chance=chance, silence=10.0)
    async with running(informer) as story:
        await asyncio.sleep(0.1)
        for _ in range(100):
            toy.put("nodes", "n1")
            await asyncio.sleep(0.4)

    assert len(story.heard) == 100
    assert asked(toy) == ["list", "watch 100"]


async def test_events_told_twice_and_late_are_heard_once(informer: Informer[Node], toy: Toy) -> None:
    """Repeats and delays change nothing about the story."""
    toy.twice = True
    toy.delay = 3

    async with running(informer) as story:
        await asyncio.sleep(1)
        toy.put("nodes", "n1")
        toy.put("nodes", "n1", spec={"unschedulable": True})
        toy.drop("nodes", "n1")
        await asyncio.sleep(30)

    assert story.heard == ["+n1", "+n1", "-n1"]


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(status(500, "InternalError"), id="the server is broken"),
        pytest.param(status(403, "Forbidden"), id="we may not"),
        pytest.param(status(404, "NotFound"), id="the kind is not there yet"),
        pytest.param(Response(status=200, body=b"<html>"), id="a proxy answers"),
        pytest.param(
            Unreachable("refused", request=Request(method="GET", path="/"), sent=False), id="nobody answers"
        ),
    ],
)
async def test_a_failing_list_is_tried_until_it_works(
    informer: Informer[Node], toy: Toy, fault: Response | Exception, logs: list[EventDict]
) -> None:
    """Every failure is logged and waited out; the copy is synced once the server is well."""
    toy.put("nodes", "n1")
    toy.fault(fault, times=6)

    async with running(informer) as story:
        await asyncio.sleep(0.5)
        assert not informer.synced
        await asyncio.sleep(60)

    assert story.heard == ["+n1"]
    assert {log["event"] for log in logs if log["log_level"] == "warning"} == {"informer.failed"}


async def test_a_copy_that_may_be_out_of_date_says_why(informer: Informer[Node], toy: Toy) -> None:
    """While the server refuses, readers of the copy can tell; once it answers, nothing is wrong."""
    toy.fault(status(404, "NotFound"), times=3)

    async with running(informer):
        await asyncio.sleep(0.5)
        assert "nodes" in informer.problem
        assert informer.lost_at is not None
        await asyncio.sleep(60)
        assert not informer.problem
        assert informer.lost_at is None


async def test_waits_grow_and_end(informer: Informer[Node], toy: Toy, logs: list[EventDict]) -> None:
    """A server that is away for an hour is asked a bounded number of times, and found soon after."""
    toy.fault(status(403, "Forbidden"), times=10_000)

    async with running(informer):
        await asyncio.sleep(3600)
        toy.faults.clear()
        await asyncio.sleep(45)
        assert informer.synced

    waits = [log["wait"] for log in logs if log["event"] == "informer.failed"]
    assert waits[0] < 1
    assert max(waits) <= 45
    assert 80 < len(waits) < 140


async def test_a_busy_server_is_left_alone_for_as_long_as_it_asks(informer: Informer[Node], toy: Toy) -> None:
    """Retry-After of a refused watch is honoured."""
    toy.fault(status(429, "TooManyRequests", retry_after=25), when="watch")

    async with running(informer):
        await asyncio.sleep(24)
        assert asked(toy) == ["list", "watch 100"]
        await asyncio.sleep(2)

    assert asked(toy) == ["list", "watch 100", "watch 100"]


async def test_watches_that_end_at_once_do_not_spin(informer: Informer[Node], toy: Toy) -> None:
    """A server, or something before it, that closes each watch immediately is asked ever more slowly."""

    async def cutter() -> None:
        while True:
            await asyncio.sleep(0.01)
            toy.cut()

    task = asyncio.create_task(cutter())
    async with running(informer):
        await asyncio.sleep(60)
    task.cancel()

    assert asked(toy).count("watch 100") < 12


async def test_a_watch_that_reaches_its_end_is_renewed(informer: Informer[Node], toy: Toy) -> None:
    """Servers end watches after a while; lifetimes differ, so that not all come back at once."""

    async def bookmarks() -> None:
        while True:
            await asyncio.sleep(50)
            toy.bookmark()

    task = asyncio.create_task(bookmarks())
    async with running(informer):
        await asyncio.sleep(3600)
    task.cancel()

    lifetimes = {
        request.parameter("timeoutSeconds") for request in toy.requests if request.parameter("watch")
    }
    assert asked(toy).count("list") == 1
    assert len(lifetimes) > 3
    assert all(300 <= int(seconds) <= 600 for seconds in lifetimes)


async def test_a_broken_object_does_not_hide_others(
    client: Client, toy: Toy, chance: Random, logs: list[EventDict]
) -> None:
    """Objects that cannot be read are logged; the rest is held, and the watch goes on."""
    toy.put("nodes", "bad", spec=7)
    toy.put("nodes", "n1")
    informer = Informer(client, Node, chance=chance)

    async with running(informer) as story:
        await asyncio.sleep(2)
        toy.put("nodes", "worse", spec=8)
        toy.put("nodes", "n2")
        await asyncio.sleep(1)
        toy.cut()
        await asyncio.sleep(1)

    assert story.heard == ["+n1", "+n2"]
    assert [log["event"] for log in logs if log["log_level"] == "error"] == ["object.unreadable"] * 2
    assert asked(toy) == ["list", "watch 102", "watch 104"]


async def test_an_object_whose_new_version_is_broken_is_not_held_as_it_was(
    client: Client, toy: Toy, chance: Random
) -> None:
    """What is held would be stale: it is listed anew, and dropped; later versions cost no further list."""
    toy.put("nodes", "n1")
    informer = Informer(client, Node, chance=chance)

    async with running(informer) as story:
        await asyncio.sleep(2)
        for spec in (7, 8, 9):
            toy.put("nodes", "n1", spec=spec)
            await asyncio.sleep(30)
        toy.put("nodes", "n1")
        await asyncio.sleep(1)

    assert story.heard == ["+n1", "-n1", "+n1"]
    assert asked(toy).count("list") == 2


async def test_a_watch_that_cannot_be_decoded_is_followed_by_a_list(
    client: Client, toy: Toy, chance: Random
) -> None:
    """What the line said is lost, so that the objects have to be read anew."""
    toy.put("nodes", "n1")
    informer = Informer(client, Node, chance=chance)
    garbage = UndecodableResponse("not UTF-8", request=Request(method="GET", path="/api/v1/nodes"))
    toy.fault(garbage, when="watch")

    async with running(informer):
        await asyncio.sleep(30)

    assert asked(toy)[:3] == ["list", "watch 101", "list"]


async def test_a_reply_to_our_own_write_counts_at_once(
    client: Client, informer: Informer[Node], toy: Toy
) -> None:
    """Whoever decides next sees what was just written, though the watch lags."""
    toy.delay = 5
    async with running(informer) as story:
        await informer.wait_synced()

        informer.observe(await client.create(Node, {"metadata": {"name": "n1"}}))
        assert story.heard == ["+n1"]
        await asyncio.sleep(10)

    assert story.heard == ["+n1"]


async def test_only_the_selected_is_asked_for(client: Client, toy: Toy, chance: Random) -> None:
    """Selections go to the server, with the list and with the watch."""
    selection = Selection(namespace="shop", labels="app=web", fields="status.phase=Pending")
    informer = Informer(client, Pod, selection=selection, chance=chance)

    async with running(informer):
        await asyncio.sleep(1)

    for request in toy.requests:
        assert request.path == "/api/v1/namespaces/shop/pods"
        assert request.parameter("labelSelector") == "app=web"
        assert request.parameter("fieldSelector") == "status.phase=Pending"


async def test_only_what_is_needed_is_held(client: Client, toy: Toy, chance: Random) -> None:
    """Narrow turns objects into less, or into nothing, before they are held; indexes are over the less."""
    toy.put("nodes", "n1", spec={"providerID": "cloud://1"})
    toy.put("nodes", "n2")

    def provider(node: Node) -> str | None:
        return node.spec.provider_id or None

    informer = Informer(
        client, Node, narrow=provider, indexers={"cloud": lambda text: [text[:5]]}, chance=chance
    )
    async with running(informer):
        await informer.wait_synced()

    assert informer.store.items() == (("n1", "cloud://1"),)
    assert informer.store.find("cloud", "cloud") == ("cloud://1",)


async def test_untyped_objects_are_held_whole(client: Client, toy: Toy, chance: Random) -> None:
    """Controllers that write whole objects follow dictionaries with every field."""
    toy.put("nodes", "n1", anything={"goes": True})
    informer: Informer[Plain] = Informer(client, NODES, chance=chance)

    async with running(informer):
        await informer.wait_synced()

    assert informer.store.items()[0][1]["anything"] == {"goes": True}


async def test_others_get_their_turn(client: Client, toy: Toy, chance: Random) -> None:
    """A flood of events does not keep other tasks from running."""
    informer = Informer(client, Node, chance=chance)
    turns = 0

    async def other() -> None:
        nonlocal turns
        while len(informer.store) < 1000:
            turns += 1
            await asyncio.sleep(0)

    async with running(informer):
        await informer.wait_synced()
        for number in range(1000):
            toy.put("nodes", f"n{number}")
        await other()

    assert turns > 5
