"""Files are given to every command in one way: after -f, or without it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from karpenter.cli import main

ROOT = Path(__file__).parents[3]
KWOK, GITOPS = str(ROOT / "examples" / "kwok"), ROOT / "examples" / "gitops"
DEFINITION, LIVE = str(next(GITOPS.glob("cluster*.yaml"))), str(GITOPS / "live.yaml")


@pytest.mark.parametrize(
    ("words", "file"),
    [
        (("plan", "--now", "2026-01-01T00:00:00Z", "-o", "json"), KWOK),
        (("validate",), KWOK),
        (("hash",), KWOK),
        (("convert",), KWOK),
        (("doctor", "-o", "json"), KWOK),
        (("definition", "render", "--cluster-name", "blue"), DEFINITION),
        (("definition", "check", "--cluster-name", "blue", "-o", "json"), DEFINITION),
        (("replay",), "missing.jsonl"),
        (("shadow", "report"), "missing.jsonl"),
        (("top", "--once", "--now", "2026-01-01T00:00:00Z", "-o", "json"), str(ROOT / "examples" / "top")),
    ],
    ids=lambda each: each if isinstance(each, str) else " ".join(each[:2]),
)
def test_a_file_with_and_without_the_option(words: tuple[str, ...], file: str) -> None:
    """-f FILE and FILE are the same."""
    given, named = (CliRunner().invoke(main, [*words, *more]) for more in (("-f", file), (file,)))

    assert (given.exit_code, given.output) == (named.exit_code, named.output)
    assert "No such option" not in given.output
    assert not re.search("unexpected extra argument", named.output)


def test_files_in_both_ways() -> None:
    """They add up."""
    inflate = str(ROOT / "examples" / "inflate")
    counts = [
        len(json.loads(CliRunner().invoke(main, ["validate", "-o", "json", *each]).stdout)["accepted"])
        for each in ([KWOK], [inflate], [KWOK, "-f", inflate])
    ]

    assert counts[0] + counts[1] == counts[2]


def test_a_definition_is_known_among_the_files() -> None:
    """The file that says no kind is the definition; the others are the cluster."""
    words = ["definition", "check", "--cluster-name", "blue", "-o", "json"]
    ways = [[DEFINITION, "-f", LIVE], [LIVE, DEFINITION], ["-f", LIVE, "-f", DEFINITION]]
    found = {CliRunner().invoke(main, [*words, *each]).stdout for each in ways}

    assert len(found) == 1
    assert '"hasCluster": true' in found.pop()


def test_two_definitions() -> None:
    """One is checked at a time."""
    result = CliRunner().invoke(main, ["definition", "check", DEFINITION, "-f", DEFINITION])

    assert result.exit_code == 2
    assert "error: one cluster definition is checked at a time: " in result.stderr
