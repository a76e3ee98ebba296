"""A flight record of another person: reading it opens nothing and starts nothing."""

from __future__ import annotations

import socket
import subprocess
from contextlib import suppress

import msgspec
import pytest

from karpenter.replay.record import Unreadable
from karpenter.replay.replay import Replay

BEGUN = {"line": "begun", "format": 3, "version": "1", "at": "2026-01-01T00:00:00Z", "serves": []}


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every attempt to leave the process."""
    tried: list[str] = []

    def note(*args: object, **_: object) -> None:
        tried.append(repr(args))
        raise OSError("not from a record")

    for where, name in ((socket.socket, "connect"), (socket, "getaddrinfo"), (subprocess, "Popen")):
        monkeypatch.setattr(where, name, note)
    return tried


@pytest.mark.parametrize(
    "line",
    [
        pytest.param({"line": "seen", "kind": "Pod", "object": {"a": "$(reboot)"}}, id="a pod"),
        pytest.param({"line": "seen", "kind": "os.system", "object": {}}, id="a kind that is a function"),
        pytest.param({"line": "asked", "number": 1, "question": "__import__", "facts": {}}, id="a question"),
        pytest.param({"line": "sold", "types": [{"name": "http://169.254.169.254/"}]}, id="an address"),
        pytest.param({"line": "done", "effect": {"url": "file:///etc/passwd"}}, id="a file"),
        pytest.param({"line": "../../etc/passwd"}, id="a line of another sort"),
    ],
)
def test_nothing_leaves_the_process(alone: list[str], line: dict[str, object]) -> None:
    """A line is data: it is replayed, or the record is refused."""
    lines = [msgspec.json.encode(each) + b"\n" for each in (BEGUN, line)]
    with suppress(Unreadable):
        list(Replay().run(lines))

    assert alone == []
