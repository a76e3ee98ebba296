"""
Short simulated runs of the whole operator, full of faults: nothing may be violated, and the same seed gives
the same run.

``make soak`` runs thousands of longer ones. Coverage is not measured here: it would take longer than the runs
themselves, and runs are no proof that a line was tested.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Final, get_args

import pytest

from karpenter_local.simulation.actions import Action, AddPool, Deploy
from karpenter_local.simulation.faults import BadCalls, BadLaunch, InjectedFault
from karpenter_local.simulation.network import CallFault
from karpenter_local.simulation.report import explain
from karpenter_local.simulation.run import run_scenario
from karpenter_local.simulation.scenario import Scenario, generate

RUNS: Final = 200
QUICK_RUNS: Final = 48
"""The runs of ``make test``; ``make long`` has the rest."""

TOGETHER: Final = 8
HOURS: Final = 0.03
LAUNCHES: Final = {"fail", "hang", "lose", "lose and hang", "slow", "never join"}

pytestmark = pytest.mark.usefixtures("untraced")


def short(seed: int) -> Scenario:
    """Return a short scenario with many faults."""
    return generate(seed, hours=HOURS, severity="dense", machines=1)


@pytest.mark.parametrize(
    "first",
    [
        pytest.param(
            n, id=f"seeds {n} to {n + TOGETHER - 1}", marks=[pytest.mark.long] if n > QUICK_RUNS else []
        )
        for n in range(1, RUNS, TOGETHER)
    ],
)
def test_nothing_is_violated(first: int) -> None:
    """However things go wrong, every invariant holds; a seed that says otherwise is explained."""
    for seed in range(first, first + TOGETHER):
        scenario = short(seed)
        result = run_scenario(scenario)
        assert not result.violations, "\n".join(explain(scenario, result))


@pytest.mark.long
@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(
            2044, id="an operator dies between the writes of a registration, and startup taints come back"
        )
    ],
)
def test_what_was_found_stays_mended(seed: int) -> None:
    """Hours in which the soak once found a violation hold now."""
    scenario = generate(seed, hours=1, severity="many")
    result = run_scenario(scenario)
    assert not result.violations, "\n".join(explain(scenario, result))


def test_everything_happens_in_some_run() -> None:
    """Nothing that users can do, that can go wrong, or that a gate opens, is left out of these runs."""
    scenarios = [short(seed) for seed in range(1, RUNS + 1)]
    steps = [step for scenario in scenarios for step in scenario.steps]
    gates = {gate for scenario in scenarios for gate in scenario.settings.get("feature-gates", "").split(",")}

    ours = [each for each in InjectedFault.__subclasses__() if each.__module__ == InjectedFault.__module__]
    assert {type(step) for step in steps} == {*Action.__subclasses__(), *ours}
    assert {step.kind for step in steps if isinstance(step, BadLaunch)} == LAUNCHES
    assert {kind for step in steps if isinstance(step, BadCalls) for kind in step.kinds} == set(
        get_args(CallFault)
    )
    assert {gate.partition("=")[0] for gate in gates if gate} == {
        "CapacityBuffer",
        "NodeOverlay",
        "NodeRepair",
        "StaticCapacity",
    }


def test_the_same_seed_gives_the_same_run() -> None:
    """Every write, its time and its bytes are the same, in this process and in one that hashes otherwise."""
    source = (
        "from karpenter_local.simulation.run import run_scenario;"
        "from karpenter_local.simulation.scenario import generate;"
        f"print(run_scenario(generate(3, hours={HOURS}, severity='dense', machines=1)).digest)"
    )
    here = run_scenario(short(3)).digest
    there = subprocess.run(  # noqa: S603  the program is ours
        [sys.executable, "-c", source],
        env={**os.environ, "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert there.stdout.strip() == here


def test_a_violation_is_explained() -> None:
    """A scenario that cannot settle is shrunk, and shown from its first step to what was violated."""
    asks = AddPool(at=0.0, name="default"), Deploy(at=1.0, name="app", replicas=1, milli=100, pool="none")
    scenario = Scenario(seed=1, seconds=60.0, steps=asks)
    result = run_scenario(scenario)
    lines = explain(scenario, result)

    assert [each.rule for each in result.violations] == ["waiting"]
    assert lines[0].startswith("seed 1 violates waiting: pod default/app-")
    assert any("create deployment app: 1 x 100m, in pool none" in line for line in lines)
    assert "VIOLATED waiting: pod default/app-" in lines[-1]
