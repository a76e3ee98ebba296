import pytest

from karpenter_local.apiserver.server import Server
from tests.unit.local.apiserver.asking import CONFIGMAPS, MERGE, ask, configmap


async def five() -> Server:
    """Return a server with five objects."""
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
    from karpenter.kube.rest import Request, Response  # noqa: PLC0415  another accept header than usual

    answer = await (await five()).handle(
        Request(method="GET", path=CONFIGMAPS, headers=(("accept", header),))
    )

    assert isinstance(answer, Response)
    assert b'"PartialObjectMetadataList"' in answer.body
    assert b'"data"' not in answer.body
