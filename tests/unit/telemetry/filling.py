"""Every metric counted once, so that every one is shown."""

from karpenter.telemetry.metrics import METRICS, Counter, Gauge, Histogram, Metrics, Summary


def exercise(metrics: Metrics) -> None:
    """Count something with every instrument, with a label value that needs care."""
    for declared in METRICS:
        instrument = metrics[declared]
        labels = dict.fromkeys(instrument.labels, 'a "quoted"\nvalue\\')
        match instrument:
            case Counter():
                instrument.add(2.0, **labels)
            case Gauge():
                instrument.set(2.0, **labels)
            case Histogram() | Summary():
                instrument.observe(2.0, **labels)
