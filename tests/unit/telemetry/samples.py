"""Every metric counted once, so that every one is shown."""

from karpenter.telemetry.metrics import (
    METRICS,
    CounterMetric,
    GaugeMetric,
    HistogramMetric,
    Metrics,
    SummaryMetric,
)


def exercise(metrics: Metrics) -> None:
    """Count something with every instrument, with a label value that needs care."""
    for declared in METRICS:
        instrument = metrics[declared]
        labels = dict.fromkeys(instrument.labels, 'a "quoted"\nvalue\\')
        match instrument:
            case CounterMetric():
                instrument.add(2.0, **labels)
            case GaugeMetric():
                instrument.set(2.0, **labels)
            case HistogramMetric() | SummaryMetric():
                instrument.observe(2.0, **labels)
