"""
Short lives of the whole operator, with faults: nothing may be violated, and the same seed lives the same
life.

``make soak`` lives thousands of longer ones.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Final

import pytest

from karpenter.simulation.run import play
from karpenter.simulation.script import Script, write
from karpenter.simulation.story import tell
from karpenter.simulation.wishes import AddPool, Deploy

LIVES: Final = 40
TOGETHER: Final = 5
HOURS: Final = 0.05


@pytest.mark.parametrize(
    "first", [pytest.param(n, id=f"seeds {n} to {n + TOGETHER - 1}") for n in range(1, LIVES, TOGETHER)]
)
def test_nothing_is_violated(first: int) -> None:
    """However things go wrong, every rule holds; a seed that says otherwise tells its story."""
    for seed in range(first, first + TOGETHER):
        script = write(seed, hours=HOURS, severity="many", machines=1)
        outcome = play(script)
        assert not outcome.violations, "\n".join(tell(script, outcome))


def test_the_same_seed_lives_the_same_life() -> None:
    """Every write, its time and its bytes are the same, in this process and in one that hashes otherwise."""
    source = (
        "from karpenter.simulation.run import play; from karpenter.simulation.script import write;"
        f"print(play(write(3, hours={HOURS}, severity='many', machines=1)).digest)"
    )
    here = play(write(3, hours=HOURS, severity="many", machines=1)).digest
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
