import msgspec
import pytest

from karpenter.kube.transport import Request
from karpenter_local.apiserver.entry import Entry
from karpenter_local.apiserver.request import parse
from karpenter_local.apiserver.selectors import ListSelector, SelectorRequirement
from karpenter_local.apiserver.server import Server
from karpenter_local.apiserver.verbs.selecting import current
from tests.unit.local.apiserver.asking import CONFIGMAPS, MERGE, ask, configmap


async def five() -> Server:
    server = Server(seed=1)
    for name in "abcde":
        await ask(server, "POST", CONFIGMAPS, configmap(name))
    return server


async def test_pages_show_one_moment() -> None:
    """Later pages show the list as it was when the first was asked for."""
    server = await five()
    first = (await ask(server, "GET", CONFIGMAPS, limit=2)).json
    await ask(server, "DELETE", f"{CONFIGMAPS}/d")
    await ask(server, "POST", CONFIGMAPS, configmap("cc"))
    await ask(server, "PATCH", f"{CONFIGMAPS}/e", {"data": {"a": "changed"}}, kind=MERGE)

    rest = (await ask(server, "GET", CONFIGMAPS, **{"continue": first["metadata"]["continue"]})).json

    assert [item["metadata"]["name"] for item in rest["items"]] == ["c", "d", "e"]
    assert rest["items"][2]["data"] == {"a": "b"}
    assert rest["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert first["metadata"]["remainingItemCount"] == 3


async def test_a_page_of_what_is_selected_comes_with_the_rest() -> None:
    """A page with a selector is full while there is more of it; how much is left is not counted."""
    server = await five()
    chosen: dict[str, object] = {"fieldSelector": "metadata.name!=b"}
    first = (await ask(server, "GET", CONFIGMAPS, limit=3, **chosen)).json
    rest = (
        await ask(server, "GET", CONFIGMAPS, **{"continue": first["metadata"]["continue"]}, **chosen)
    ).json
    whole = (await ask(server, "GET", CONFIGMAPS, limit=4, **chosen)).json

    assert [item["metadata"]["name"] for item in first["items"]] == ["a", "c", "d"]
    assert "remainingItemCount" not in first["metadata"]
    assert [item["metadata"]["name"] for item in rest["items"]] == ["e"]
    assert "continue" not in rest["metadata"]
    assert [item["metadata"]["name"] for item in whole["items"]] == ["a", "c", "d", "e"]
    assert "continue" not in whole["metadata"]


class Counted(ListSelector, frozen=True):
    """A selector that leaves out one name and counts what it is asked."""

    asked: list[str] = msgspec.field(default_factory=list)

    def matches(self, entry: Entry) -> bool:
        """Say whether an entry has another name."""
        self.asked.append(entry.name)
        return entry.name != "b"


@pytest.mark.parametrize(
    ("most", "names", "asked"),
    [
        pytest.param(2, "ac", "abc", id="two"),
        pytest.param(4, "acde", "abcde", id="as many as there are"),
        pytest.param(None, "acde", "abcde", id="all"),
        pytest.param(0, "", "", id="none"),
    ],
)
async def test_no_more_is_selected_than_a_page_takes(most: int | None, names: str, asked: str) -> None:
    """Behind the last entry of a page nothing is asked of the selector."""
    server = await five()
    chosen = Counted((), (SelectorRequirement("metadata.name", "notin", frozenset("b")),), asked=[])
    call = parse(Request(method="GET", path=CONFIGMAPS), server.backend.registry)
    assert call is not None
    found = current(server.backend, call, chosen, most=most)

    assert "".join(entry.name for entry in found) == names
    assert "".join(chosen.asked) == asked


async def test_a_token_that_is_too_old_comes_with_another() -> None:
    """After a compaction, the rest can be had, though not of the same moment."""
    server = await five()
    token = (await ask(server, "GET", CONFIGMAPS, limit=2)).json["metadata"]["continue"]
    await ask(server, "POST", CONFIGMAPS, configmap("x"))
    server.store.compact()

    gone = await ask(server, "GET", CONFIGMAPS, **{"continue": token})
    rest = (await ask(server, "GET", CONFIGMAPS, **{"continue": gone.json["metadata"]["continue"]})).json

    assert (gone.status, gone.reason) == (410, "Expired")
    assert [item["metadata"]["name"] for item in rest["items"]] == ["c", "d", "e", "x"]


async def test_an_exact_revision_can_be_listed() -> None:
    """History can be looked at, as long as it is remembered."""
    server = await five()
    then = server.store.revision
    await ask(server, "DELETE", f"{CONFIGMAPS}/a")

    answer = await ask(server, "GET", CONFIGMAPS, resourceVersion=then, resourceVersionMatch="Exact")

    assert len(answer.json["items"]) == 5


@pytest.mark.parametrize("token", ["nonsense", "e30", "eyJydiI6MX0"])
async def test_tokens_are_not_made_up(token: str) -> None:
    """A token that the server did not give is refused."""
    answer = await ask(await five(), "GET", CONFIGMAPS, **{"continue": token})

    assert (answer.status, answer.reason) == (400, "BadRequest")


async def test_only_metadata_on_request() -> None:
    """A client may ask for metadata alone."""
    header = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    from karpenter.kube.transport import Response  # noqa: PLC0415  another accept header than usual

    answer = await (await five()).handle(
        Request(method="GET", path=CONFIGMAPS, headers=(("accept", header),))
    )

    assert isinstance(answer, Response)
    assert b'"PartialObjectMetadataList"' in answer.body
    assert b'"data"' not in answer.body
