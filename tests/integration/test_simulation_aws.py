"""
Short simulated runs on the embedded AWS, with its faults: nothing may be violated, and the same seed gives
the same run.

The provider is the one of production; only its calls are answered in this process. What it calls in these
runs is held against the policies that ship.
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

from karpenter.cloud.aws.policy import PolicyScope, policies
from karpenter_local.simulation.aws.cloud import SimulatedAws
from karpenter_local.simulation.cluster import CLUSTER
from karpenter_local.simulation.report import explain
from karpenter_local.simulation.run import RunResult, SimulatedRun, run_scenario
from karpenter_local.simulation.scenario import Scenario, generate
from karpenter_local.virtual import run_virtual
from tests.unit.cloud.aws.policy.authorizing import Gate
from tests.unit.cloud.aws.policy.evaluator import uses

if TYPE_CHECKING:
    from karpenter_local.aws.account import Account

pytestmark = pytest.mark.usefixtures("untraced")

HOURS: Final = 0.05
GUIDE: Final = Path(__file__).parents[2] / "docs" / "guides" / "simulate.md"
PRINTED: Final = re.compile(r"^\$ (karpenter simulate --provider aws .*)$", re.MULTILINE)


def ran(scenario: Scenario) -> tuple[RunResult, Account]:
    async def main() -> tuple[RunResult, Account]:
        run = SimulatedRun(scenario, settings=scenario.settings, timeline=False)
        result = await run.run()
        assert isinstance(run.simulated.cloud, SimulatedAws)
        return result, run.simulated.cloud.site.account

    return run_virtual(main())


@pytest.mark.parametrize("seed", [pytest.param(each, id=f"seed {each}") for each in (4, 8, 34)])
def test_nothing_is_violated(seed: int) -> None:
    """However AWS misbehaves, every invariant holds, and nothing is called that is not allowed."""
    scenario = generate(seed, hours=HOURS, severity="many", machines=1, provider="aws")
    result, account = ran(scenario)
    gate = Gate(account=account.number, cluster=CLUSTER, role=f"KarpenterNodeRole-{CLUSTER}")
    ours = policies(PolicyScope(cluster=CLUSTER, region=account.region, account=account.number))
    calls = account.calls()
    denied = {
        (request.action, request.resource)
        for each in gate.questions(calls)
        for request in each.requests
        if not uses(ours, request)
    }

    assert not result.violations, "\n".join(explain(scenario, result))
    assert {"CreateFleet", "DescribeInstances", "CreateTags"} <= {each.operation for each in calls}
    assert denied == set()


def test_the_same_seed_gives_the_same_run() -> None:
    """What the guide prints runs here and in a process that hashes otherwise, to the same last byte."""
    (command,) = PRINTED.findall(GUIDE.read_text("utf-8"))
    here = run_scenario(generate(15, hours=0.02, severity="many", machines=1, provider="aws"))
    there = subprocess.run(  # noqa: S603  the program is ours
        [sys.executable, "-m", "karpenter.cli", *shlex.split(command)[1:], "-o", "json"],
        env={**os.environ, "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert [each["digest"] for each in json.loads(there.stdout)] == [here.digest]
