"""The flight recorder in a living cluster: what was decided can be decided again, and comes out the same."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from karpenter.cli import main
from karpenter.replay.replay import Replay
from karpenter_local.sandbox.sandbox import Sandbox
from karpenter_local.virtual import run_virtual

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


SECRET = "hunter2"


def record(path: Path, *, size: int) -> None:
    """Let machines come, be consolidated and go, and have it written down."""

    async def scenario() -> None:
        settings = {"flight-record": str(path), "flight-record-size": str(size)}
        async with Sandbox(name="test", settings=settings) as sandbox:
            await sandbox.create_node_pool(disruption={"consolidateAfter": "5s"})
            notes = {"annotations": {"example.com/note": SECRET, "karpenter.sh/do-not-disrupt": "false"}}
            await sandbox.deploy(replicas=6, metadata={"labels": {"app": "inflate"}, **notes})
            await sandbox.deploy("huge", replicas=1, cpu="9000")
            await sandbox.deploy("more", replicas=3, cpu="2")

            async def all_run() -> bool:
                return await sandbox.running_pods() == 9

            await sandbox.until(all_run)
            await sandbox.scale("inflate", 1)
            await asyncio.sleep(90)
            await sandbox.scale("more", 0)
            await asyncio.sleep(60)

    run_virtual(scenario())


@pytest.fixture(scope="module")
def flight(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A record of a few minutes."""
    path = tmp_path_factory.mktemp("flight") / "flight.jsonl"
    record(path, size=2**30)
    return path


def replay(*arguments: str) -> Result:
    """Run ``karpenter replay`` with these arguments."""
    return CliRunner().invoke(main, ["replay", *arguments])


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def altered(path: Path, tmp_path: Path, change: Callable[[dict[str, Any]], None]) -> str:
    """Return a copy of a record in which lines were changed."""
    lines = lines_of(path)
    for line in lines:
        change(line)
    copy = tmp_path / "altered.jsonl"
    copy.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return str(copy)


def test_every_decision_comes_out_the_same(flight: Path) -> None:
    """Nodes to launch, nodes to disrupt and validations are decided again as they were."""
    done = replay(str(flight), "-o", "json")
    found = json.loads(done.stdout)

    assert done.exit_code == 0, done.stdout
    assert {each["result"] for each in found} == {"same"}
    assert {each["question"] for each in found} == {"provision", "disrupt", "validate"}
    assert any("new machines" in each["summary"] and each["summary"][0] != "0" for each in found)


def test_text_for_people(flight: Path) -> None:
    """A table of the decisions, and a sentence about all."""
    done = replay(str(flight))

    assert "valid for 1 machines" in done.stdout
    assert done.stdout.splitlines()[-1].endswith(" the same, 0 different")


def test_what_was_seen_was_tampered_with(flight: Path, tmp_path: Path) -> None:
    """With larger pods than there were, other machines are bought, and that is shown."""

    def enlarge(line: dict[str, Any]) -> None:
        if line["line"] == "seen" and line["kind"] == "Pod":
            for container in line["object"]["spec"]["containers"]:
                container["resources"]["requests"]["cpu"] = "3"

    done = replay(altered(flight, tmp_path, enlarge))

    assert done.exit_code == 1
    assert "different" in done.stdout
    assert "claims[0]" in done.stdout


def test_what_was_decided_was_tampered_with(flight: Path, tmp_path: Path) -> None:
    """An answer that was not given is found out, with its place and both sides."""

    def lie(line: dict[str, Any]) -> None:
        if line["line"] == "answered" and line["outcome"].get("considered"):
            line["outcome"]["considered"] += 1

    done = replay(altered(flight, tmp_path, lie))

    assert done.exit_code == 1
    assert "  considered: was " in done.stdout


def test_what_was_cut_short_counts_as_no_difference(flight: Path, tmp_path: Path) -> None:
    """A decision that ran out of time may come out otherwise."""

    def cut(line: dict[str, Any]) -> None:
        if line["line"] == "answered" and line["outcome"].get("considered"):
            line["cut"] = True
            line["outcome"]["considered"] += 1

    done = replay(altered(flight, tmp_path, cut))

    assert done.exit_code == 0
    assert "cut short by time" in done.stdout.splitlines()[-1]


def test_nothing_private_is_written(flight: Path) -> None:
    """Annotations of people stay out of the record; those that decisions read are in it."""
    text = flight.read_text()

    assert SECRET not in text
    assert "karpenter.sh/do-not-disrupt" in text


def test_what_was_done_is_told(flight: Path) -> None:
    """The record says what was carried out, on what, and why."""
    done = [line for line in lines_of(flight) if line["line"] == "done"]

    assert {"CreateClaim", "Launch", "Amend", "DeleteObject", "Terminate"} <= {
        each["effect"] for each in done
    }
    assert all(each["because"] for each in done)


def test_a_record_is_bounded(tmp_path: Path) -> None:
    """Past its limit a record goes on in a new file that stands by itself; only the one before is kept."""
    path = tmp_path / "flight.jsonl"
    record(path, size=1)
    older = tmp_path / "flight.jsonl.1"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["flight.jsonl", "flight.jsonl.1"]

    for each in (path, older):
        with each.open("rb") as lines:
            results = [one.result for one in Replay().run(lines)]
        assert results
        assert set(results) == {"same"}


def test_why_answers_from_the_record_of_an_operator(flight: Path) -> None:
    """A pod that waits at the end of a record is explained, and a node tells that it was bought for pods."""
    seen = [line for line in lines_of(flight) if line["line"] == "seen"]
    names = {line["object"]["metadata"]["name"] for line in seen if line["kind"] == "Pod"}
    huge = next(name for name in names if name.startswith("huge-"))
    refused = CliRunner().invoke(main, ["why", f"pod/{huge}", "--record", str(flight), "-o", "json"])
    assert refused.exit_code == 1
    assert (
        json.loads(refused.stdout)["nodePools"][0]["nearest"] == "needs 8744.1 more cpu on the largest type"
    )

    nodes = sorted({line["object"]["metadata"]["name"] for line in seen if line["kind"] == "Node"})
    answers = [CliRunner().invoke(main, ["why", f"node/{name}", "--record", str(flight)]) for name in nodes]
    stayed = [each.stdout for each in answers if each.exit_code == 0]
    assert stayed
    assert all("its NodeClaim was created at 2025-01-01T00:" in " ".join(each.split()) for each in stayed)
