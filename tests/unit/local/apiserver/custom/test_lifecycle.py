from typing import Any

from karpenter_local.apiserver.server import Server
from tests.unit.local.apiserver.asking import DEFINITIONS, MERGE, THINGS, ask, definition, take, thing, watch


async def server_with(**version: Any) -> Server:
    """Return a server that knows a definition."""
    server = Server(seed=1)
    answer = await ask(server, "POST", DEFINITIONS, definition(**version))
    assert answer.status == 201, answer.message
    return server


def conditions(value: dict[str, Any]) -> dict[str, str]:
    """Return the conditions as types and statuses."""
    return {item["type"]: item["status"] for item in value["status"]["conditions"] or ()}


async def test_a_definition_is_served_at_once() -> None:
    """Its conditions follow as a second event, for those who wait for them."""
    server = Server(seed=1)
    stream = await watch(server, DEFINITIONS)

    made = await ask(server, "POST", DEFINITIONS, definition())

    assert made.json["status"]["conditions"] is None
    assert (await ask(server, "POST", THINGS, thing("a"))).status == 201
    assert await take(stream, 2) == [("ADDED", "things.example.com"), ("MODIFIED", "things.example.com")]
    await stream.lines.aclose()
    kept = (await ask(server, "GET", f"{DEFINITIONS}/things.example.com")).json
    assert conditions(kept) == {"NamesAccepted": "True", "Established": "True"}


async def test_a_definition_goes_after_its_objects() -> None:
    """Objects are deleted first; one that waits for a finalizer holds the definition back."""
    server = await server_with()
    held = thing("held")
    held["metadata"]["finalizers"] = ["x.io/wait"]
    for body in (thing("free"), held):
        await ask(server, "POST", THINGS, body)

    await ask(server, "DELETE", f"{DEFINITIONS}/things.example.com")

    assert (await ask(server, "GET", f"{THINGS}/free")).status == 404
    assert (await ask(server, "GET", f"{DEFINITIONS}/things.example.com")).status == 200
    assert (await ask(server, "POST", THINGS, thing("late"))).status == 405
    await ask(server, "PATCH", f"{THINGS}/held", {"metadata": {"finalizers": None}}, kind=MERGE)
    assert (await ask(server, "GET", f"{DEFINITIONS}/things.example.com")).status == 404
    assert (await ask(server, "GET", THINGS)).status == 404


async def test_versions_share_their_objects() -> None:
    """Every served version shows every object, under its own name."""
    body = definition()
    first = body["spec"]["versions"][0]
    body["spec"]["versions"].append({**first, "name": "v1beta1", "storage": False})
    server = Server(seed=1)
    await ask(server, "POST", DEFINITIONS, body)
    old = "/apis/example.com/v1beta1/namespaces/default/things"

    made = await ask(server, "POST", old, {**thing("a"), "apiVersion": "example.com/v1beta1"})

    assert made.json["apiVersion"] == "example.com/v1beta1"
    assert (await ask(server, "GET", f"{THINGS}/a")).json["apiVersion"] == "example.com/v1"
    assert (await ask(server, "GET", old)).json["items"][0]["apiVersion"] == "example.com/v1beta1"


async def test_a_new_stored_version_takes_the_objects_along() -> None:
    """Changing which version is stored loses nothing."""
    server = await server_with(name="v1beta1")
    old = "/apis/example.com/v1beta1/namespaces/default/things"
    await ask(server, "POST", old, {**thing("a", size=1), "apiVersion": "example.com/v1beta1"})
    current = (await ask(server, "GET", f"{DEFINITIONS}/things.example.com")).json
    first = current["spec"]["versions"][0]
    current["spec"]["versions"] = [{**first, "storage": False, "served": False}, {**first, "name": "v1"}]

    changed = await ask(server, "PUT", f"{DEFINITIONS}/things.example.com", current)

    assert changed.status == 200
    assert (await ask(server, "GET", f"{THINGS}/a")).json["apiVersion"] == "example.com/v1"
    assert (await ask(server, "GET", old)).status == 404
    kept = (await ask(server, "GET", f"{DEFINITIONS}/things.example.com")).json
    assert kept["status"]["storedVersions"] == ["v1beta1", "v1"]


async def test_a_kind_has_one_definition_in_its_group() -> None:
    """The second definition of a kind is kept, and not served."""
    server = await server_with()
    second = definition()
    second["metadata"]["name"] = "stuff.example.com"
    second["spec"]["names"] = {"plural": "stuff", "kind": "Thing"}

    await ask(server, "POST", DEFINITIONS, second)

    kept = (await ask(server, "GET", f"{DEFINITIONS}/stuff.example.com")).json
    assert conditions(kept) == {"NamesAccepted": "False", "Established": "False"}
    assert (await ask(server, "GET", "/apis/example.com/v1/stuff")).status == 404
