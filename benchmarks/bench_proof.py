"""Whether the cheapest plan is proved: batches of pods of ten shapes on the EC2 catalogue."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
import numpy as np

from benchmarks.table import Table, count, seconds
from benchmarks.workloads.batches import SHAPES, batch
from karpenter.core.scheduling.proof.prove import solve_and_prove

if TYPE_CHECKING:
    from collections.abc import Sequence

_SEEDS: Final = 6
_SIZES: Final = ((3, 50), (51, 100))
"""The fewest and the most pods of a batch."""


class Result(NamedTuple):
    """What came out for one batch."""

    shape: str
    proved: bool
    gap: float
    saved: float
    """How much cheaper than greedy packing the plan is."""

    dearer: bool
    seconds: float


def results(fewest: int, most: int, seeds: int = _SEEDS) -> list[Result]:
    """Return what comes out for batches of a size; every other one may use spot capacity."""
    found = []
    for shape in SHAPES:
        for seed in range(seeds):
            given = batch(shape, seed, fewest=fewest, most=most, spot=seed % 2 == 1)
            begun = time.process_time()
            cost = solve_and_prove(given).cost
            spent = time.process_time() - begun
            options = msgspec.structs.replace(given.options, packing="greedy")
            greedy = solve_and_prove(msgspec.structs.replace(given, options=options)).cost.hourly
            if cost.hourly:
                found.append(
                    Result(
                        shape,
                        cost.optimal,
                        cost.gap,
                        1 - cost.hourly / greedy,
                        cost.hourly > greedy * (1 + 1e-9),
                        spent,
                    )
                )
    return found


def suite() -> Table:
    """Return which share of small batches is proved, and what is left open."""
    rows: list[tuple[str, ...]] = []
    dearer = 0
    for fewest, most in _SIZES:
        found = results(fewest, most)
        dearer += sum(each.dearer for each in found)
        size = f"{fewest} to {most} pods"
        rows += [
            _row(f"{shape}, {size}", [each for each in found if each.shape == shape]) for shape in SHAPES
        ]
        rows.append(_row(f"all, {size}", found))
    return Table(
        "small batches: is the cheapest plan proved",
        ("batches", "number", "proved", "gap median", "gap max", "below greedy", "cpu median", "cpu max"),
        tuple(rows),
        (
            "proved means that no cheaper plan exists; gap is how far the plan is above what is proved",
            f"plans were dearer than greedy packing in {dearer} batches (must: 0)",
            "batches of up to 50 pods must be proved in 90 % of cases",
            "cpu is processor time of one solve by price, the proof included",
        ),
    )


def _row(name: str, mine: Sequence[Result]) -> tuple[str, ...]:
    gaps = [each.gap for each in mine]
    return (
        name,
        count(len(mine)),
        f"{100 * sum(each.proved for each in mine) / len(mine):.0f} %",
        f"{100 * float(np.median(gaps)):.1f} %",
        f"{100 * max(gaps):.1f} %",
        f"{100 * float(np.mean([each.saved for each in mine])):.1f} %",
        seconds(float(np.median([each.seconds for each in mine]))),
        seconds(max(each.seconds for each in mine)),
    )
