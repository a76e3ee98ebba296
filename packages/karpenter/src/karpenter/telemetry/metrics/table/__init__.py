"""
Every metric of the operator, declared once, group by group.

Names, types and labels are upstream's, so that its dashboards and alerts work:
https://karpenter.sh/docs/reference/metrics/. The help texts are ours, and so are the metrics of
:mod:`.savings`, which upstream does not have.
"""

from karpenter.telemetry.metrics.instruments import Instrument, MetricSpec
from karpenter.telemetry.metrics.table import (
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

GROUPS: tuple[tuple[str, tuple[MetricSpec[Instrument], ...]], ...] = (
    ("Claims", claims.METRICS),
    ("Nodes", nodes.METRICS),
    ("Node pools", nodepools.METRICS),
    ("Pods", pods.METRICS),
    ("Scheduling", scheduler.METRICS),
    ("Disruption", disruption.METRICS),
    ("Costs and savings", savings.METRICS),
    ("Cloud provider", runtime.CLOUD_PROVIDER),
    ("Conditions of objects", conditions.METRICS),
    ("A shadow", savings.SHADOW),
    ("The process", runtime.METRICS),
)
"""Metrics by what they are about, in the order in which they are documented."""

METRICS: tuple[MetricSpec[Instrument], ...] = tuple(each for _, group in GROUPS for each in group)
