"""
Metrics: what is declared, what it is counted with, and what Prometheus reads.

    from karpenter.telemetry.metrics import Metrics, nodes

    metrics = Metrics(clock=clock)
    metrics[nodes.CREATED].add(nodepool="default", zone="zone-1")
    body = metrics.exposition()
"""

from karpenter.telemetry.metrics.instruments import (
    AgeMetric,
    CounterMetric,
    GaugeMetric,
    HistogramMetric,
    MetricSpec,
    ProviderLabels,
    SummaryMetric,
)
from karpenter.telemetry.metrics.registry import CONTENT_TYPE, Metrics
from karpenter.telemetry.metrics.table import (
    GROUPS,
    METRICS,
    claims,
    conditions,
    disruption,
    nodepools,
    nodes,
    pods,
    runtime,
    savings,
    scheduler,
)

__all__ = [
    "CONTENT_TYPE",
    "GROUPS",
    "METRICS",
    "AgeMetric",
    "CounterMetric",
    "GaugeMetric",
    "HistogramMetric",
    "MetricSpec",
    "Metrics",
    "ProviderLabels",
    "SummaryMetric",
    "claims",
    "conditions",
    "disruption",
    "nodepools",
    "nodes",
    "pods",
    "runtime",
    "savings",
    "scheduler",
]
