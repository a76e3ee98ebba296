"""Logs of pods that have a process, as kubectl asks for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from karpenter.kube.transport import Streaming
from karpenter_local.apiserver.server import Server
from karpenter_local.apiserver.verbs.logs import ContainerLog
from tests.unit.local.apiserver.asking import PODS, ask, request

if TYPE_CHECKING:
    from pathlib import Path

WRITTEN = "of another pod\none\ntwo\nthree\n"
BEGIN = len("of another pod\n")
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}


async def served(path: Path) -> tuple[Server, str]:
    """Return a server with a pod that writes into a file, and the pod's uid."""
    server = Server(seed=1)
    path.write_text(WRITTEN)  # noqa: ASYNC240  a few bytes
    uid = (await ask(server, "POST", PODS, POD)).json["metadata"]["uid"]
    server.backend.container_logs[uid] = ContainerLog(path=path, begin=BEGIN)
    return server, uid


@pytest.mark.parametrize(
    ("query", "text"),
    [
        pytest.param({}, "one\ntwo\nthree\n", id="all of it"),
        pytest.param({"container": "c", "tailLines": 2}, "two\nthree\n", id="its last lines"),
        pytest.param({"tailLines": 0}, "", id="no line"),
        pytest.param({"limitBytes": 5}, "one\nt", id="its first bytes"),
        pytest.param({"timestamps": "false", "previous": "false"}, "one\ntwo\nthree\n", id="no times"),
    ],
)
async def test_a_log_is_text(tmp_path: Path, query: dict[str, Any], text: str) -> None:
    """The answer is what the pod has written, and nothing of the pod before it."""
    server, _ = await served(tmp_path / "log")

    answer = await ask(server, "GET", f"{PODS}/web/log", **query)

    assert (answer.status, answer.raw.decode()) == (200, text)
    assert dict(answer.headers)["content-type"] == "text/plain"


@pytest.mark.parametrize(
    ("name", "query", "status", "message"),
    [
        pytest.param("none", {}, 404, 'pods "none" not found', id="no pod"),
        pytest.param("web", {"timestamps": "true"}, 400, "keeps no times of lines", id="times"),
        pytest.param("web", {"previous": "true"}, 400, 'in pod "web" not found', id="the run before"),
        pytest.param(
            "web", {"tailLines": "-1"}, 400, "tailLines: '-1' is not a whole number", id="minus one"
        ),
    ],
)
async def test_what_a_log_cannot_say(
    tmp_path: Path, name: str, query: dict[str, Any], status: int, message: str
) -> None:
    """What is not known is refused, and not left out."""
    server, _ = await served(tmp_path / "log")

    answer = await ask(server, "GET", f"{PODS}/{name}/log", **query)

    assert answer.status == status
    assert message in answer.message


async def test_a_pod_without_a_process_has_no_log(tmp_path: Path) -> None:
    """Containers are simulated."""
    server, uid = await served(tmp_path / "log")
    del server.backend.container_logs[uid]

    assert (await ask(server, "GET", f"{PODS}/web/log")).status == 501
    server.backend.container_logs[uid] = ContainerLog(text="stands by\n")
    assert (await ask(server, "GET", f"{PODS}/web/log")).raw == b"stands by\n"


async def test_a_log_is_followed(tmp_path: Path) -> None:
    """Lines come as they are written, whole, until the pod ends."""
    path = tmp_path / "log"
    server, uid = await served(path)
    stream = await server.handle(request("GET", f"{PODS}/web/log", follow="true", tailLines=1))
    assert isinstance(stream, Streaming)

    assert await anext(stream.lines) == b"three"
    with path.open("a") as file:
        file.write("four\nfi")
    assert await anext(stream.lines) == b"four"
    with path.open("a") as file:
        file.write("ve\n")
    assert await anext(stream.lines) == b"five"
    del server.backend.container_logs[uid]
    assert [line async for line in stream.lines] == []
