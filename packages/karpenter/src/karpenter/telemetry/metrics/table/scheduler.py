"""Metrics of decisions about places for pods, and of the state that they are made from."""

from typing import Final

from karpenter.telemetry.metrics.store import DURATIONS, gauge, histogram

SCHEDULING_DURATION: Final = histogram(
    "karpenter_scheduler_scheduling_duration_seconds",
    "Seconds that one search for places takes, real or as a trial.",
    "controller",
    buckets=DURATIONS,
)
QUEUE_DEPTH: Final = gauge(
    "karpenter_scheduler_queue_depth",
    "Pods that a running search has not looked at yet.",
    "controller",
    "scheduling_id",
)
UNFINISHED_WORK: Final = gauge(
    "karpenter_scheduler_unfinished_work_seconds",
    "Seconds that a running search has taken so far.",
    "controller",
    "scheduling_id",
)
IGNORED_PODS: Final = gauge(
    "karpenter_scheduler_ignored_pods_count", "Waiting pods that are left alone because they cannot be read."
)
UNSCHEDULABLE_PODS: Final = gauge(
    "karpenter_scheduler_unschedulable_pods_count",
    "Pods for which the last search found no place.",
    "controller",
)
PENDING_PODS_BY_ZONE: Final = gauge(
    "karpenter_scheduler_pending_pods_by_effective_zone_count",
    "Waiting pods by the zone that they can only be in; flexible for those with a choice, none for those"
    " without any.",
    "controller",
    "zone",
)
STATE_NODE_COUNT: Final = gauge(
    "karpenter_cluster_state_node_count", "Nodes, and machines that will be nodes."
)
STATE_SYNCED: Final = gauge(
    "karpenter_cluster_state_synced", "One while the state holds all that the API server has, else zero."
)
STATE_UNSYNCED_TIME: Final = gauge(
    "karpenter_cluster_state_unsynced_time_seconds", "Seconds that the state has lacked something for."
)

METRICS: Final = (
    SCHEDULING_DURATION,
    QUEUE_DEPTH,
    UNFINISHED_WORK,
    IGNORED_PODS,
    UNSCHEDULABLE_PODS,
    PENDING_PODS_BY_ZONE,
    STATE_NODE_COUNT,
    STATE_SYNCED,
    STATE_UNSYNCED_TIME,
)
