"""
Short lives on the embedded AWS, with its faults: nothing may be violated, and the same seed lives the same
life.

The provider is the one of production; only its calls are answered in this process. What it asks for in these
lives is held against the policies that ship.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from karpenter.cloud.aws.policy import Place, policies
from karpenter_local.simulation.aws.cloud import CLUSTER, AwsSky
from karpenter_local.simulation.report import tell
from karpenter_local.simulation.run import Life, play
from karpenter_local.simulation.script import write
from karpenter_local.virtual import run_virtual
from tests.unit.cloud.aws.policy.authorizing import Gate
from tests.unit.cloud.aws.policy.evaluator import uses

if TYPE_CHECKING:
    from karpenter_local.aws.account import Account
    from karpenter_local.simulation.run import Outcome
    from karpenter_local.simulation.script import Script

pytestmark = pytest.mark.usefixtures("untraced")

HOURS: Final = 0.05
GUIDE: Final = Path(__file__).parents[2] / "docs" / "guides" / "simulate.md"
PRINTED: Final = re.compile(r"^\$ (karpenter simulate --provider aws .*)$", re.MULTILINE)


def lived(script: Script) -> tuple[Outcome, Account]:
    """Return what came of a life, and the account that it was lived in."""

    async def main() -> tuple[Outcome, Account]:
        life = Life(script, settings=script.settings, narrate=False)
        outcome = await life.live()
        assert isinstance(life.world.sky, AwsSky)
        return outcome, life.world.sky.site.account

    return run_virtual(main())


@pytest.mark.parametrize("seed", [pytest.param(each, id=f"seed {each}") for each in (4, 8, 34)])
def test_nothing_is_violated(seed: int) -> None:
    """However AWS misbehaves, every rule holds, and nothing is asked for that is not allowed."""
    script = write(seed, hours=HOURS, severity="many", machines=1, provider="aws")
    outcome, account = lived(script)
    gate = Gate(account=account.number, cluster=CLUSTER, role=f"KarpenterNodeRole-{CLUSTER}")
    ours = policies(Place(cluster=CLUSTER, region=account.region, account=account.number))
    calls = account.calls()
    denied = {
        (request.action, request.resource)
        for each in gate.questions(calls)
        for request in each.requests
        if not uses(ours, request)
    }

    assert not outcome.violations, "\n".join(tell(script, outcome))
    assert {"CreateFleet", "DescribeInstances", "CreateTags"} <= {each.operation for each in calls}
    assert denied == set()


def test_the_same_seed_lives_the_same_life() -> None:
    """What the guide prints is lived here and in a process that hashes otherwise, to the same last byte."""
    (command,) = PRINTED.findall(GUIDE.read_text("utf-8"))
    here = play(write(15, hours=0.02, severity="many", machines=1, provider="aws"))
    there = subprocess.run(  # noqa: S603  the program is ours
        [sys.executable, "-m", "karpenter.cli", *shlex.split(command)[1:], "-o", "json"],
        env={**os.environ, "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert [each["digest"] for each in json.loads(there.stdout)] == [here.digest]
