"""
The tutorials: every command that they print is run, as it is printed, in the order of the page.

They take minutes of real time: ``make tour`` runs them. Nothing is tried twice, so that a command that only
works the second time is found. The commands ``karpenter`` and ``aws`` are those of this tree; see
:mod:`.aws_command` for the second.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.integration.kubectl import find_kubectl
from tests.integration.test_docs_aws import ROOT, commands

if TYPE_CHECKING:
    from pathlib import Path

REAL_TIME = True
NEEDS_KUBECTL = True
WITHIN = 400.0
SCRIPT = ROOT / "examples" / "aws" / "tour.sh"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Return the environment of a user who has just installed everything."""
    kubectl = find_kubectl()
    assert kubectl is not None
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, module in (("karpenter", "karpenter.cli"), ("aws", "tests.integration.aws_command")):
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m {module} "$@"\n', encoding="utf-8")
        program.chmod(0o755)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    folders = (str(programs), str(kubectl.parent), os.environ["PATH"])
    return {
        "PATH": ":".join(folders),
        "PYTHONPATH": ":".join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
        "HOME": str(tmp_path),
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }


def follow(script: str, environment: dict[str, str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a script, and end the cluster that it left."""
    try:
        return subprocess.run(  # noqa: S603  what our own pages say
            ["bash", "-c", script],  # noqa: S607  the shell of the user
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=WITHIN,
            check=False,
        )
    finally:
        down = [str(folder / "bin" / "karpenter"), "local", "down"]
        subprocess.run(down, env=environment, check=True, capture_output=True)  # noqa: S603  ours


@pytest.mark.tour
def test_the_tour(environment: dict[str, str], tmp_path: Path) -> None:
    """An empty account gets machines in three zones, shrinks, is interrupted, drifts, and is empty again."""
    done = follow(SCRIPT.read_text("utf-8"), environment, tmp_path)

    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    assert "Creating 5 dependencies for karpenter" in done.stdout
    assert "All is as planned." in done.stdout
    first = done.stdout.partition("successfully rolled out")[2].partition("* Indicates Spot Instance")[0]
    assert {row.split("|")[-2].strip() for row in first.splitlines() if "| *" in row} == {
        "us-west-2a",
        "us-west-2b",
        "us-west-2c",
    }
    assert "deployment.apps/inflate scaled" in done.stdout
    assert done.stdout.rstrip().endswith("nothing of ours is left")


def test_the_script_of_the_tour_is_the_page() -> None:
    """The script runs the commands of the page, all of them and in order."""
    lines = [line for line in SCRIPT.read_text("utf-8").splitlines() if line and not line.startswith("#")]

    assert lines == ["set -euo pipefail", *commands("tutorials/tour.md")]


@pytest.mark.tour
def test_the_installation_by_hand(environment: dict[str, str], tmp_path: Path) -> None:
    """Typed by hand, the parts make an operator that launches machines; what the page left out is named."""
    script = "\n".join(["set -eo pipefail", *commands("tutorials/install-by-hand.md")])
    done = follow(script, environment, tmp_path)

    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    assert 'deployment "inflate" successfully rolled out' in done.stdout
    assert "would make   queue blue" in done.stdout
    assert "exists       role KarpenterNodeRole-blue" in done.stdout
    assert done.stdout.rstrip().endswith("nothing of ours is left")
