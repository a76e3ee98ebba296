"""The example of devices: what `karpenter plan` makes of it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from karpenter.cli import main

EXAMPLE = Path(__file__).parents[3] / "examples" / "devices"


def plan(*settings: str) -> dict[str, Any]:
    files = ["-f", str(EXAMPLE / "cluster.yaml"), "-f", str(EXAMPLE / "workloads.yaml")]
    catalog = ["--catalog", str(EXAMPLE / "catalogue.yaml")]
    given = [part for setting in settings for part in ("--set", setting)]
    result = CliRunner().invoke(main, ["plan", *files, *catalog, *given, "-o", "json"])
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_machines_with_the_devices_are_bought() -> None:
    """Each replica gets a small machine, both trainers share a large one, and the dreamer is told why not."""
    found = plan("ignore-dra-requests=false")
    machines = Counter(
        (node["offering"]["instanceType"], tuple(sorted(node["pods"]))) for node in found["newNodes"]
    )

    assert machines == {
        ("gpu-1", ("default/inference-0",)): 1,
        ("gpu-1", ("default/inference-1",)): 1,
        ("gpu-1", ("default/inference-2",)): 1,
        ("gpu-4", ("default/training-0", "default/training-1")): 1,
    }
    assert [(each["pod"], each["reasons"][0]["code"]) for each in found["unscheduled"]] == [
        ("default/dreamer", "DevicesNotAvailable")
    ]


def test_machines_wait_for_their_driver() -> None:
    """Every machine says which driver must run on it before its pods can."""
    drivers = {
        node["annotations"]["karpenter.sh/requested-dra-drivers"]
        for node in plan("ignore-dra-requests=false")["newNodes"]
    }

    assert drivers == {"gpu.example.com"}


def test_claims_are_ignored_unless_one_says_otherwise() -> None:
    """By default pods with claims are left alone, and told which setting does that."""
    found = plan()

    assert (found["newNodes"], len(found["unscheduled"])) == ([], 6)
    assert "setting ignore-dra-requests" in found["unscheduled"][0]["message"]


def test_greedy_packing_fills_the_large_machine() -> None:
    """Packing by price is what keeps the replicas off the large machine."""
    found = plan("ignore-dra-requests=false", "packing-policy=greedy")

    assert Counter(node["offering"]["instanceType"] for node in found["newNodes"]) == {"gpu-4": 2}
