"""
Short lives of the whole operator, full of faults: nothing may be violated, and the same seed lives the same
life.

``make soak`` lives thousands of longer ones. Coverage is not measured here: it would take longer than the
lives themselves, and lives are no proof that a line was tested.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Final, get_args

import pytest

from karpenter_local.simulation.actions import AddPool, Deploy, Wish
from karpenter_local.simulation.faults import BadCalls, BadLaunch, Mishap
from karpenter_local.simulation.network import Trouble
from karpenter_local.simulation.report import tell
from karpenter_local.simulation.run import play
from karpenter_local.simulation.script import Script, write

LIVES: Final = 200
TOGETHER: Final = 8
HOURS: Final = 0.03
LAUNCHES: Final = {"fail", "hang", "lose", "lose and hang", "slow", "never join"}

pytestmark = pytest.mark.usefixtures("untraced")


def life(seed: int) -> Script:
    """Return a short life in which much goes wrong."""
    return write(seed, hours=HOURS, severity="dense", machines=1)


@pytest.mark.parametrize(
    "first", [pytest.param(n, id=f"seeds {n} to {n + TOGETHER - 1}") for n in range(1, LIVES, TOGETHER)]
)
def test_nothing_is_violated(first: int) -> None:
    """However things go wrong, every rule holds; a seed that says otherwise tells its story."""
    for seed in range(first, first + TOGETHER):
        script = life(seed)
        outcome = play(script)
        assert not outcome.violations, "\n".join(tell(script, outcome))


def test_everything_happens_in_some_life() -> None:
    """Nothing that users can do, that can go wrong, or that a gate opens, is left out of these lives."""
    scripts = [life(seed) for seed in range(1, LIVES + 1)]
    steps = [step for script in scripts for step in script.steps]
    gates = {gate for script in scripts for gate in script.settings.get("feature-gates", "").split(",")}

    ours = [each for each in Mishap.__subclasses__() if each.__module__ == Mishap.__module__]
    assert {type(step) for step in steps} == {*Wish.__subclasses__(), *ours}
    assert {step.kind for step in steps if isinstance(step, BadLaunch)} == LAUNCHES
    assert {kind for step in steps if isinstance(step, BadCalls) for kind in step.kinds} == set(
        get_args(Trouble)
    )
    assert {gate.partition("=")[0] for gate in gates if gate} == {
        "CapacityBuffer",
        "NodeOverlay",
        "NodeRepair",
        "StaticCapacity",
    }


def test_the_same_seed_lives_the_same_life() -> None:
    """Every write, its time and its bytes are the same, in this process and in one that hashes otherwise."""
    source = (
        "from karpenter_local.simulation.run import play; from karpenter_local.simulation.script import write;"
        f"print(play(write(3, hours={HOURS}, severity='dense', machines=1)).digest)"
    )
    here = play(life(3)).digest
    there = subprocess.run(  # noqa: S603  the program is ours
        [sys.executable, "-c", source],
        env={**os.environ, "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert there.stdout.strip() == here


def test_a_violation_tells_its_story() -> None:
    """A life that cannot come to rest is cut down, and told from its first step to what was violated."""
    asks = AddPool(at=0.0, name="default"), Deploy(at=1.0, name="app", replicas=1, milli=100, pool="none")
    script = Script(seed=1, seconds=60.0, steps=asks)
    outcome = play(script)
    story = tell(script, outcome)

    assert [each.rule for each in outcome.violations] == ["service", "service"]
    assert story[0].startswith("seed 1 violates service: pod default/app-")
    assert any("create deployment app: 1 x 100m, in pool none" in line for line in story)
    assert "VIOLATED service: deployment app has 0 pods of 1" in story[-1]
