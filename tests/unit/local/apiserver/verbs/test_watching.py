import asyncio
from typing import Any

import msgspec
import pytest

from karpenter.kube.transport import Streaming
from karpenter_local.apiserver.server import Server
from karpenter_local.apiserver.verbs import watching
from karpenter_local.virtual import VirtualClock, run_virtual
from tests.unit.local.apiserver.asking import CONFIGMAPS, MERGE, ask, configmap, take, watch


async def rest(stream: Streaming) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) async for line in stream.lines]


async def test_what_leaves_a_selector_is_deleted_to_its_watcher() -> None:
    """An object that stops matching goes, with the state in which it was last seen."""
    server = Server(seed=1)
    stream = await watch(server, CONFIGMAPS, labelSelector="on=yes")
    await ask(server, "POST", CONFIGMAPS, configmap("a", labels={"on": "yes"}))
    for labels in ({"on": "no"}, {"other": "x"}, {"on": "yes"}):
        await ask(server, "PATCH", f"{CONFIGMAPS}/a", {"metadata": {"labels": labels}}, kind=MERGE)

    events = [msgspec.json.decode(await anext(stream.lines)) for _ in range(3)]

    assert [event["type"] for event in events] == ["ADDED", "DELETED", "ADDED"]
    gone = events[1]["object"]["metadata"]
    assert (gone["labels"], int(gone["resourceVersion"])) == ({"on": "yes"}, server.store.revision - 2)
    await stream.lines.aclose()


async def test_a_watch_from_before_memory_ends_with_an_error() -> None:
    """The stream is accepted, says 410, and is over."""
    server = Server(seed=1)
    await ask(server, "POST", CONFIGMAPS, configmap("a"))
    server.store.compact()

    [event] = await rest(await watch(server, CONFIGMAPS, resourceVersion="1"))

    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")


async def test_a_slow_watcher_is_cut_off_and_blocks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """A watcher that does not read keeps nothing alive; when history has moved past it, its stream ends."""
    server = Server(seed=1)
    history = server.store.table("configmaps").history
    monkeypatch.setattr(history, "_max_events", 50)
    slow, fast = await watch(server, CONFIGMAPS), await watch(server, CONFIGMAPS)
    await ask(server, "POST", CONFIGMAPS, configmap("first"))
    assert await take(slow, 1) == await take(fast, 1)

    seen = 0
    for number in range(200):
        await ask(server, "POST", CONFIGMAPS, configmap(f"n{number}"))
        seen += len(await take(fast, 1))

    assert seen == 200
    assert await rest(slow) == []
    assert len(history._changes) <= 100
    await fast.lines.aclose()


def test_bookmarks_come_once_a_minute_and_at_the_end() -> None:
    """A quiet watch still tells where it is; time passes only virtually."""

    async def story() -> list[tuple[float, str]]:
        clock = VirtualClock()
        server = Server(seed=1, clock=clock)
        stream = await watch(
            server,
            CONFIGMAPS,
            allowWatchBookmarks="true",
            timeoutSeconds="150",
            resourceVersion=server.store.revision,
        )
        return [(clock.monotonic(), msgspec.json.decode(line)["type"]) async for line in stream.lines]

    assert run_virtual(story()) == [(60.0, "BOOKMARK"), (120.0, "BOOKMARK"), (150.0, "BOOKMARK")]


def test_a_watch_ends_by_itself() -> None:
    """Without a limit of the client's, after half an hour."""

    async def story() -> float:
        clock = VirtualClock()
        stream = await watch(Server(seed=1, clock=clock), "/api/v1/nodes")
        assert [line async for line in stream.lines] == []
        return clock.monotonic()

    assert run_virtual(story()) == watching.LONGEST_WATCH_SECONDS


async def test_the_end_of_the_first_events_is_marked() -> None:
    """A list as a watch: what is there, a mark, then what comes; nothing in between is lost."""
    server = Server(seed=1)
    for name in ("a", "b"):
        await ask(server, "POST", CONFIGMAPS, configmap(name))
    stream = await watch(
        server,
        CONFIGMAPS,
        sendInitialEvents="true",
        resourceVersionMatch="NotOlderThan",
        allowWatchBookmarks="true",
    )
    first = await take(stream, 1)
    await ask(server, "POST", CONFIGMAPS, configmap("c"))

    following = [msgspec.json.decode(await anext(stream.lines)) for _ in range(3)]

    assert first == [("ADDED", "a")]
    assert [event["type"] for event in following] == ["ADDED", "BOOKMARK", "ADDED"]
    assert following[1]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert following[2]["object"]["metadata"]["name"] == "c"
    await stream.lines.aclose()


async def test_leaving_a_watch_leaves_nothing_behind() -> None:
    """A closed stream has no waiter in the history."""
    server = Server(seed=1)
    stream = await watch(server, CONFIGMAPS)
    waiting = asyncio.ensure_future(anext(stream.lines, None))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await stream.lines.aclose()

    await ask(server, "POST", CONFIGMAPS, configmap("a"))

    assert server.store.table("configmaps").history._waiting == {}
