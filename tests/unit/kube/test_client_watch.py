"""Lines become events; errors end the watch; a broken object does not."""

import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from karpenter.api.pod import Pod
from karpenter.kube.client import Bookmark, UndecodableObject, WatchChange, WatchEvent, read_events
from karpenter.kube.errors import Gone, UndecodableResponse
from karpenter.kube.targets import ObjectIdentity, target_of
from karpenter.kube.transport import Request

ASKED = Request(method="GET", path="/api/v1/pods")


async def lines_of(*lines: bytes) -> AsyncGenerator[bytes, None]:
    for line in lines:
        yield line


def line(type_: str, **item: Any) -> bytes:
    return json.dumps({"type": type_, "object": item}).encode()


async def read(*lines: bytes) -> list[WatchEvent[Pod]]:
    return [event async for event in read_events(target_of(Pod), ASKED, lines_of(*lines))]


async def test_a_change_says_which_object() -> None:
    """Type, identity and object of each change are read."""
    (event,) = await read(
        line("MODIFIED", metadata={"name": "a", "namespace": "b", "uid": "u", "resourceVersion": "7"})
    )

    assert isinstance(event, WatchChange)
    assert (event.type, event.which, event.object.key) == (
        "MODIFIED",
        ObjectIdentity("b", "a", "u", "7"),
        "b/a",
    )


async def test_what_is_known_is_not_read_again() -> None:
    """The event of a write that was answered says how far the watch is; its deletion and others are read."""
    known = {("u", "7"), ("u", "9")}
    lines = [
        line("MODIFIED", metadata={"name": "a", "uid": "u", "resourceVersion": version}) for version in "787"
    ]
    gone = line("DELETED", metadata={"name": "a", "uid": "u", "resourceVersion": "9"})

    first, *others = [
        event async for event in read_events(target_of(Pod), ASKED, lines_of(*lines, gone), known)
    ]

    assert first == Bookmark("7")
    assert [each.which.version for each in others if isinstance(each, WatchChange)] == ["8", "7", "9"]
    assert known == {("u", "9")}


async def test_empty_lines_are_skipped() -> None:
    """A keep-alive is no event."""
    assert len(await read(b"", line("ADDED", metadata={"name": "a"}), b"")) == 1


async def test_an_error_ends_the_watch() -> None:
    """The server's Status is raised as the error it is."""
    with pytest.raises(Gone, match="too old"):
        await read(line("ERROR", kind="Status", code=410, reason="Expired", message="too old"))


async def test_a_broken_object_is_an_event() -> None:
    """An object that cannot be read is reported with its identity, and the watch goes on."""
    broken, fine = await read(
        line("ADDED", metadata={"name": "a", "resourceVersion": "7"}, spec=1),
        line("ADDED", metadata={"name": "b"}),
    )

    assert isinstance(broken, UndecodableObject)
    assert (broken.which.name, broken.which.version) == ("a", "7")
    assert isinstance(fine, WatchChange)


@pytest.mark.parametrize(
    "garbage",
    [
        pytest.param(b"<html>", id="not JSON"),
        pytest.param(b'{"type": "EXPLODED", "object": {}}', id="an unknown type"),
        pytest.param(b'{"type": "BOOKMARK", "object": 7}', id="a bookmark without metadata"),
        pytest.param(b'{"type": "ADDED"', id="half a line"),
        pytest.param(b'{"type": "\xff", "object": {}}', id="a type that is no UTF-8"),
        pytest.param(
            b'{"type": "ADDED", "object": {"metadata": {"name": "\xff"}}}', id="a name that is no UTF-8"
        ),
        pytest.param(b'{"type": "ERROR", "object": {"message": "\xff"}}', id="an error that is no UTF-8"),
        pytest.param(b'{"type": "ADDED", "object": ' + b"[" * 99_999, id="brackets without end"),
        pytest.param(
            b'{"type": "ADDED", "object": {"x": ' + b"[" * 99_999 + b"]" * 99_999 + b"}}",
            id="an object nested too deep",
        ),
    ],
)
async def test_garbage_ends_the_watch(garbage: bytes) -> None:
    """A line that is no event means that we do not know what we missed."""
    with pytest.raises(UndecodableResponse):
        await read(garbage)
