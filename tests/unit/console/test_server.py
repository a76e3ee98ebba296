"""The server of the console: what it answers, and what it refuses."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from karpenter.cli.console import explain
from karpenter.cli.planning.input import read_input
from karpenter.cli.why import inquiry_of
from karpenter.cloud.catalogs.load import load_catalog
from karpenter.console.server import POLICY, ConsoleServer, FixedSource, MessageLog
from karpenter.console.state import (
    ConsoleDecision,
    ConsoleDocument,
    PlanSummary,
    Snapshot,
    SnapshotBuilder,
    frame_between,
)
from karpenter.console.whatif import pool_manifest, what_if
from karpenter.operator.options import parse_settings
from tests.unit.console.clusters import NOON, inquiry, small_cluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from karpenter.why.answer import Inquiry


ROOT = Path(__file__).parents[3]


class Page:
    """A server, and a client of it."""

    def __init__(self, server: ConsoleServer, session: aiohttp.ClientSession, source: FixedSource) -> None:
        self.url = server.url
        self.session = session
        self.source = source

    async def ask(self, path: str, method: str = "GET", **facts: Any) -> tuple[int, Any]:
        """Return the status and the JSON of an answer."""
        async with self.session.request(method, self.url + path, **facts) as answer:
            return answer.status, await answer.json()


@asynccontextmanager
async def serving(asked: Inquiry | None, document: ConsoleDocument | None = None) -> AsyncIterator[Page]:
    snapshot = SnapshotBuilder().build(asked.view, asked.catalog) if asked is not None else None
    if document is None:
        assert snapshot is not None
        document = ConsoleDocument(mode="plan", title="t", at=NOON, snapshot=snapshot)
    source = FixedSource(document, (lambda _: asked) if asked is not None else None)
    async with ConsoleServer(source, explain=explain) as server, aiohttp.ClientSession() as session:
        yield Page(server, session, source)


async def test_the_page_and_its_files(tmp_path: Path) -> None:
    """The page is served with every file that it names, under a policy without inline code."""
    async with serving(inquiry(small_cluster(), tmp_path)) as page:
        async with page.session.get(page.url) as answer:
            text = await answer.text()
            assert answer.headers["Content-Security-Policy"] == POLICY
        for name in ("app.js", "map.js", "model.js", "layout.js", "views.js", "console.css"):
            async with page.session.get(f"{page.url}assets/{name}") as answer:
                assert answer.status == 200
                assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "unsafe" not in POLICY
    assert "http" not in POLICY
    assert 'src="assets/app.js"' in text


@pytest.mark.parametrize(
    ("path", "headers", "problem"),
    [
        pytest.param(
            "document", {"Host": "evil.example"}, "loopback name", id="another name of this machine"
        ),
        pytest.param("document", {"Host": "127.0.0.1"}, "loopback name", id="another port"),
        pytest.param("document", {"Origin": "https://evil.example"}, "another page", id="another page asks"),
        pytest.param("../wrong/document", {}, "URL that karpenter console has printed", id="another token"),
        pytest.param("../document", {}, "URL that karpenter console has printed", id="no token"),
    ],
)
async def test_others_are_refused(path: str, headers: dict[str, str], problem: str, tmp_path: Path) -> None:
    """Only who has the URL, and reaches the server by a loopback name, is answered."""
    async with serving(inquiry(small_cluster(), tmp_path)) as page:
        status, found = await page.ask(path, headers=headers)

    assert (status, problem in found["error"]) == (403, True)


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_nothing_can_be_written(method: str, tmp_path: Path) -> None:
    """There is no way to change anything."""
    async with serving(inquiry(small_cluster(), tmp_path)) as page:
        assert (await page.ask("document", method))[0] == 405


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("OPTIONS *", id="the server as a whole"),
        pytest.param("CONNECT 127.0.0.1:443", id="a tunnel"),
        pytest.param("CONNECT /", id="a tunnel to a path"),
    ],
)
async def test_a_request_without_a_path(line: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What names no path is refused in a sentence, with the headers of every answer."""
    async with serving(inquiry(small_cluster(), tmp_path)) as page:
        host = page.url.split("/")[2]
        reader, writer = await asyncio.open_connection("127.0.0.1", int(host.rpartition(":")[2]))
        writer.write(f"{line} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        head = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)).decode()
        writer.close()

    assert head.startswith("HTTP/1.1 400 ")
    assert f"Content-Security-Policy: {POLICY}" in head
    assert not caplog.records


@pytest.mark.parametrize("line", ["GET * HTTP/1.1", "GET / HTTP/9.9", "\x00", "GET"])
async def test_what_is_no_request(line: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What is no HTTP at all is answered with 400, and no traceback is written."""
    async with serving(inquiry(small_cluster(), tmp_path)) as page:
        port = int(page.url.split("/")[2].rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"{line}\r\n\r\n".encode())
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
        writer.close()

    assert b" 400 " in head
    assert not caplog.records


@pytest.mark.parametrize("name", ["../server.py", "..%2Fserver.py", "missing.js"])
async def test_no_other_file_is_served(name: str, tmp_path: Path) -> None:
    """Only the files of the page are."""
    async with (
        serving(inquiry(small_cluster(), tmp_path)) as page,
        page.session.get(f"{page.url}assets/{name}", allow_redirects=False) as answer,
    ):
        assert answer.status in {403, 404}


async def test_why_has_the_words_of_the_command(tmp_path: Path) -> None:
    """A click is answered as karpenter why answers; of what is not there, one sentence says so."""
    asked = inquiry(small_cluster(), tmp_path)
    async with serving(asked) as page:
        status, found = await page.ask("why?object=node/n")
        missing = await page.ask("why?object=node/x")

    assert status == 200
    assert found["answer"] == explain(asked, "node/n").answer
    assert missing == (404, {"error": "there is no node x"})


async def test_a_nodepool_has_limits_budgets_and_prices(tmp_path: Path) -> None:
    """What a NodePool may buy is listed from the cheapest on."""
    async with serving(inquiry(small_cluster(), tmp_path)) as page:
        _, found = await page.ask("pool?name=default")

    assert found["limits"] == {"cpu": "4 of 8"}
    assert found["budgets"] == ["100%"]
    assert [each["type"] for each in found["cheapest"]] == ["four", "big"]
    assert found["cheapest"][0]["price"] == 0.1


async def test_what_if_answers_with_the_difference(tmp_path: Path) -> None:
    """A NodePool that may buy spot saves three quarters of the machine, and nothing is changed by asking."""
    asked = inquiry(small_cluster()[:-1], tmp_path)
    manifest = pool_manifest(asked.view.pools["default"]).replace(
        "- on-demand", "- on-demand\n        - spot"
    )
    async with serving(asked) as page:
        _, found = await page.ask("whatif", "POST", data=manifest.encode())

    assert (found["before"]["hourly"], found["after"]["hourly"]) == (0.1, 0.025)
    assert found["after"]["evictions"] == 2
    assert [(each["capacityType"], each["before"], each["after"]) for each in found["machines"]] == [
        ("on-demand", 1, 0),
        ("spot", 0, 1),
    ]


CLASS = """
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  role: nodes
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {a: b}}]
  securityGroupSelectorTerms: [{tags: {a: b}}]
  blockDeviceMappings:
    - {deviceName: /dev/xvda, rootVolume: true, ebs: {volumeSize: %s, volumeType: gp3}}
"""


@pytest.mark.parametrize(
    ("size", "dearer"),
    [pytest.param("1000Gi", True, id="a larger volume"), pytest.param("1000XX", False, id="no size")],
)
def test_a_node_class_can_be_tried(size: str, dearer: bool) -> None:
    """An EC2NodeClass is held against its schema, and what its volumes cost is in the difference."""
    found = read_input([str(ROOT / "examples" / "inflate")])
    asked = inquiry_of(found.view, load_catalog("aws"), parse_settings({}), NOON)

    tried = what_if(asked, CLASS % size)

    if dearer:
        assert tried.before is not None
        assert tried.after is not None
        assert tried.after.monthly > tried.before.monthly + 70
    else:
        assert any("volumeSize" in each for each in tried.problems)


@pytest.mark.parametrize(
    ("manifest", "problem"),
    [
        pytest.param("", "there is no NodePool", id="nothing"),
        pytest.param("a: [", "what-if", id="no YAML"),
        pytest.param("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n", "only NodePools", id="another kind"),
        pytest.param(
            "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: a}\nspec: {}\n",
            "template",
            id="not whole",
        ),
    ],
)
async def test_a_manifest_that_cannot_be_used(manifest: str, problem: str, tmp_path: Path) -> None:
    """What is wrong with a manifest is said, and nothing is asked of the solver."""
    async with serving(inquiry(small_cluster(), tmp_path)) as page:
        _, found = await page.ask("whatif", "POST", data=manifest.encode())

    assert any(problem in each for each in found["problems"])
    assert found["before"] is None


async def test_a_saved_plan_has_nothing_to_ask() -> None:
    """Without a cluster the page says so."""
    document = ConsoleDocument(mode="plan", title="t", at=NOON, snapshot=Snapshot())
    async with serving(None, document) as page:
        status, found = await page.ask("why?object=node/n")
        _, shown = await page.ask("document")

    assert (status, found["error"]) == (404, "the page shows a saved plan, and its cluster is not at hand")
    assert shown["features"] == {"why": False, "whatif": False}


async def test_a_time_that_is_none_is_refused(tmp_path: Path) -> None:
    """The moment that is asked about is a time."""
    async with serving(inquiry(small_cluster(), tmp_path)) as page:
        status, found = await page.ask("why?object=node/n&at=soon")

    assert (status, "soon" in found["error"]) == (400, True)


async def test_events_come_in_order_and_again_after_a_break(tmp_path: Path) -> None:
    """A page gets every message since its document, also one that comes back after a lost connection."""
    async with serving(inquiry(small_cluster(), tmp_path)) as page:
        _, document = await page.ask("document")
        for number in (1.0, 2.0):
            page.source.add_plan(PlanSummary(at=NOON, hourly=number))
        async with page.session.get(f"{page.url}events?since={document['revision']}") as answer:
            lines = [(await answer.content.readline()).decode().strip() for _ in range(8)]
        async with page.session.get(f"{page.url}events", headers={"Last-Event-ID": "1"}) as answer:
            again = (await answer.content.readline()).decode().strip()

    assert [line for line in lines if line.startswith(("id", "event"))] == [
        "id: 1",
        "event: plan",
        "id: 2",
        "event: plan",
    ]
    assert [json.loads(line[6:])["hourly"] for line in lines if line.startswith("data")] == [1.0, 2.0]
    assert again == "id: 2"


def test_a_page_that_was_away_too_long_begins_anew() -> None:
    """Messages are kept for a while; a page that needs older ones loads its document again."""
    log = MessageLog()
    for _ in range(600):
        log.send("decision", ConsoleDecision(at=NOON, kind="event", title="t"))

    assert log.subscribe(50) is None
    assert log.subscribe(700) is None
    assert isinstance(log.subscribe(600), asyncio.Queue)


async def test_a_page_that_does_not_read_is_dropped() -> None:
    """One page that hangs does not hold messages for ever."""
    log = MessageLog()
    assert log.subscribe(0) is not None
    for _ in range(500):
        log.send("decision", ConsoleDecision(at=NOON, kind="event", title="t"))

    assert log.listeners == 0


async def test_costs_are_those_of_the_moment(tmp_path: Path) -> None:
    """What workloads cost is told of the last moment, and of the one that is asked about."""
    asked = inquiry(small_cluster(), tmp_path)
    there = SnapshotBuilder(team_label="app").build(asked.view, asked.catalog)
    later = frame_between(Snapshot(), there, NOON + timedelta(seconds=1))
    document = ConsoleDocument(
        mode="record", title="t", at=NOON, snapshot=Snapshot(), frames=(later,), team_label="app"
    )
    async with serving(asked, document) as page:
        _, last = await page.ask("costs")
        _, first = await page.ask("costs?at=2026-03-02T12:00:00Z")
        status, refused = await page.ask("costs?at=noon")

    assert last["total"]["hourly"] == there.bill.hourly > first["total"]["hourly"] == 0
    assert [each["name"] for each in last["workloads"]] == ["default/web"]
    assert last["overhead"]["monthly"] > 0
    assert last["teamLabel"] == "app"
    assert (status, "noon" in refused["error"]) == (400, True)
