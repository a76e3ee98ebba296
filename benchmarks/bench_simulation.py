"""
What a simulated run costs: a day of a cluster of a hundred machines, and short runs with faults.

One process does everything: API server, scheduler, controllers, kubelets, cloud, operator and invariants. The
day has a daily load curve, rollouts, jobs and no faults; a violation would end it, and be counted here.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from benchmarks.measure import once
from benchmarks.table import Table, count, seconds
from karpenter_local.simulation.run import RunResult, run_scenario
from karpenter_local.simulation.scenario import Scenario, generate

SHORT: Final = 20


class Case(NamedTuple):
    """Some scenarios, run one after the other."""

    name: str
    scenarios: tuple[Scenario, ...]


def suite() -> Table:
    run_scenario(generate(1, hours=0.02, severity="none", machines=1))  # loads what is loaded once
    short = tuple(generate(seed, hours=0.05, severity="many", machines=1) for seed in range(1, SHORT + 1))
    cases = (
        Case("a day, about 100 machines", (generate(7, hours=24, severity="none", machines=100),)),
        Case(f"{SHORT} short runs with many faults", short),
    )
    return Table(
        "the simulation",
        ("case", "cpu", "simulated", "machines", "writes", "cpu per write", "violations"),
        tuple(_row(case) for case in cases),
        notes=("goal: a day of a hundred machines in under a minute",),
    )


def _row(case: Case) -> tuple[str, ...]:
    results: list[RunResult] = []
    cost = once(lambda: results.extend(run_scenario(scenario) for scenario in case.scenarios))
    writes = sum(each.writes for each in results)
    return (
        case.name,
        seconds(cost.seconds),
        f"{sum(each.seconds for each in results) / 3600:.1f} h",
        count(sum(each.machines for each in results)),
        count(writes),
        seconds(cost.seconds / writes),
        count(sum(len(each.violations) for each in results)),
    )
