"""Logs of the operator that runs with the cluster: its pod stands for a process with a log file."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from karpenter_local.apiserver.server import Server
from karpenter_local.apiserver.verbs.logs import FollowedLog
from tests.unit.local.apiserver.asking import PODS, Answer, ask, request

NOW = datetime.now(UTC)
LINES = [f'{{"message":"{n}","time":"{(NOW - timedelta(hours=10 - n)).isoformat()}"}}' for n in range(4)]


@pytest.fixture
async def server(tmp_path: Path) -> Server:
    """A server with a pod that has a log and one that has none."""
    log = tmp_path / "log"
    log.write_text("\n".join([*LINES, "half a line"]))
    found = Server()
    found.backend.log_of = lambda pod: log if pod["metadata"]["name"] == "a" else None
    for name in "ab":
        body = {"metadata": {"name": name}, "spec": {"containers": [{"name": "main", "image": "x"}]}}
        await ask(found, "POST", PODS, body)
    return found


def numbers(answer: Answer) -> str:
    return "".join(str(LINES.index(line)) for line in answer.raw.decode().splitlines())


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        pytest.param({}, "0123", id="all whole lines"),
        pytest.param({"tailLines": 2}, "23", id="the last two"),
        pytest.param({"tailLines": 0}, "", id="none"),
        pytest.param({"sinceSeconds": 30600}, "23", id="of the last hours"),
        pytest.param(
            {"sinceTime": (NOW - timedelta(hours=7, minutes=30)).isoformat()}, "3", id="since a time"
        ),
        pytest.param({"sinceSeconds": 30600, "tailLines": 1}, "3", id="the last of them"),
    ],
)
async def test_lines_of_a_log(server: Server, query: dict[str, object], expected: str) -> None:
    """The options of kubectl logs select lines."""
    answer = await ask(server, "GET", f"{PODS}/a/log", **query)

    assert (answer.status, numbers(answer)) == (200, expected)


async def test_a_pod_without_a_log(server: Server) -> None:
    """A pod that runs nothing says so; one that is not there is not found; nothing ran before."""
    other, missing = await ask(server, "GET", f"{PODS}/b/log"), await ask(server, "GET", f"{PODS}/c/log")
    before = await ask(server, "GET", f"{PODS}/a/log", previous="true")

    assert (other.status, missing.status, before.status) == (501, 404, 400)
    assert "pod b has no logs" in other.message


async def test_a_log_that_is_followed(server: Server, tmp_path: Path) -> None:
    """What is there comes first, and then what is written."""
    stream = await server.answer(request("GET", f"{PODS}/a/log", follow="true", tailLines=1))
    assert isinstance(stream, FollowedLog)
    batches = stream.batches()

    first = await anext(batches)
    with (tmp_path / "log").open("a") as file:
        file.write(" more\nnext\n")
    then = await anext(batches)
    await batches.aclose()

    assert (list(first), list(then)) == ([LINES[3].encode()], [b"half a line more", b"next"])
