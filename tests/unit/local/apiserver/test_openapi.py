from typing import Any

from karpenter.kube.transport import Request, Response
from karpenter_local.apiserver.server import Server
from tests.unit.local.apiserver.asking import DEFINITIONS, ask, definition


def references(value: Any) -> set[str]:
    if isinstance(value, dict):
        found = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return found.union(*(references(part) for part in value.values()))
    if isinstance(value, list):
        return set().union(*(references(part) for part in value))
    return set()


async def test_every_document_of_the_index_is_there_and_complete() -> None:
    """Each group has a document, and nothing in it refers to what is missing."""
    server = Server(seed=1)
    await ask(server, "POST", DEFINITIONS, definition())
    index = (await ask(server, "GET", "/openapi/v3")).json["paths"]

    missing = {}
    for name, place in index.items():
        path, _, query = place["serverRelativeURL"].partition("?")
        document = (await ask(server, "GET", path, hash=query.removeprefix("hash="))).json
        schemas = document["components"]["schemas"]
        missing[name] = {ref for ref in references(document) if ref.rpartition("/")[2] not in schemas}

    assert {"api/v1", "apis/apps/v1", "apis/example.com/v1"} <= set(index)
    assert not any(missing.values())


async def test_a_document_changes_with_its_definitions() -> None:
    """Clients that cache by hash see that a custom kind has changed."""
    server = Server(seed=1)
    await ask(server, "POST", DEFINITIONS, definition())
    before = (await ask(server, "GET", "/openapi/v3")).json["paths"]
    changed = definition(
        schema={
            "type": "object",
            "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
        }
    )
    current = (await ask(server, "GET", f"{DEFINITIONS}/things.example.com")).json

    await ask(
        server,
        "PUT",
        f"{DEFINITIONS}/things.example.com",
        {**current, "spec": {**current["spec"], **changed["spec"]}},
    )

    after = (await ask(server, "GET", "/openapi/v3")).json["paths"]
    assert {name for name in after if after[name] != before[name]} == {"apis/example.com/v1"}


async def test_version_two_has_everything_at_once() -> None:
    """Older clients get one document, in which every reference leads somewhere."""
    document = (await ask(Server(seed=1), "GET", "/openapi/v2")).json

    assert not {ref for ref in references(document) if ref.rpartition("/")[2] not in document["definitions"]}


async def test_merge_keys_are_published() -> None:
    """Kubectl computes patches of lists by them."""
    document = (await ask(Server(seed=1), "GET", "/openapi/v3/api/v1")).json

    containers = document["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"


async def test_version_two_in_protobuf_describes_nothing() -> None:
    """A client that validates by it leaves every kind to the server."""
    accept = (("accept", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"),)
    answer = await Server(seed=1).handle(Request(method="GET", path="/openapi/v2", headers=accept))

    assert isinstance(answer, Response)
    assert (answer.status, answer.body[:5]) == (200, b"\x0a\x032.0")
