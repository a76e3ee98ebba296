"""The client asks politely, tries again where that is safe, and turns refusals into errors."""

import asyncio
import json
from random import Random
from typing import Any

import pytest

from karpenter.api.node import Node
from karpenter.api.pod import Pod
from karpenter.base.ratelimiting import TokenBucket
from karpenter.kube.client import Bookmark, Client, WatchChange
from karpenter.kube.errors import (
    AlreadyExists,
    Conflict,
    Gone,
    NotFound,
    ServerFailed,
    TooManyRequests,
    UndecodableResponse,
    Unreachable,
)
from karpenter.kube.patches import JsonPatch, MergePatch
from karpenter.kube.rest import Preconditions, Selection
from karpenter.kube.targets import untyped
from karpenter.kube.transport import Request, Response
from karpenter_local.apiserver.inprocess import InProcess
from tests.unit.kube.toy import Toy, answer, status

NODES = untyped("v1", "nodes", kind="Node", namespaced=False)
PLAIN_PODS = untyped("v1", "pods", kind="Pod", namespaced=True)


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_get_reads_a_struct(client: Client, toy: Toy) -> None:
    """A struct's class says what to ask for and how to read it."""
    toy.put("pods", "web-0", namespace="shop", spec={"nodeName": "n1"})

    pod = await client.get(Pod, "web-0", namespace="shop")

    assert (pod.key, pod.spec.node_name) == ("shop/web-0", "n1")


async def test_get_reads_plain_data(client: Client, toy: Toy) -> None:
    """An untyped target gives every field as it is."""
    stored = toy.put("nodes", "n1", anything={"goes": [1, 2]})

    assert await client.get(NODES, "n1") == stored


async def test_a_log_is_text() -> None:
    """The last lines of a container are asked for, and come as they are, also where they are no UTF-8."""
    asked: list[Request] = []

    class Logs:
        async def handle(self, request: Request) -> Response:
            asked.append(request)
            return Response(status=200, body=b"one\n\xff\n")

    client = Client(InProcess(Logs()), chance=Random(1))  # noqa: S311  retries
    text = await client.log("web-0", namespace="shop", lines=5, container="c", previous=True)

    assert text == "one\n\ufffd\n"
    assert asked[0].path == "/api/v1/namespaces/shop/pods/web-0/log"
    assert asked[0].query == (("container", "c"), ("previous", "true"), ("tailLines", "5"))


async def test_a_missing_object_is_an_error_with_facts(client: Client) -> None:
    """What is not there is told by the server's own words."""
    with pytest.raises(NotFound) as caught:
        await client.get(Node, "n1")

    assert (caught.value.name, caught.value.code) == ("n1", 404)


async def test_list_reads_all_pages(client: Client, toy: Toy) -> None:
    """A list is read in pages of a moment, and given whole."""
    for number in range(7):
        toy.put("nodes", f"n{number}")

    listed = await client.list(Node, limit=3)

    assert ([node.name for node in listed.items], listed.version) == (
        [f"n{n}" for n in range(7)],
        str(toy.version),
    )
    assert [request.parameter("continue") for request in toy.requests] == [
        "",
        f"{toy.version}:3",
        f"{toy.version}:6",
    ]


async def test_list_of_a_namespace(client: Client, toy: Toy) -> None:
    """A selection narrows what the server sends."""
    toy.put("pods", "a", namespace="shop")
    toy.put("pods", "b", namespace="bank")

    listed = await client.list(Pod, Selection(namespace="bank"))

    assert [pod.key for pod in listed.items] == ["bank/b"]


async def test_a_list_that_took_too_long(client: Client, toy: Toy) -> None:
    """A page of a moment that the server forgot is Gone: the caller starts again."""
    for number in range(4):
        toy.put("nodes", f"n{number}")

    pages = client.pages(Node, limit=2)
    await anext(pages)
    toy.forget()

    with pytest.raises(Gone):
        await anext(pages)


async def test_create_returns_what_was_stored(client: Client, toy: Toy) -> None:
    """The server's version of the object comes back, with its name and uid."""
    pod = await client.create(Pod, {"metadata": {"generateName": "web-"}}, namespace="shop")

    assert pod.metadata.uid
    assert list(toy.objects["pods"]) == [pod.key]


async def test_create_twice(client: Client) -> None:
    """A name that is taken is told apart from a conflict."""
    await client.create(Node, {"metadata": {"name": "n1"}})

    with pytest.raises(AlreadyExists):
        await client.create(Node, {"metadata": {"name": "n1"}})


async def test_patch_changes_a_part(client: Client, toy: Toy) -> None:
    """A merge patch changes what it names and leaves the rest."""
    toy.put("nodes", "n1", spec={"podCIDR": "10.0.0.0/24"})

    node = await client.patch(Node, "n1", MergePatch({"spec": {"unschedulable": True}}))

    assert node.spec.unschedulable
    assert toy.objects["nodes"]["n1"]["spec"]["podCIDR"] == "10.0.0.0/24"


async def test_a_conditional_patch_of_something_older(client: Client, toy: Toy) -> None:
    """A version that has passed is a Conflict."""
    stale = toy.put("nodes", "n1")["metadata"]["resourceVersion"]
    toy.put("nodes", "n1", spec={"unschedulable": True})

    with pytest.raises(Conflict):
        await client.patch(Node, "n1", MergePatch({"spec": {}}, version=stale))


async def test_replace_writes_a_whole_object(client: Client, toy: Toy) -> None:
    """An untyped object is read, changed and written back whole."""
    toy.put("pods", "web-0", namespace="shop", spec={"a": 1})
    pod = await client.get(PLAIN_PODS, "web-0", namespace="shop")

    written = await client.replace(PLAIN_PODS, {**pod, "spec": {"b": 2}})

    assert written["spec"] == {"b": 2}
    with pytest.raises(Conflict):
        await client.replace(PLAIN_PODS, pod)


async def test_apply_says_name_kind_and_manager(client: Client, toy: Toy) -> None:
    """Server-side apply sends the whole of what we own, addressed by its own name."""
    toy.put("pods", "web-0", namespace="shop")

    await client.apply(Pod, {"metadata": {"name": "web-0", "namespace": "shop"}}, force=False)

    request = toy.requests[-1]
    assert request.path == "/api/v1/namespaces/shop/pods/web-0"
    assert request.query == (("fieldManager", "karpenter"), ("force", "false"))
    assert json.loads(request.body)["kind"] == "Pod"


@pytest.mark.parametrize(
    ("uid", "outcome"),
    [
        pytest.param("same", None, id="the very object"),
        pytest.param("other", Conflict, id="another of its name"),
    ],
)
async def test_delete_only_that_object(
    client: Client, toy: Toy, uid: str, outcome: type[Exception] | None
) -> None:
    """A uid keeps a delete from hitting a newer object of the same name."""
    toy.put("nodes", "n1", metadata={"uid": "same"})

    if outcome is None:
        await client.delete(Node, "n1", only_if=Preconditions(uid=uid))
        assert toy.objects["nodes"] == {}
    else:
        with pytest.raises(outcome):
            await client.delete(Node, "n1", only_if=Preconditions(uid=uid))


async def test_evict_and_bind(client: Client, toy: Toy) -> None:
    """A pod is put on a node, and asked to leave it."""
    toy.put("pods", "web-0", namespace="shop", metadata={"uid": "u"})

    await client.bind("web-0", namespace="shop", node="n1")
    assert toy.objects["pods"]["shop/web-0"]["spec"]["nodeName"] == "n1"

    await client.evict("web-0", namespace="shop", only_if=Preconditions(uid="u"))
    assert toy.objects["pods"] == {}


async def test_a_blocked_eviction_is_asked_once(client: Client, toy: Toy) -> None:
    """A disruption budget's no is an answer; asking again is the eviction queue's decision."""
    toy.fault(
        status(429, "TooManyRequests", causes=[{"reason": "DisruptionBudget"}], retry_after=10), times=9
    )

    with pytest.raises(TooManyRequests) as caught:
        await client.evict("web-0", namespace="shop")

    assert (caught.value.by_budget, caught.value.retry_after, len(toy.requests), now()) == (True, 10, 1, 0)


async def test_a_busy_server_is_asked_again_when_it_said(client: Client, toy: Toy) -> None:
    """A 429 is waited out as long as the server asked."""
    toy.put("nodes", "n1")
    toy.fault(status(429, "TooManyRequests", retry_after=7), times=2)

    await client.get(Node, "n1")

    assert (len(toy.requests), now()) == (3, 14)


async def test_a_busy_server_that_asks_for_too_much_patience(client: Client, toy: Toy) -> None:
    """A wait longer than a caller can bear is the caller's to decide."""
    toy.fault(status(429, "TooManyRequests", retry_after=3600))

    with pytest.raises(TooManyRequests):
        await client.get(Node, "n1")

    assert now() == 0


async def test_attempts_end(client: Client, toy: Toy) -> None:
    """A server that stays broken is given up on, after waits that grow."""
    toy.fault(status(500, "InternalError"), times=99)

    with pytest.raises(ServerFailed):
        await client.get(Node, "n1")

    assert len(toy.requests) == 5
    assert 1.5 <= now() <= 2.25


async def test_a_write_without_an_answer_is_not_repeated(client: Client, toy: Toy) -> None:
    """A create that may have happened is reported, not repeated."""
    toy.fault(TimeoutError(), when="POST")

    with pytest.raises(Unreachable) as caught:
        await client.create(Node, {"metadata": {"name": "n1"}})

    assert (caught.value.sent, len(toy.requests)) == (True, 1)


async def test_a_server_that_never_answers(toy: Toy, chance: Random) -> None:
    """A request has a deadline."""
    toy.answers_after = 1000
    client = Client(InProcess(toy), chance=chance, timeout=3, attempts=1)

    with pytest.raises(Unreachable, match="no answer within 3 s"):
        await client.get(Node, "n1")

    assert now() == 3


async def test_the_rate_is_held(toy: Toy, chance: Random) -> None:
    """A burst goes through; after it, requests leave at the rate, retries included."""
    client = Client(InProcess(toy), chance=chance, bucket=TokenBucket(rate=10, burst=5))
    toy.put("nodes", "n1")

    await asyncio.gather(*(client.get(Node, "n1") for _ in range(25)))

    assert now() == pytest.approx(2.0)


async def test_a_turn_is_waited_for_before_its_request(toy: Toy, chance: Random) -> None:
    """The first request of a turn leaves at once, the next waits, and the token of an unused turn is left."""
    bucket = TokenBucket(rate=0.1, burst=1)
    client = Client(InProcess(toy), chance=chance, bucket=bucket)
    other = client.with_bucket(TokenBucket(rate=1.0, burst=1))
    toy.put("nodes", "n1")
    async with client.turn():
        pass
    assert now() == 0
    async with client.turn():
        await other.get(Node, "n1")
        await client.get(Node, "n1")
        assert now() == 0
        await client.get(Node, "n1")
        assert now() == pytest.approx(10.0)

    async with client.turn():
        assert now() == pytest.approx(20.0)


async def test_the_default_rate(client: Client, toy: Toy) -> None:
    """300 at once and 200 a second after."""
    toy.put("nodes", "n1")

    await asyncio.gather(*(client.get(Node, "n1") for _ in range(500)))

    assert now() == pytest.approx(1.0)


@pytest.mark.parametrize(
    "body",
    [pytest.param(b"<html>", id="not JSON"), pytest.param(b'{"spec": 7}', id="not a node")],
)
async def test_an_answer_of_the_wrong_shape(client: Client, toy: Toy, body: bytes) -> None:
    """What cannot be read says so, and carries what came."""
    toy.fault(Response(status=200, body=body), times=2)

    with pytest.raises(UndecodableResponse) as caught:
        await client.get(Node, "n1")

    assert caught.value.body == body


async def test_a_list_of_the_wrong_shape(client: Client, toy: Toy) -> None:
    """A list that is none is unreadable too."""
    toy.fault(answer({"items": "many"}))

    with pytest.raises(UndecodableResponse):
        await client.list(NODES)


async def test_watch_tells_what_happens(client: Client, toy: Toy) -> None:
    """A watch gives changes as they come, and bookmarks."""
    toy.put("nodes", "n1")
    events: list[Any] = []

    async with client.watch(Node, since=str(toy.version)) as watched:
        toy.put("nodes", "n2")
        toy.put("nodes", "n2", spec={"unschedulable": True})
        toy.bookmark()
        toy.drop("nodes", "n1")
        while len(events) < 4:
            events.append(await anext(watched))

    assert [event.type if isinstance(event, WatchChange) else "BOOKMARK" for event in events] == [
        "ADDED",
        "MODIFIED",
        "BOOKMARK",
        "DELETED",
    ]
    assert events[2] == Bookmark(str(toy.version - 1))
    assert not toy.watches


async def test_watch_from_too_long_ago(client: Client, toy: Toy) -> None:
    """The server refuses at once what it has forgotten."""
    toy.put("nodes", "n1")
    toy.forget()

    with pytest.raises(Gone):
        async with client.watch(Node, since="1"):
            pytest.fail("the watch was accepted")


async def test_close_closes_the_transport(client: Client) -> None:
    """Nothing is sent after closing."""
    await client.close()

    with pytest.raises(Unreachable):
        await client.create(Node, {})


async def test_json_patch_goes_as_it_is(client: Client, toy: Toy) -> None:
    """A JSON patch is told apart by its content type."""
    toy.fault(answer({"metadata": {"name": "n1"}}))

    await client.patch(
        Node, "n1", JsonPatch([{"op": "remove", "path": "/spec/taints/0"}]), subresource="status"
    )

    assert toy.requests[0].header("content-type") == "application/json-patch+json"
    assert toy.requests[0].path.endswith("/n1/status")


async def test_someone_may_listen(client: Client, toy: Toy) -> None:
    """Whoever listens hears of each request, with the code of its answer and the time that it took."""
    heard: list[tuple[str, int, float]] = []
    client.listener = lambda request, code, seconds: heard.append((request.method, code, seconds))
    toy.put("nodes", "n1")
    await client.get(Node, "n1")
    with pytest.raises(NotFound):
        await client.get(Node, "n2")

    assert heard == [("GET", 200, 0.0), ("GET", 404, 0.0)]
    assert client.host == ""


async def test_a_client_beside_another_has_a_rate_of_its_own(toy: Toy, chance: Random) -> None:
    """What one has used up does not make the other wait; both talk to the same server."""
    busy = Client(InProcess(toy), chance=chance, bucket=TokenBucket(rate=0.001, burst=1), manager="me")
    toy.put("nodes", "n1")
    await busy.get(Node, "n1")
    other = busy.with_bucket(TokenBucket(rate=1.0, burst=2))
    began = now()
    await other.get(Node, "n1")

    assert now() == began
