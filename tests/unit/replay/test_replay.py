"""Records that are none, or not whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from karpenter.cli import main
from karpenter.replay.record import Unreadable
from karpenter.replay.replay import Replay

if TYPE_CHECKING:
    from pathlib import Path

BEGUN = b'{"line":"begun","format":3,"version":"0.0.1","at":"2025-01-01T00:00:00Z","serves":[]}\n'
SOLD = (
    b'{"line":"sold","number":1,"new":[],"types":[],"by_pool":{},'
    b'"rest":{"well_known":[],"restricted_domains":[],"reservation_label":""}}\n'
)
ASKED = (
    b'{"line":"asked","number":1,"question":"provision",'
    b'"now":"2025-01-01T00:00:00Z","catalog":1,"given":{"memory":{}}}\n'
)


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        pytest.param([], "line 1: there is nothing in the record", id="nothing"),
        pytest.param(
            [b"\xff\xd8\xff\xe0"],
            "line 1: a record begins with a whole line, and this has none",
            id="a picture",
        ),
        pytest.param([b"hello\n"], "line 1: this is not JSON", id="text"),
        pytest.param(
            [b'{"x":' + b"[" * 9999 + b"\n"], "line 1: this is nested too deep", id="brackets without end"
        ),
        pytest.param(
            [b'{"kind":"Pod"}\n'], "line 1: this is no line of a flight record: ", id="something else"
        ),
        pytest.param(
            [b'{"line":"thought"}\n'], "line 1: line: invalid value 'thought'", id="a line of another sort"
        ),
        pytest.param([ASKED], "line 1: a record begins with what it is", id="no beginning"),
        pytest.param(
            [BEGUN.replace(b":3,", b":1,")],
            "the record has format 1, and this version reads format 3: replay it with karpenter 0.0.1",
            id="of another format",
        ),
        pytest.param(
            [BEGUN, ASKED],
            "line 2: the catalog 1 that it refers to is not in the record",
            id="a catalogue that is not there",
        ),
        pytest.param(
            [BEGUN, SOLD, ASKED.replace(b"provision", b"wonder")],
            "line 3: there is no question wonder; expected one of provision, disrupt, validate",
            id="no such question",
        ),
        pytest.param(
            [BEGUN, SOLD, ASKED],
            "line 3: the question provision is not whole: missing a required argument: 'settings'",
            id="half a question",
        ),
        pytest.param(
            [BEGUN, SOLD.replace(b'"types":[]', b'"types":[4]')],
            "line 2: something is missing that it refers to",
            id="a type that is not there",
        ),
        pytest.param(
            [BEGUN, b'{"line":"seen","kind":"Dragon","object":{}}\n'],
            "line 2: there is no kind Dragon",
            id="no such kind",
        ),
        pytest.param(
            [BEGUN, b'{"line":"seen","kind":"Pod","object":{"spec":7}}\n'],
            "line 2: spec: expected an object, got a whole number",
            id="no pod",
        ),
        pytest.param(
            [BEGUN, b'{"line":"answered","number":3,"outcome":{}}\n'],
            "line 2: it answers decision 3, which was not asked for",
            id="no question",
        ),
    ],
)
def test_what_is_no_record(lines: list[bytes], problem: str) -> None:
    """The line that does not belong in a record is named."""
    with pytest.raises(Unreadable, match=problem):
        list(Replay().run(lines))


def test_a_line_that_is_not_whole() -> None:
    """The last line may be torn when the operator was killed; that is no mistake."""
    player = Replay()

    assert list(player.run([BEGUN, ASKED[:20]])) == []
    assert player.torn


def test_other_versions(tmp_path: Path) -> None:
    """A record of another version, and one that ends in the middle of a line, are read with a note."""
    file = tmp_path / "flight"
    file.write_bytes(BEGUN + ASKED[:20])
    done = CliRunner().invoke(main, ["replay", str(file)])

    assert done.exit_code == 0
    assert "the last line is not whole" in done.stderr
    assert "the record is of version 0.0.1" in done.stderr
    assert "0 decisions: 0 the same, 0 different" in done.stdout


@pytest.mark.parametrize("content", [None, b"hello\n"], ids=["no file", "no record"])
def test_what_is_refused(tmp_path: Path, content: bytes | None) -> None:
    """What cannot be read is one line."""
    file = tmp_path / "flight"
    if content is not None:
        file.write_bytes(content)
    done = CliRunner().invoke(main, ["replay", str(file)])

    assert done.exit_code == 2
    [line] = done.stderr.splitlines()
    assert line.startswith(f"error: {file}: ")
