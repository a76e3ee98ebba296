"""
What metrics are counted with: counters, gauges, histograms, and summaries with quantiles.

An instrument keeps plain numbers by the values of its labels, so that tens of thousands of series take little
room, and hands out samples when Prometheus asks. It belongs to one event loop and takes no locks.

    metrics[NODES_CREATED].add(nodepool="default", zone="zone-1")
    metrics[PODS_STATE].publish(pod.uid, [(1.0, {"name": "web-1", ...})])   # and whatever it had before goes
"""

import math
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, Final, NamedTuple

WINDOW: Final = 600.0
"""Seconds that a summary looks back, for its quantiles only: sums and counts are for ever."""

MOST_OBSERVED: Final = 10_000
"""Observations that a summary keeps per series; of more, the newest."""

Values = tuple[str, ...]
"""The values of a series' labels, in the order of their declaration."""


class Sample(NamedTuple):
    """One line of the exposition: a suffix to the name, the values of the labels, and a number."""

    suffix: str
    values: Values
    value: float
    last: str = ""
    """The value of the label that only buckets and quantiles have."""


class WrongLabels(TypeError):  # noqa: N818  says what is wrong
    """A metric was given other labels than it has."""

    def __init__(self, metric: str, expected: Sequence[str], given: Iterable[str]) -> None:
        takes, got = ", ".join(expected) or "no labels", ", ".join(sorted(given)) or "none"
        super().__init__(f"metric {metric} takes {takes}, not {got}")
        self.metric = metric


class Instrument(ABC):
    """Numbers by label values."""

    last_label: ClassVar[str] = ""
    """The label that buckets or quantiles are told apart by."""

    def __init__(self, name: str, labels: tuple[str, ...]) -> None:
        self.name = name
        self.labels = labels

    @abstractmethod
    def samples(self) -> Iterator[Sample]:
        """Yield what there is to show."""

    @abstractmethod
    def seed(self, values: Values) -> None:
        """Show a series from the start, at zero."""

    def _key(self, given: Mapping[str, str]) -> Values:
        if len(given) != len(self.labels):
            raise WrongLabels(self.name, self.labels, given)
        try:
            return tuple([given[label] for label in self.labels])
        except KeyError:
            raise WrongLabels(self.name, self.labels, given) from None


class Counter(Instrument):
    """Counts up."""

    def __init__(self, name: str, labels: tuple[str, ...]) -> None:
        super().__init__(name, labels)
        self._values: dict[Values, float] = {}

    def add(self, amount: float = 1.0, /, **labels: str) -> None:
        """Count `amount` more."""
        if amount < 0:
            raise ValueError(f"counter {self.name} cannot count down, by {amount}")
        key = self._key(labels)
        self._values[key] = self._values.get(key, 0.0) + amount

    def value(self, **labels: str) -> float:
        """Return how much was counted so far."""
        return self._values.get(self._key(labels), 0.0)

    def seed(self, values: Values) -> None:
        """Show a series from the start, at zero."""
        self._values.setdefault(values, 0.0)

    def samples(self) -> Iterator[Sample]:
        """Yield one sample per series."""
        for values, value in self._values.items():
            yield Sample("", values, value)


class Gauge(Instrument):
    """Shows how things stand."""

    def __init__(self, name: str, labels: tuple[str, ...]) -> None:
        super().__init__(name, labels)
        self._values: dict[Values, float] = {}
        self._owned: dict[Hashable, tuple[Values, ...]] = {}

    def set(self, value: float, /, **labels: str) -> None:
        """Show `value` from now on."""
        self._values[self._key(labels)] = value

    def add(self, amount: float, /, **labels: str) -> None:
        """Show so much more, or less, than before."""
        key = self._key(labels)
        self._values[key] = self._values.get(key, 0.0) + amount

    def value(self, **labels: str) -> float | None:
        """Return what is shown; None when nothing is."""
        return self._values.get(self._key(labels))

    def remove(self, **labels: str) -> None:
        """Show nothing any longer."""
        self._values.pop(self._key(labels), None)

    def publish(self, owner: Hashable, rows: Iterable[tuple[float, Mapping[str, str]]]) -> None:
        """Show these rows for `owner`, such as one node, in place of all that were shown for it before."""
        shown = {self._key(labels): value for value, labels in rows}
        for gone in self._owned.pop(owner, ()):
            if gone not in shown:
                self._values.pop(gone, None)
        if shown:
            self._owned[owner] = tuple(shown)
            self._values.update(shown)

    def retract(self, owner: Hashable) -> None:
        """Show nothing for `owner` any longer."""
        self.publish(owner, ())

    def seed(self, values: Values) -> None:
        """Show a series from the start, at zero."""
        self._values.setdefault(values, 0.0)

    def samples(self) -> Iterator[Sample]:
        """Yield one sample per series."""
        for values, value in self._values.items():
            yield Sample("", values, value)


class Age(Gauge):
    """Shows for how long things have been so: is told moments, and shows the seconds since then."""

    def __init__(self, name: str, labels: tuple[str, ...], *, now: Callable[[], float]) -> None:
        super().__init__(name, labels)
        self._now = now

    def samples(self) -> Iterator[Sample]:
        """Yield one sample per series: how long ago its moment was."""
        now = self._now()
        for values, moment in self._values.items():
            yield Sample("", values, now - moment)


class Histogram(Instrument):
    """Counts observations in buckets."""

    last_label = "le"

    def __init__(self, name: str, labels: tuple[str, ...], *, buckets: tuple[float, ...]) -> None:
        super().__init__(name, labels)
        if list(buckets) != sorted(set(buckets)) or not buckets:
            raise ValueError(f"the buckets of histogram {name} must be given, and rise")
        self.buckets = buckets
        self._counts: dict[Values, list[int]] = {}
        self._sums: dict[Values, float] = {}

    def observe(self, value: float, /, **labels: str) -> None:
        """Count `value` in."""
        key = self._key(labels)
        self.seed(key)
        self._counts[key][bisect_left(self.buckets, value)] += 1
        self._sums[key] += value

    def count(self, **labels: str) -> int:
        """Return how many values were counted in."""
        return sum(self._counts.get(self._key(labels), ()))

    def seed(self, values: Values) -> None:
        """Show a series from the start, without observations."""
        if values not in self._counts:
            self._counts[values] = [0] * (len(self.buckets) + 1)
            self._sums[values] = 0.0

    def samples(self) -> Iterator[Sample]:
        """Yield the buckets of each series, each with what is in the ones before it, and sum and count."""
        for values, counts in self._counts.items():
            running = 0
            for bound, count in zip((*self.buckets, math.inf), counts, strict=True):
                running += count
                yield Sample("_bucket", values, running, render_bound(bound))
            yield Sample("_sum", values, self._sums[values])
            yield Sample("_count", values, running)


class _Window:
    """The newest observations of one series, and all of them added up."""

    __slots__ = ("count", "observed", "total")

    def __init__(self, most: int) -> None:
        self.observed: deque[tuple[float, float]] = deque(maxlen=most)
        self.count = 0
        self.total = 0.0


class Summary(Instrument):
    """
    Shows quantiles over the last minutes.

    Exact, by nearest rank, over what was observed in the window, or over the newest `MOST_OBSERVED` of it.
    Quantiles of nothing are not a number, as Prometheus wants it.
    """

    last_label = "quantile"

    def __init__(
        self,
        name: str,
        labels: tuple[str, ...],
        *,
        quantiles: tuple[float, ...],
        monotonic: Callable[[], float],
        window: float = WINDOW,
        most: int = MOST_OBSERVED,
    ) -> None:
        super().__init__(name, labels)
        self.quantiles = quantiles
        self._monotonic = monotonic
        self._seconds = window
        self._most = most
        self._windows: dict[Values, _Window] = {}

    def observe(self, value: float, /, **labels: str) -> None:
        """Take `value` in."""
        key = self._key(labels)
        self.seed(key)
        window = self._windows[key]
        self._forget(window)
        window.observed.append((self._monotonic(), value))
        window.count += 1
        window.total += value

    def count(self, **labels: str) -> int:
        """Return how many values were ever taken in."""
        window = self._windows.get(self._key(labels))
        return window.count if window else 0

    def seed(self, values: Values) -> None:
        """Show a series from the start, without observations."""
        if values not in self._windows:
            self._windows[values] = _Window(self._most)

    def samples(self) -> Iterator[Sample]:
        """Yield the quantiles of each series, and sum and count."""
        for values, window in self._windows.items():
            self._forget(window)
            ranked = sorted(value for _, value in window.observed)
            for quantile in self.quantiles:
                yield Sample("", values, nearest_rank(ranked, quantile), f"{quantile:g}")
            yield Sample("_sum", values, window.total)
            yield Sample("_count", values, window.count)

    def _forget(self, window: _Window) -> None:
        oldest = self._monotonic() - self._seconds
        while window.observed and window.observed[0][0] <= oldest:
            window.observed.popleft()


def nearest_rank(ranked: Sequence[float], quantile: float) -> float:
    """Return the value of sorted values that so large a share of them does not exceed."""
    if not ranked:
        return math.nan
    return ranked[max(0, math.ceil(quantile * len(ranked)) - 1)]


def render_bound(bound: float) -> str:
    """Return the upper end of a bucket as Prometheus spells it."""
    return "+Inf" if bound == math.inf else f"{bound:g}"
