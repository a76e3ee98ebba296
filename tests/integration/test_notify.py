"""``karpenter notify`` as users type it: a cluster, and a webhook on loopback."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from click.testing import CliRunner, Result

from karpenter.api.cluster import Event
from karpenter.cli.notify import notify
from karpenter_local import kubeconfig
from tests.integration.process import connected
from tests.integration.serving import Running

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

REAL_TIME = True


class Hook:
    """A webhook that answers as it is told, and keeps what it was sent."""

    def __init__(self) -> None:
        self.answers: list[int] = []
        self.bodies: list[dict[str, Any]] = []
        self.url = ""

    async def answer(self, request: web.Request) -> web.Response:
        self.bodies.append(await request.json())
        return web.Response(status=self.answers.pop(0) if self.answers else 200)


@pytest.fixture
async def hook() -> AsyncIterator[Hook]:
    made = Hook()
    application = web.Application()
    application.router.add_post("/services/SECRET", made.answer)
    async with TestServer(application) as server:
        made.url = f"http://127.0.0.1:{server.port}/services/SECRET"
        yield made


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Path]:
    """Return the kubeconfig of a cluster in which three things happened."""
    running = Running()
    assert running.front is not None
    front = running.front
    path = tmp_path / "kubeconfig"
    authority = front.certificates.authority
    kubeconfig.write(
        path, kubeconfig.render(name="live", url=front.url, authority=authority, token=front.token)
    )
    asyncio.run(_fill(path))
    yield path
    running.stop()


async def _fill(path: Path) -> None:
    now = datetime.now(UTC)
    told = (
        ("new", "SpotInterrupted", "karpenter", now),
        ("old", "SpotInterrupted", "karpenter", now - timedelta(hours=2)),
        ("other", "SpotInterrupted", "kubelet", now),
    )
    async with connected(path) as client:
        for name, reason, component, when in told:
            body = {
                "metadata": {"name": name},
                "involvedObject": {"kind": "Node", "name": name},
                "reason": reason,
                "message": "taken away",
                "type": "Warning",
                "source": {"component": component},
                "reportingComponent": component,
                "lastTimestamp": when.strftime("%Y-%m-%dT%H:%M:%SZ"),
            }
            await client.create(Event, body, namespace="default")


async def typed(cluster: Path, *words: str, url: str = "") -> Result:
    """Type the command, with a URL in the environment."""
    environment = {"KARPENTER_NOTIFY_URL": url}
    arguments = ["--once", "--kubeconfig", str(cluster), *words]
    return await asyncio.to_thread(CliRunner().invoke, notify, arguments, env=environment)


async def test_a_dry_run_prints_what_happened_lately(cluster: Path) -> None:
    """What the operator told in the last hour, and nothing of others; no URL is needed."""
    result = await typed(cluster, "--dry-run", "--cluster", "blue")
    [body] = [json.loads(line) for line in result.stdout.splitlines()]

    assert [each["name"] for each in body["notifications"]] == ["new"]
    assert (body["cluster"], result.exit_code) == ("blue", 0)


async def test_a_message_is_sent_again(cluster: Path, hook: Hook) -> None:
    """A webhook that is out of order for a moment gets it all the same."""
    hook.answers = [503]
    result = await typed(cluster, "--form", "slack", url=hook.url)

    assert result.exit_code == 0
    assert [each["text"] for each in hook.bodies] == [
        ":warning: SpotInterrupted node/new: taken away",
        ":warning: SpotInterrupted node/new: taken away",
    ]


async def test_a_message_that_is_refused_is_said(cluster: Path, hook: Hook) -> None:
    """It is not sent again, the exit code is 1, and the URL stays a secret."""
    hook.answers = [404]
    result = await typed(cluster, url=hook.url)

    assert (result.exit_code, len(hook.bodies)) == (1, 1)
    assert "warning: a message was not delivered: 127.0.0.1 answers with HTTP 404" in result.stderr
    assert "SECRET" not in result.output


@pytest.mark.parametrize(
    ("words", "url", "problem"),
    [
        pytest.param((), "", "KARPENTER_NOTIFY_URL: there is no URL", id="no URL"),
        pytest.param((), "hooks/SECRET", "what stands there is not a URL", id="half a URL"),
        pytest.param((), "http://[SECRET", "what stands there is not a URL", id="no address"),
        pytest.param(("--dry-run", "--quiet-for", "soon"), "", "--quiet-for: ", id="no duration"),
        pytest.param(
            ("--dry-run", "--reason", "SpotInterupted"), "", "did you mean SpotInterrupted?", id="a typo"
        ),
    ],
)
async def test_what_cannot_be_used(tmp_path: Path, words: tuple[str, ...], url: str, problem: str) -> None:
    """It is refused before a cluster is asked, without a word of the URL."""
    result = await typed(tmp_path / "none", *words, url=url)

    assert result.exit_code == 2
    assert problem in result.stderr
    assert "SECRET" not in result.output
