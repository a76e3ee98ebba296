"""What a duel came to: figures of each contender, their means over seeds, and the table with ratios."""

from __future__ import annotations

import math
from statistics import fmean
from typing import TYPE_CHECKING, Final, NamedTuple

from benchmarks.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


class Figures(NamedTuple):
    """What became of one contender."""

    bill: float
    """Dollars that its nodes cost."""

    floor: float
    """Dollars that the same pods would have cost, planned anew at every step."""

    bought: int
    replaced: int
    """Pods created beyond those that users asked for: each stands for one that was evicted."""

    p50: float
    """Seconds from the creation of a pod until it runs."""

    p99: float
    processor: float
    """Seconds of processor time that the operator took for the load, its start not counted."""

    memory: float
    """The most MiB that it held."""

    planned: float
    """Share of pods that run where they were planned; not a number where the operator does not plan that."""

    later: float
    """Share of NodeClaims that came by later decisions of a wave."""

    waiting: int
    """Pods that did not run in the end."""


class _Row(NamedTuple):
    title: str
    value: Callable[[Figures], float]
    form: str
    compared: bool = True
    """Whether the ratio to the base says something."""


_ROWS: Final = (
    _Row("bill", lambda figures: figures.bill, "${:.3f}"),
    _Row(
        "bill x floor", lambda figures: figures.bill / (figures.floor or math.nan), "{:.2f}", compared=False
    ),
    _Row("machines bought", lambda figures: figures.bought, "{:.1f}"),
    _Row("pods evicted (replaced)", lambda figures: figures.replaced, "{:.1f}"),
    _Row("created to running, p50", lambda figures: figures.p50, "{:.2f} s"),
    _Row("created to running, p99", lambda figures: figures.p99, "{:.2f} s"),
    _Row("processor time", lambda figures: figures.processor, "{:.1f} s"),
    _Row("memory, most", lambda figures: figures.memory, "{:.0f} MiB"),
    _Row("pods that run where planned", lambda figures: figures.planned, "{:.1%}", compared=False),
    _Row("NodeClaims by later decisions", lambda figures: figures.later, "{:.1%}", compared=False),
    _Row("pods waiting in the end", lambda figures: figures.waiting, "{:.1f}", compared=False),
)


def table(title: str, found: Mapping[str, Sequence[Figures]], notes: Sequence[str] = ()) -> Table:
    """Return means over seeds, and their ratios to Go; to the first contender where Go is not among them."""
    base = "go" if "go" in found else next(iter(found))
    others = [name for name in found if name != base]
    headers = ("", base, *(header for name in others for header in (name, f"{name} / {base}")))
    return Table(title, headers, tuple(_cells(row, found, base, others) for row in _ROWS), tuple(notes))


def _cells(
    row: _Row, found: Mapping[str, Sequence[Figures]], base: str, others: Sequence[str]
) -> tuple[str, ...]:
    means = {name: fmean(map(row.value, figures)) for name, figures in found.items()}
    cells = [row.title, _written(means[base], row.form)]
    for name in others:
        share = means[name] / means[base] if row.compared and means[base] else math.nan
        cells += [_written(means[name], row.form), _written(share, "{:.2f}")]
    return tuple(cells)


def _written(value: float, form: str) -> str:
    return "-" if math.isnan(value) else form.format(value)
