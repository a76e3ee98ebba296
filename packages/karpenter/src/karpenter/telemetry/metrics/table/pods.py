"""Metrics of pods: state, scheduling and startup latency, and evictions."""

from typing import Final

from karpenter.telemetry.metrics.instruments import DURATIONS, age, counter, gauge, histogram, summary

_REASONS: Final = ("provisioned", "disrupted")

STATE: Final = gauge(
    "karpenter_pods_state",
    "One for every pod; the labels are its state and that of its node.",
    "name",
    "namespace",
    "owner",
    "node",
    "scheduled",
    "nodepool",
    "zone",
    "arch",
    "capacity_type",
    "instance_type",
    "phase",
    "ready",
    "managed",
)
STARTUP_DURATION: Final = summary(
    "karpenter_pods_startup_duration_seconds", "Seconds from the creation of a pod until it was ready."
)
BOUND_DURATION: Final = histogram(
    "karpenter_pods_bound_duration_seconds",
    "Seconds from the creation of a pod until it was bound.",
    buckets=DURATIONS,
)
PROVISIONING_BOUND_DURATION: Final = histogram(
    "karpenter_pods_provisioning_bound_duration_seconds",
    "Seconds from when Karpenter first found a pod schedulable until it was bound.",
    buckets=DURATIONS,
)
PROVISIONING_STARTUP_DURATION: Final = histogram(
    "karpenter_pods_provisioning_startup_duration_seconds",
    "Seconds from when Karpenter first found a pod schedulable until it was ready.",
    buckets=DURATIONS,
)
UNSTARTED_TIME: Final = age(
    "karpenter_pods_unstarted_time_seconds",
    "Seconds that a pod has existed without being ready.",
    "name",
    "namespace",
)
UNBOUND_TIME: Final = age(
    "karpenter_pods_unbound_time_seconds",
    "Seconds that a pod has existed without being bound.",
    "name",
    "namespace",
)
PROVISIONING_UNBOUND_TIME: Final = age(
    "karpenter_pods_provisioning_unbound_time_seconds",
    "Seconds that a pod has not been bound since Karpenter found it schedulable.",
    "name",
    "namespace",
)
PROVISIONING_UNSTARTED_TIME: Final = age(
    "karpenter_pods_provisioning_unstarted_time_seconds",
    "Seconds that a pod has not been ready since Karpenter found it schedulable.",
    "name",
    "namespace",
)
UNDECIDED_TIME: Final = age(
    "karpenter_pods_provisioning_scheduling_undecided_time_seconds",
    "Seconds since Karpenter first saw a pod that it has not decided about.",
    "name",
    "namespace",
)
DECISION_DURATION: Final = histogram(
    "karpenter_pods_scheduling_decision_duration_seconds",
    "Seconds from when Karpenter first saw a pod until its first scheduling decision.",
    buckets=DURATIONS,
)
DISRUPTION_INITIATED: Final = counter(
    "karpenter_pods_disruption_initiated_total",
    "Reschedulable pods of disrupted nodes, by reason of the disruption.",
    "reason",
    "nodepool",
    "capacity_type",
    "consolidation_policy",
    "termination_mode",
)
EVICTION_REQUESTS: Final = counter(
    "karpenter_pods_eviction_requests_total",
    "Eviction requests to the API server, by response code.",
    "code",
)
DRAINED: Final = counter("karpenter_pods_drained_total", "Pods drained from their node, by reason.", "reason")
NOMINATED: Final = counter(
    "karpenter_pods_nominated_total",
    "Pods for which a node was planned, by whether they were bound to it (planned) or elsewhere. The reason"
    " is provisioned, or disrupted for pods that came in the stead of those of a disrupted node.",
    "outcome",
    "reason",
    seeds=tuple((outcome, reason) for outcome in ("planned", "elsewhere") for reason in _REASONS),
)

METRICS: Final = (
    STATE,
    STARTUP_DURATION,
    BOUND_DURATION,
    PROVISIONING_BOUND_DURATION,
    PROVISIONING_STARTUP_DURATION,
    UNSTARTED_TIME,
    UNBOUND_TIME,
    PROVISIONING_UNBOUND_TIME,
    PROVISIONING_UNSTARTED_TIME,
    UNDECIDED_TIME,
    DECISION_DURATION,
    DISRUPTION_INITIATED,
    EVICTION_REQUESTS,
    DRAINED,
    NOMINATED,
)
