"""
Every metric of the operator, declared once, group by group.

The names, types and labels are those that dashboards and alerts of Karpenter already know, quirks of naming
included. What they mean is said in our words.
"""

from karpenter.telemetry.metrics.store import MetricSpec, Instrument
from karpenter.telemetry.metrics.table import (
    claims,
    conditions,
    disruption,
    nodepools,
    nodes,
    pods,
    provider,
    runtime,
    scheduler,
)

GROUPS: tuple[tuple[str, tuple[MetricSpec[Instrument], ...]], ...] = (
    ("Claims", claims.METRICS),
    ("Nodes", nodes.METRICS),
    ("Node pools", nodepools.METRICS),
    ("Pods", pods.METRICS),
    ("Scheduling", scheduler.METRICS),
    ("Disruption", disruption.METRICS),
    ("Cloud provider", provider.METRICS),
    ("Conditions of objects", conditions.METRICS),
    ("The process", runtime.METRICS),
)
"""Metrics by what they are about, in the order in which they are documented."""

METRICS: tuple[MetricSpec[Instrument], ...] = tuple(each for _, group in GROUPS for each in group)
