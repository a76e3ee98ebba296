"""
Short lives on the embedded AWS, with its faults: nothing may be violated, and the same seed lives the same
life.

The provider is the one of production; only its calls are answered in this process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Final

import pytest

from karpenter.simulation.run import play
from karpenter.simulation.script import write
from karpenter.simulation.story import tell

HOURS: Final = 0.05


@pytest.mark.parametrize("seed", [pytest.param(each, id=f"seed {each}") for each in (4, 8, 34)])
def test_nothing_is_violated(seed: int) -> None:
    """However AWS misbehaves, every rule holds; a seed that says otherwise tells its story."""
    script = write(seed, hours=HOURS, severity="many", machines=1, provider="aws")
    outcome = play(script)
    assert not outcome.violations, "\n".join(tell(script, outcome))
    assert outcome.machines


def test_the_same_seed_lives_the_same_life() -> None:
    """Every write, its time and its bytes are the same, in this process and in one that hashes otherwise."""
    here = play(write(15, hours=0.02, severity="many", machines=1, provider="aws")).digest
    given = "--provider aws --seed 15 --hours 0.02 --faults many --machines 1 -o json"
    there = subprocess.run(  # noqa: S603  the program is ours
        [sys.executable, "-m", "karpenter.cli", "simulate", *given.split()],
        env={**os.environ, "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert [each["digest"] for each in json.loads(there.stdout)] == [here]
