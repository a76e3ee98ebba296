"""Metrics of nodes: their number, their room, what their pods ask for, and how old they get."""

from typing import Final

from karpenter.telemetry.metrics.store import LIFETIMES, WELL_KNOWN, age, counter, gauge, histogram, summary

_NODE: Final = (WELL_KNOWN, "node_name", "phase", "managed")
_RESOURCE: Final = (*_NODE, "resource_type")

CREATED: Final = counter(
    "karpenter_nodes_created_total", "Nodes of ours that have joined the cluster.", "nodepool", "zone"
)
TERMINATED: Final = counter(
    "karpenter_nodes_terminated_total", "Nodes of ours that have left the cluster.", "nodepool", "zone"
)
TERMINATION_DURATION: Final = summary(
    "karpenter_nodes_termination_duration_seconds",
    "Seconds from the deletion of a node until it has left.",
    "nodepool",
)
DRAINED: Final = counter(
    "karpenter_nodes_drained_total", "Nodes from which the last pod that had to move has moved.", "nodepool"
)
LIFETIME_DURATION: Final = histogram(
    "karpenter_nodes_lifetime_duration_seconds",
    "Seconds that a node had lived when it left.",
    "nodepool",
    buckets=LIFETIMES,
)
ALLOCATABLE: Final = gauge("karpenter_nodes_allocatable", "Room for pods on a node.", *_RESOURCE)
TOTAL_POD_REQUESTS: Final = gauge(
    "karpenter_nodes_total_pod_requests", "What the pods on a node request, daemons left out.", *_RESOURCE
)
TOTAL_POD_LIMITS: Final = gauge(
    "karpenter_nodes_total_pod_limits", "What the pods on a node may use, daemons left out.", *_RESOURCE
)
TOTAL_DAEMON_REQUESTS: Final = gauge(
    "karpenter_nodes_total_daemon_requests", "What the daemons on a node request.", *_RESOURCE
)
TOTAL_DAEMON_LIMITS: Final = gauge(
    "karpenter_nodes_total_daemon_limits", "What the daemons on a node may use.", *_RESOURCE
)
SYSTEM_OVERHEAD: Final = gauge(
    "karpenter_nodes_system_overhead", "What a node keeps for itself: capacity less allocatable.", *_RESOURCE
)
CURRENT_LIFETIME: Final = age(
    "karpenter_nodes_current_lifetime_seconds", "Seconds since a node was created.", *_NODE
)
UTILIZATION: Final = gauge(
    "karpenter_cluster_utilization_percent",
    "Share of the room on all nodes that pods and daemons request, in percent.",
    "resource_type",
)

METRICS: Final = (
    CREATED,
    TERMINATED,
    TERMINATION_DURATION,
    DRAINED,
    LIFETIME_DURATION,
    ALLOCATABLE,
    TOTAL_POD_REQUESTS,
    TOTAL_POD_LIMITS,
    TOTAL_DAEMON_REQUESTS,
    TOTAL_DAEMON_LIMITS,
    SYSTEM_OVERHEAD,
    CURRENT_LIFETIME,
    UTILIZATION,
)
