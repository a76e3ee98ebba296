"""
Metrics of the conditions and of the deletion of our objects, the same six for each kind.

Each exists once per kind, and once more for all kinds together under an older name.
"""

from typing import Final

import msgspec

from karpenter.telemetry.metrics.instruments import (
    NODE_CLASSES,
    TRANSITIONS,
    AgeMetric,
    CounterMetric,
    GaugeMetric,
    HistogramMetric,
    Instrument,
    MetricSpec,
    age,
    counter,
    gauge,
    histogram,
)

_NODEPOOL: Final = "karpenter_sh_nodepool"
_INITIALIZED: Final = "karpenter_sh_initialized"


class ConditionMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """The metrics of the conditions and the deletion of one kind."""

    count: MetricSpec[GaugeMetric]
    current_status: MetricSpec[AgeMetric]
    transition: MetricSpec[HistogramMetric]
    transitions: MetricSpec[CounterMetric]
    termination_current_time: MetricSpec[AgeMetric]
    termination_duration: MetricSpec[HistogramMetric]

    @property
    def all(self) -> tuple[MetricSpec[Instrument], ...]:
        return (
            self.count,
            self.current_status,
            self.transition,
            self.transitions,
            self.termination_current_time,
            self.termination_duration,
        )


def condition_metrics(prefix: str, whose: str, *extra: str) -> ConditionMetrics:
    """Declare the six metrics of `whose` objects, with labels of their own."""
    one = ("namespace", "name")
    return ConditionMetrics(
        count=gauge(
            f"{prefix}_status_condition_count",
            f"One for every condition of {whose}, with its status and reason.",
            *one,
            "type",
            "status",
            "reason",
            *extra,
        ),
        current_status=age(
            f"{prefix}_status_condition_current_status_seconds",
            f"Seconds that a condition of {whose} has had its status.",
            *one,
            "type",
            "status",
            "reason",
            *extra,
        ),
        transition=histogram(
            f"{prefix}_status_condition_transition_seconds",
            f"Seconds that a condition of {whose} had a status before it changed.",
            "type",
            "status",
            *extra,
            buckets=TRANSITIONS,
        ),
        transitions=counter(
            f"{prefix}_status_condition_transitions_total",
            f"Changes of a condition of {whose}, by the new status.",
            "type",
            "status",
            "reason",
            *extra,
        ),
        termination_current_time=age(
            f"{prefix}_termination_current_time_seconds",
            f"Seconds since {whose} got its deletion timestamp.",
            *one,
            *extra,
        ),
        termination_duration=histogram(
            f"{prefix}_termination_duration_seconds",
            f"Seconds from the deletion of {whose} until it is removed.",
            *extra,
            buckets=TRANSITIONS,
        ),
    )


NODECLAIM: Final = condition_metrics("operator_nodeclaim", "a NodeClaim", NODE_CLASSES, _NODEPOOL)
NODEPOOL: Final = condition_metrics("operator_nodepool", "a NodePool")
NODE: Final = condition_metrics("operator_node", "a node", NODE_CLASSES, _NODEPOOL, _INITIALIZED)
CAPACITYBUFFER: Final = condition_metrics("operator_capacitybuffer", "a CapacityBuffer")
EVERY_KIND: Final = condition_metrics("operator", "an object of any kind (deprecated)", "kind", "group")

METRICS: Final = (*NODECLAIM.all, *NODEPOOL.all, *NODE.all, *CAPACITYBUFFER.all, *EVERY_KIND.all)
