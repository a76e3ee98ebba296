"""What CI says at its end, and what ``make`` says of itself."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAKE = """#!/bin/sh
echo "made $*"
[ "$1" != infrastructure ] || echo "SKIPPED [2] tests/x.py:7: no provider: none was found"
[ "$1" != "$BROKEN" ]
"""
TOOLS = ("bash", "cat", "date", "dirname", "env", "mktemp", "rm", "sed", "sort", "tee")
HELD = {
    "chart": "tests/unit/chart/test_chart.py",
    "commands": "tests/unit/cli/test_manual.py",
    "crds": "tests/unit/api/crd/test_definitions.py",
    "doctor": "tests/unit/doctor/test_rules.py",
    "man": "tests/unit/cli/test_manual.py",
    "metrics": "tests/unit/cloud/aws/test_metrics_reference.py",
    "settings": "tests/unit/chart/test_docs.py",
    "terraform": "tests/unit/install/test_five_faces.py",
}
"""Where ``make test`` compares what ``make generate`` writes."""


def ci(
    folder: Path, *programs: str, broken: str = "", late: str = "3600"
) -> subprocess.CompletedProcess[str]:
    """Run what CI runs, with a make that makes nothing, on a machine that has these programs."""
    for name in TOOLS:
        (folder / name).symlink_to(str(shutil.which(name)))
    for name in ("make", *programs):
        (folder / name).write_text(MAKE)
        (folder / name).chmod(0o755)
    found = {"PATH": str(folder), "BROKEN": broken, "CI_LATE_AFTER": late, "TMPDIR": str(folder)}
    return subprocess.run(  # noqa: S603  ours
        [str(ROOT / ".ci/run")], env=found, capture_output=True, text=True, check=False
    )


def test_the_last_lines_of_ci_are_what_was_left_out(tmp_path: Path) -> None:
    """Programs that are missing and tests that were skipped are named with their reasons, at the end."""
    done = ci(tmp_path, "terraform")
    said = done.stdout.partition("Left out:\n")[2].splitlines()

    assert done.returncode == 0, done.stderr
    assert "made readme" in done.stdout
    assert [line.partition(": ")[0] for line in said] == [
        "- the real control plane, helm and the tutorials",
        "- browser, cdk, prometheus, terminal and shadow",
        "- tests/x.py:7",
    ]
    assert said[-1] == "- tests/x.py:7: no provider: none was found"


def test_ci_fails_with_its_parts(tmp_path: Path) -> None:
    """A part that fails ends the run, which says nevertheless what was left out until then."""
    done = ci(tmp_path, broken="planted")

    assert done.returncode == 1
    assert "made planted" in done.stdout
    assert "made mutants" not in done.stdout
    assert "left out" in done.stdout.splitlines()[-1].lower()


def test_ci_leaves_out_what_there_is_no_time_for(tmp_path: Path) -> None:
    """After an hour the sample of mutants and the README are left out, and named."""
    done = ci(tmp_path, late="-1")

    assert done.returncode == 0, done.stderr
    assert "made mutants" not in done.stdout
    assert "- make readme: 0 minutes had passed" in done.stdout


def test_help_fits_one_screen() -> None:
    """What can be made is listed on 24 lines of 80 columns."""
    asked = ["make", "--no-print-directory", "help"]
    done = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S603  our own
    lines = done.stdout.splitlines()

    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80


def test_all_that_is_generated_is_compared() -> None:
    """Each part of ``make generate`` has a test that fails where a file is stale."""
    rule = re.search(r"^generate: ([a-z ]+) ##", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert rule is not None

    assert sorted(rule[1].split()) == sorted(HELD)
    assert [path for path in HELD.values() if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("name", sorted(HELD))
def test_comparisons_say_what_to_make(name: str) -> None:
    """The test of a generated file names the target that writes it."""
    assert re.search(rf"make {name}\b|make generate", (ROOT / HELD[name]).read_text("utf-8"))
