"""The examples that the pages tell people to apply: accepted, and good for what they show."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from karpenter.cli import main

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.mark.parametrize("folder", ["aws", "inflate", "kwok"])
def test_examples_are_accepted(folder: str) -> None:
    """As strictly as a cluster does."""
    result = CliRunner().invoke(main, ["validate", "-f", str(EXAMPLES / folder)])

    assert result.exit_code == 0, result.output


def test_the_cloud_in_memory_has_machines_for_the_tutorial() -> None:
    """Its NodePool serves every pod of the Deployment ``inflate``."""
    files = ["-f", str(EXAMPLES / "kwok"), "-f", str(EXAMPLES / "inflate" / "inflate.yaml")]
    result = CliRunner().invoke(main, ["plan", *files, "--catalog", "kwok", "--strict", "-o", "json"])
    found = json.loads(result.stdout)

    assert result.exit_code == 0, result.output
    assert sum(len(node["pods"]) for node in found["newNodes"]) == 10
