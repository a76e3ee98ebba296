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
from benchmarks.workloads.quality import FORMS, Form, instances
from karpenter.core.scheduling.proof.prove import solve_and_prove
from karpenter.core.scheduling.solve import solve

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    independent: float
    """What was found without looking at the plan."""

    seconds: float

    @property
    def excess(self) -> float:
        """How far the plan is above the best known price, as a share; existing nodes may hold all pods."""
        return self.cost.hourly / self.known - 1 if self.known else 0.0

    @property
    def proved(self) -> bool:
        """Whether no plan costs less; nothing costs less than no machine."""
        return self.cost.optimal or not self.cost.hourly

    @property
    def wrong(self) -> bool:
        """Whether a plan is known that costs less than the bound."""
        return self.cost.lower_bound > min(self.known, self.independent) * (1 + _ROUNDING)

    @property
    def cheaper(self) -> bool:
        """Whether the plan costs less than what was found without it."""
        return self.cost.hourly < self.independent * (1 - _ROUNDING)

    @property
    def dearer(self) -> bool:
        """Whether the plan costs more than what was found without it."""
        return self.cost.hourly > self.independent * (1 + _ROUNDING)


def results(forms: Sequence[Form] = FORMS, seed: int = 0) -> list[Result]:
    """Return what comes out for the instances of some forms; another seed draws other ones."""
    found = []
    for each in instances(seed):
        if each.name.split("-")[0] in forms:
            begun = time.process_time()
            solve(each.given)
            spent = time.process_time() - begun
            plan = solve_and_prove(each.given)
            alone = best_known(each)
            known = plan.cost.hourly if plan.cost.optimal else min(alone, best_known(each, plan))
            found.append(Result(each.name, each.pods, plan.cost, known, alone, spent))
    return found


def suite(forms: Sequence[Form] = FORMS, seed: int = 0) -> Table:
    """Return how far from the best known price plans are."""
    found = results(forms, seed)
    rows = tuple(
        (
            each.name,
            count(each.pods),
            f"{each.cost.lower_bound:.4f}",
            f"{each.independent:.4f}",
            f"{each.known:.4f}",
            f"{each.cost.hourly:.4f}",
            f"{100 * each.excess:.2f} %",
            f"{100 * each.cost.gap:.2f} %",
            "yes" if each.proved else "no",
            seconds(each.seconds),
        )
        for each in found
    )
    few = [each for each in found if each.pods <= SMALL]
    proved = 100 * fmean(each.proved for each in few)
    return Table(
        "small batches: the plan against the best known price",
        ("instance", "pods", "bound", "independent", "best known", "plan", "excess", "gap", "proved", "cpu"),
        rows,
        (
            f"excess, mean: {100 * fmean(each.excess for each in found):.2f} % (must: 0.2 %)",
            f"excess, worst: {100 * max(each.excess for each in found):.2f} % (must: 1.5 %)",
            f"proved with at most {SMALL} pods: {proved:.0f} % of {len(few)} (must: 90 %)",
            f"bounds above the best known price: {sum(each.wrong for each in found)} (must: 0)",
            _compared(found),
            f"cpu: {seconds(sum(each.seconds for each in found))}, at most {seconds(_slowest(found))}",
            "the independent price comes from column generation and an integer program that know no plan",
            "the best known price is that of a proved plan, else the lowest of plan, independent price,",
            "and what the same program finds when it may use the machines of the plan",
        ),
    )


def _compared(found: Sequence[Result]) -> str:
    cheaper, dearer = sum(each.cheaper for each in found), sum(each.dearer for each in found)
    return f"plans that cost less than the independent price: {cheaper}, more: {dearer}"


def _slowest(found: Sequence[Result]) -> float:
    return max(each.seconds for each in found)


if __name__ == "__main__":
    parser = argparse.ArgumentParser("python -m benchmarks.bench_quality", description=__doc__)
    parser.add_argument("--form", choices=FORMS, action="append", help="only these; may be repeated")
    parser.add_argument("--seed", type=int, default=0, help="draw other instances of the same forms")
    asked = parser.parse_args()
    print(suite(tuple(asked.form or FORMS), asked.seed))
