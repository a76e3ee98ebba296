"""The page as one file, and the files that it is made of."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from importlib import resources
from typing import TYPE_CHECKING

import msgspec
import pytest

from karpenter.cli.console import explain
from karpenter.console.page import SCRIPTS, remembering, render_page, with_answers
from karpenter.console.state import ConsoleDocument, Frame, Snapshot, SnapshotBuilder
from tests.unit.console.clusters import NOON, inquiry, small_cluster

if TYPE_CHECKING:
    from pathlib import Path

ASSETS = resources.files("karpenter.console").joinpath("assets")


def document(folder: Path, title: str = "t") -> ConsoleDocument:
    """Return the document of a small cluster."""
    asked = inquiry(small_cluster(), folder)
    return ConsoleDocument(
        mode="plan", title=title, at=NOON, snapshot=SnapshotBuilder().build(asked.view, asked.catalog)
    )


def test_nothing_is_fetched_from_elsewhere(tmp_path: Path) -> None:
    """The file names no host, and loads nothing."""
    text = render_page(document(tmp_path))

    assert not re.search(r'(?:src|href)="(?!data:)', text)
    assert "import " not in text.split('<script type="module">')[1]


def test_the_policy_names_the_hashes_of_what_is_inside(tmp_path: Path) -> None:
    """A browser runs the script and the style of the file, and nothing else in it."""
    text = render_page(document(tmp_path))
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    for tag in ("style", 'script type="module"'):
        inside = text.split(f"<{tag}>")[1].split(f"</{tag.split()[0]}>")[0]
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy[1]
    assert "unsafe" not in policy[1]


def test_data_cannot_end_its_block(tmp_path: Path) -> None:
    """A name with a tag in it stays data."""
    text = render_page(document(tmp_path, "</script><script>alert(1)</script>"))
    data = text.split('id="document">')[1].split("</script>")[0]

    assert json.loads(data)["title"] == "</script><script>alert(1)</script>"


def test_answers_are_worked_out_beforehand(tmp_path: Path) -> None:
    """What people may click on is answered in the file, in the words of karpenter why."""
    asked = inquiry(small_cluster(), tmp_path)
    found = with_answers(document(tmp_path), asked, explain, go_on=lambda: True)

    assert set(found.answers) == {
        "nodepool/default",
        "node/n",
        "nodeclaim/claim-n",
        "pod/default/late",
        "pod/default/web-5d9c-a",
        "pod/default/web-5d9c-b",
    }
    assert found.answers["node/n"].answer == explain(asked, "node/n").answer
    assert found.pool_details["default"].types == 2


def test_answers_end_when_time_is_up(tmp_path: Path) -> None:
    """A large cluster does not take for ever."""
    asked = inquiry(small_cluster(), tmp_path)
    found = with_answers(document(tmp_path), asked, explain, go_on=lambda: False)

    assert (found.answers, found.pool_details) == ({}, {})


def test_the_same_decision_is_made_once(tmp_path: Path) -> None:
    """Every machine asks what disruption would do with the same cluster."""
    asked = remembering(inquiry(small_cluster(), tmp_path))

    assert asked.disrupt(asked.view) is asked.disrupt(asked.view)
    assert asked.provision(asked.view) is asked.provision(asked.view)


def test_scripts_declare_every_name_once() -> None:
    """They can be put together in one file, where all share one scope."""
    pattern = re.compile(r"^(?:export )?(?:async )?(?:const|let|function|class) (\w+)", re.MULTILINE)
    names = [name for file in SCRIPTS for name in pattern.findall(ASSETS.joinpath(file).read_text())]

    assert len(names) == len(set(names))
    assert {each.name for each in ASSETS.iterdir()} == {*SCRIPTS, "index.html", "console.css"}


@pytest.mark.parametrize("name", ["index.html", "console.css", *SCRIPTS])
def test_files_have_no_inline_code_and_no_other_host(name: str) -> None:
    """The policy of the server allows neither."""
    text = ASSETS.joinpath(name).read_text().replace("http://www.w3.org/2000/svg", "")
    text = re.sub(r"^//.*$", "", text, flags=re.MULTILINE)

    assert not re.search(r"https?://|\son\w+=\"|style=\"|innerHTML|\beval\(", text)


def test_costs_are_worked_out_beforehand(tmp_path: Path) -> None:
    """A record's file has the costs of moments that are spread over it, the last one at least."""
    asked = inquiry(small_cluster(), tmp_path)
    frames = tuple(Frame(at=NOON, bill=Snapshot().bill, title=str(number)) for number in range(100))
    long = msgspec.structs.replace(document(tmp_path), frames=frames)

    found = with_answers(long, asked, explain, go_on=lambda: True).costs
    short = with_answers(long, asked, explain, go_on=lambda: False).costs

    assert len(found) == 25
    assert list(short) == [100]
    assert short[100].total.hourly == long.snapshot.bill.hourly
