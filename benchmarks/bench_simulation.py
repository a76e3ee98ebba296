"""
What a simulated life costs: a day of a cluster of a hundred machines, and a short life with faults.

One process does everything: API server, scheduler, controllers, kubelets, cloud, operator and rules. The day
has a daily load curve, rollouts, jobs and no faults; what is violated would end it, and be told here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from benchmarks.measure import once
from benchmarks.table import Table, count, seconds
from karpenter_local.simulation.run import play
from karpenter_local.simulation.script import write

if TYPE_CHECKING:
    from karpenter_local.simulation.run import Outcome
    from karpenter_local.simulation.script import Script

SHORT: Final = 20


class Case(NamedTuple):
    """Some lives, lived one after the other."""

    name: str
    scripts: tuple[Script, ...]


def suite() -> Table:
    """Return what lives cost."""
    play(write(1, hours=0.02, severity="none", machines=1))  # whatever is loaded once
    short = tuple(write(seed, hours=0.05, severity="many", machines=1) for seed in range(1, SHORT + 1))
    cases = (
        Case("a day, about 100 machines", (write(7, hours=24, severity="none", machines=100),)),
        Case(f"{SHORT} short lives with many faults", short),
    )
    return Table(
        "the simulation",
        ("case", "cpu", "lived", "machines", "writes", "cpu per write", "violations"),
        tuple(_row(case) for case in cases),
        notes=("goal: a day of a hundred machines in under a minute",),
    )


def _row(case: Case) -> tuple[str, ...]:
    outcomes: list[Outcome] = []
    cost = once(lambda: outcomes.extend(play(script) for script in case.scripts))
    writes = sum(each.writes for each in outcomes)
    return (
        case.name,
        seconds(cost.seconds),
        f"{sum(each.seconds for each in outcomes) / 3600:.1f} h",
        count(sum(each.machines for each in outcomes)),
        count(writes),
        seconds(cost.seconds / writes),
        count(sum(len(each.violations) for each in outcomes)),
    )
