"""
The metrics of one operator: an instrument for every declaration, and the text that Prometheus scrapes.

Nothing here is global: a simulation runs two operators in one process, each with metrics of its own. They are
served by :mod:`karpenter.operator.http`.
"""

import platform
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import generate_latest

from karpenter import __version__
from karpenter.base.clock import Clock
from karpenter.telemetry.metrics.instruments import (
    AgeMetric,
    CounterMetric,
    GaugeMetric,
    HistogramMetric,
    Instrument,
    MetricSpec,
    ProviderLabels,
    SummaryMetric,
    render,
)
from karpenter.telemetry.metrics.table import METRICS, runtime

I_co = TypeVar("I_co", bound=Instrument, covariant=True)

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
"""What :meth:`Metrics.exposition` is to be served as."""

_PROCESSORS: Final = {"x86_64": "amd64", "aarch64": "arm64"}


class UndeclaredMetric(LookupError):  # noqa: N818  says what is wrong
    """The metric is not declared in this registry."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no metric {name} here; hint: hand its declaration to Metrics(also=...)")
        self.name = name


class Metrics:
    """One operator's instruments, by their declarations."""

    def __init__(
        self,
        *,
        clock: Clock,
        labels: ProviderLabels | None = None,
        also: Iterable[MetricSpec[Instrument]] = (),
        process: bool = False,
    ) -> None:
        """
        Make an instrument for every metric of the table, and of a provider's own in `also`.

        With `process`, what the operating system knows of this process is shown too.
        """
        self.labels = labels or ProviderLabels()
        self._clock = clock
        self._made: dict[str, tuple[MetricSpec[Instrument], Instrument]] = {}
        for declared in (*METRICS, *also):
            if declared.name in self._made:
                raise ValueError(f"metric {declared.name} is declared twice")
            instrument = self._make(declared)
            for values in declared.seeds:
                instrument.seed(values)
            self._made[declared.name] = (declared, instrument)
        self._refreshers: list[Callable[[], Iterable[None] | None]] = []
        self._process: CollectorRegistry | None = None
        if process:
            self._process = CollectorRegistry()
            ProcessCollector(registry=self._process)
        self[runtime.BUILD_INFO].set(
            1.0,
            version=__version__,
            goversion=f"python{platform.python_version()}",
            goarch=_PROCESSORS.get(platform.machine(), platform.machine()),
            commit="",
        )

    def __getitem__(self, declared: MetricSpec[I_co]) -> I_co:
        """
        Return the instrument of a metric.

        Raises:
            UndeclaredMetric: if it was not declared here.
        """
        found = self._made.get(declared.name)
        if found is None or not isinstance(found[1], declared.instrument):
            raise UndeclaredMetric(declared.name)
        return found[1]

    def before_reading(self, refresh: Callable[[], Iterable[None] | None]) -> None:
        """
        Call `refresh` before each scrape, for gauges that are cheaper to compute then than to keep current.

        A long refresh yields, so that other tasks get a turn.
        """
        self._refreshers.append(refresh)

    def refresh(self) -> None:
        """Update the gauges that are computed at scrape time."""
        for _ in self._refreshed():
            pass

    def parts(self) -> Iterator[str]:
        """Yield the text that Prometheus reads, piece by piece; metrics without series are left out."""
        for _ in self._refreshed():
            yield ""
        for declared, instrument in self._made.values():
            yield from render(declared, instrument)
        if self._process is not None:
            yield generate_latest(self._process).decode()

    def exposition(self) -> bytes:
        return "".join(self.parts()).encode()

    def _refreshed(self) -> Iterator[None]:
        for refresh in self._refreshers:
            yield from refresh() or ()

    def _make(self, declared: MetricSpec[Instrument]) -> Instrument:
        labels = self.labels.expand(declared.labels)
        if issubclass(declared.instrument, HistogramMetric):
            return HistogramMetric(declared.name, labels, buckets=declared.buckets)
        if issubclass(declared.instrument, SummaryMetric):
            monotonic = self._clock.monotonic
            return SummaryMetric(declared.name, labels, quantiles=declared.quantiles, monotonic=monotonic)
        if issubclass(declared.instrument, AgeMetric):
            return AgeMetric(declared.name, labels, now=lambda: self._clock.now().timestamp())
        if issubclass(declared.instrument, CounterMetric):
            return CounterMetric(declared.name, labels)
        return GaugeMetric(declared.name, labels)
