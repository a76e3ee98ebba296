"""Metrics of pods: where each stands, how long it waits for a place and a start, and who drives it off."""

from typing import Final

from karpenter.telemetry.metrics.store import DURATIONS, age, counter, gauge, histogram, summary

STATE: Final = gauge(
    "karpenter_pods_state",
    "One for every pod, with what is known of it and of its node.",
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
    "Seconds from the creation of a pod until it had a node.",
    buckets=DURATIONS,
)
PROVISIONING_BOUND_DURATION: Final = histogram(
    "karpenter_pods_provisioning_bound_duration_seconds",
    "Seconds from our first finding that a pod can have a place until it had a node.",
    buckets=DURATIONS,
)
PROVISIONING_STARTUP_DURATION: Final = histogram(
    "karpenter_pods_provisioning_startup_duration_seconds",
    "Seconds from our first finding that a pod can have a place until it was ready.",
    buckets=DURATIONS,
)
UNSTARTED_TIME: Final = age(
    "karpenter_pods_unstarted_time_seconds",
    "Seconds that a pod has existed without running.",
    "name",
    "namespace",
)
UNBOUND_TIME: Final = age(
    "karpenter_pods_unbound_time_seconds",
    "Seconds that a pod has existed without a node.",
    "name",
    "namespace",
)
PROVISIONING_UNBOUND_TIME: Final = age(
    "karpenter_pods_provisioning_unbound_time_seconds",
    "Seconds that a pod has had no node since we first found that it can have a place.",
    "name",
    "namespace",
)
PROVISIONING_UNSTARTED_TIME: Final = age(
    "karpenter_pods_provisioning_unstarted_time_seconds",
    "Seconds that a pod has not run since we first found that it can have a place.",
    "name",
    "namespace",
)
UNDECIDED_TIME: Final = age(
    "karpenter_pods_provisioning_scheduling_undecided_time_seconds",
    "Seconds since we first saw a pod about whose place nothing was decided yet.",
    "name",
    "namespace",
)
DECISION_DURATION: Final = histogram(
    "karpenter_pods_scheduling_decision_duration_seconds",
    "Seconds from our first seeing a pod to the first decision about its place.",
    buckets=DURATIONS,
)
DISRUPTION_INITIATED: Final = counter(
    "karpenter_pods_disruption_initiated_total",
    "Pods that have to move because the claim of their node was disrupted.",
    "reason",
    "nodepool",
    "capacity_type",
    "consolidation_policy",
    "termination_mode",
)
EVICTION_REQUESTS: Final = counter(
    "karpenter_pods_eviction_requests_total",
    "Evictions that we asked the API server for, by the code of its answer.",
    "code",
)
DRAINED: Final = counter(
    "karpenter_pods_drained_total", "Pods that we made leave their node, by the reason for it.", "reason"
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
)
