"""A state and the metrics that show it, under a clock that is set by hand."""

from __future__ import annotations

from karpenter.core.state.cluster import ClusterState
from karpenter.telemetry.metrics import GaugeMetric, Metrics, MetricSpec, ProviderLabels
from tests.unit.core.lifecycle.objects import CLASS_LABEL
from tests.unit.telemetry.clocks import HandClock

OURS = [("karpenter.kwok.sh", "KWOKNodeClass")]


class Showing:
    """What gauges need."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.store = ClusterState(serves=OURS)
        self.metrics = Metrics(clock=self.clock, labels=ProviderLabels(node_classes=(CLASS_LABEL,)))

    def rows(self, declared: MetricSpec[GaugeMetric], *labels: str) -> dict[tuple[str, ...], float]:
        """Return what a gauge shows once it is up to date, by the values of some of its labels."""
        self.metrics.refresh()
        instrument = self.metrics[declared]
        places = [instrument.labels.index(label) for label in labels]
        return {tuple(each.values[n] for n in places): round(each.value, 3) for each in instrument.samples()}
