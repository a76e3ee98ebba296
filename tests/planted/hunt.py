"""
Runs the simulation until something is violated: what a process does that has a bug in it.

Prints one line of JSON: after how many runs which rule was violated, or that none was.
"""

from __future__ import annotations

import sys
import time
from typing import Final

import msgspec

from karpenter_local.simulation.run import run_scenario
from karpenter_local.simulation.scenario import Provider, Scenario, generate

HOURS: Final = {"kwok": 0.03, "aws": 0.03}


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What became of some runs."""

    runs: int
    seconds: float
    rule: str = ""
    what: str = ""
    others: tuple[str, ...] = ()
    """Further rules that were violated in the same run."""


def scenario(seed: int, provider: Provider) -> Scenario:
    """Return the scenario of a seed: short, and full of disruption and faults."""
    return generate(seed, hours=HOURS[provider], severity="dense", machines=1, provider=provider)


def hunt(runs: int, provider: Provider) -> Finding:
    """Run one seed after the other until something is violated."""
    began = time.monotonic()
    for seed in range(1, runs + 1):
        try:
            violations = run_scenario(scenario(seed, provider)).violations
        except Exception as error:  # noqa: BLE001  a crash is found as well
            seconds = time.monotonic() - began
            return Finding(runs=seed, seconds=seconds, rule="health", what=f"{type(error).__name__}: {error}")
        if violations:
            return Finding(
                runs=seed,
                seconds=time.monotonic() - began,
                rule=violations[0].rule,
                what=violations[0].what,
                others=tuple(dict.fromkeys(each.rule for each in violations[1:])),
            )
    return Finding(runs=runs, seconds=time.monotonic() - began)


if __name__ == "__main__":
    print(msgspec.json.encode(hunt(int(sys.argv[1]), sys.argv[2])).decode())  # type: ignore[arg-type]  # noqa: T201
