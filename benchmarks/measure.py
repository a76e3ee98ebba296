"""
How work is measured: processor time, the best of several rounds, and memory apart from time.

Processor time, because others use the machine too; the best round, because whatever
disturbs a round only makes it slower. A round repeats the work until it takes long enough
for the clock to mean something. Memory is measured in a round of its own, since tracing
it slows everything down.
"""

from __future__ import annotations

import gc
import resource
import time
import tracemalloc
from typing import TYPE_CHECKING, Final, NamedTuple

from benchmarks.table import Table, count, ratio, seconds, size

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ROUNDS: Final = 5
SHORTEST_ROUND: Final = 0.05  # seconds of processor time
_KIB: Final = 1024


class Case(NamedTuple):
    """Some work, and how many items one call of it handles."""

    name: str
    work: Callable[[], object]
    items: int = 1


class Measurement(NamedTuple):
    """What one call of some work costs."""

    seconds: float
    """Processor time, the best round."""

    peak: int
    """The most memory in bytes that it held at once, beyond what there was before."""


def measure(
    work: Callable[[], object], *, rounds: int = ROUNDS, clock: Callable[[], float] = time.process_time
) -> Measurement:
    """Return what one call of `work` costs; the first call, which may fill caches, does not count."""
    work()
    calls = _calibrate(work, clock)
    gc.collect()
    best = min(_time(work, calls, clock) for _ in range(rounds))
    return Measurement(best / calls, _peak(work))


def once(work: Callable[[], object], *, clock: Callable[[], float] = time.process_time) -> Measurement:
    """Return what a single cold call of `work` costs; for work that takes seconds. Memory is not traced."""
    gc.collect()
    return Measurement(_time(work, 1, clock), 0)


def compare(title: str, cases: Sequence[Case], *, notes: tuple[str, ...] = ()) -> Table:
    """Return a table of what each case costs per item, and how it compares with the first."""
    found = [(case, measure(case.work)) for case in cases]
    base = found[0][1].seconds / found[0][0].items
    rows = tuple(
        (
            case.name,
            count(case.items),
            seconds(cost.seconds / case.items),
            count(case.items / cost.seconds),
            ratio(cost.seconds / case.items, base),
            size(cost.peak),
        )
        for case, cost in found
    )
    return Table(
        title, ("case", "items", "cpu per item", "items per s", "to first", "peak memory"), rows, notes
    )


def resident() -> int:
    """Return the most memory in bytes that this process has ever held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _KIB


def _calibrate(work: Callable[[], object], clock: Callable[[], float]) -> int:
    calls = 1
    while _time(work, calls, clock) < SHORTEST_ROUND:
        calls *= 2
    return calls


def _time(work: Callable[[], object], calls: int, clock: Callable[[], float]) -> float:
    begun = clock()
    for _ in range(calls):
        work()
    return clock() - begun


def _peak(work: Callable[[], object]) -> int:
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        work()
        return max(0, tracemalloc.get_traced_memory()[1] - before)
    finally:
        tracemalloc.stop()
