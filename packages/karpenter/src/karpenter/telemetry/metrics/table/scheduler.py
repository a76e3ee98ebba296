"""Metrics of the scheduler and of the cluster state."""

from typing import Final

from karpenter.telemetry.metrics.instruments import DURATIONS, gauge, histogram

SCHEDULING_DURATION: Final = histogram(
    "karpenter_scheduler_scheduling_duration_seconds",
    "Seconds that one scheduling run takes, simulations included.",
    "controller",
    buckets=DURATIONS,
)
QUEUE_DEPTH: Final = gauge(
    "karpenter_scheduler_queue_depth",
    "Pods of the scheduling run in progress.",
    "controller",
    "scheduling_id",
)
UNFINISHED_WORK: Final = gauge(
    "karpenter_scheduler_unfinished_work_seconds",
    "Seconds that the scheduling run in progress has taken so far.",
    "controller",
    "scheduling_id",
)
IGNORED_PODS: Final = gauge(
    "karpenter_scheduler_ignored_pods_count",
    "Pending pods that are ignored because their spec is not supported.",
)
UNSCHEDULABLE_PODS: Final = gauge(
    "karpenter_scheduler_unschedulable_pods_count",
    "Pods that the last scheduling run found unschedulable.",
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
    "karpenter_cluster_state_node_count", "Nodes and launched NodeClaims in the cluster state."
)
STATE_SYNCED: Final = gauge(
    "karpenter_cluster_state_synced", "One while the cluster state is synced, else zero."
)
STATE_UNSYNCED_TIME: Final = gauge(
    "karpenter_cluster_state_unsynced_time_seconds",
    "Seconds for which the cluster state has not been synced.",
)
STATE_AGE: Final = gauge(
    "karpenter_cluster_state_age_seconds",
    "Seconds since the API server stopped to answer a watch; zero while it answers all. Ours.",
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
    STATE_AGE,
)
