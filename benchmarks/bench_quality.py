"""
How far plans of small batches are above the best known price, and whether the bound holds.

The price that plans are held against comes from :mod:`benchmarks.best_known`, which shares no code with the
solver.
"""

from __future__ import annotations

import argparse
import time
from statistics import fmean
from typing import TYPE_CHECKING, Final, NamedTuple

from benchmarks.best_known import best_known
from benchmarks.table import Table, count, seconds
from benchmarks.workloads.quality import FORMS, instances
from karpenter.core.scheduling.solve import solve

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.workloads.quality import Form
    from karpenter.core.scheduling.problem import Cost

SMALL: Final = 50
"""Pods up to which plans must be proved."""

_ROUNDING: Final = 1e-6


class Result(NamedTuple):
    """What came out for one instance."""

    name: str
    pods: int
    cost: Cost
    known: float
    seconds: float

    @property
    def excess(self) -> float:
        """How far the plan is above the best known price, as a share."""
        return self.cost.hourly / self.known - 1

    @property
    def wrong(self) -> bool:
        """Whether a plan is known that costs less than the bound."""
        return self.cost.lower_bound > self.known * (1 + _ROUNDING)


def results(forms: Sequence[Form] = FORMS) -> list[Result]:
    """Return what comes out for the instances of some forms."""
    found = []
    for each in instances():
        if each.name.split("-")[0] in forms:
            begun = time.process_time()
            plan = solve(each.given)
            spent = time.process_time() - begun
            found.append(Result(each.name, each.pods, plan.cost, best_known(each, plan), spent))
    return found


def suite(forms: Sequence[Form] = FORMS) -> Table:
    """Return how far from the best known price plans are."""
    found = results(forms)
    rows = tuple(
        (
            each.name,
            count(each.pods),
            f"{each.cost.lower_bound:.4f}",
            f"{each.known:.4f}",
            f"{each.cost.hourly:.4f}",
            f"{100 * each.excess:.2f} %",
            f"{100 * each.cost.gap:.2f} %",
            "yes" if each.cost.optimal else "no",
            seconds(each.seconds),
        )
        for each in found
    )
    few = [each for each in found if each.pods <= SMALL]
    proved = 100 * fmean(each.cost.optimal for each in few)
    return Table(
        "small batches: the plan against the best known price",
        ("instance", "pods", "bound", "best known", "plan", "excess", "gap", "proved", "cpu"),
        rows,
        (
            f"excess, mean: {100 * fmean(each.excess for each in found):.2f} % (must: 0.2 %)",
            f"excess, worst: {100 * max(each.excess for each in found):.2f} % (must: 1.5 %)",
            f"proved with at most {SMALL} pods: {proved:.0f} % of {len(few)} (must: 90 %)",
            f"bounds above the best known price: {sum(each.wrong for each in found)} (must: 0)",
            "the best known price comes from column generation and an integer program of its own",
        ),
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser("python -m benchmarks.bench_quality", description=__doc__)
    parser.add_argument("--form", choices=FORMS, action="append", help="only these; may be repeated")
    print(suite(tuple(parser.parse_args().form or FORMS)))
