"""Metrics of nodes: count, allocatable, requests and limits of their pods, and lifetime."""

from typing import Final

from karpenter.telemetry.metrics.instruments import (
    LIFETIMES,
    WELL_KNOWN,
    age,
    counter,
    gauge,
    histogram,
    summary,
)

_NODE: Final = (WELL_KNOWN, "node_name", "phase", "managed")
_RESOURCE: Final = (*_NODE, "resource_type")

CREATED: Final = counter(
    "karpenter_nodes_created_total", "Nodes registered for a NodeClaim.", "nodepool", "zone"
)
TERMINATED: Final = counter("karpenter_nodes_terminated_total", "Nodes terminated.", "nodepool", "zone")
TERMINATION_DURATION: Final = summary(
    "karpenter_nodes_termination_duration_seconds",
    "Seconds from the deletion of a node until it is removed.",
    "nodepool",
)
DRAINED: Final = counter("karpenter_nodes_drained_total", "Nodes drained.", "nodepool")
LIFETIME_DURATION: Final = histogram(
    "karpenter_nodes_lifetime_duration_seconds",
    "Lifetime of a node in seconds when it was removed.",
    "nodepool",
    buckets=LIFETIMES,
)
ALLOCATABLE: Final = gauge("karpenter_nodes_allocatable", "Allocatable resources of a node.", *_RESOURCE)
TOTAL_POD_REQUESTS: Final = gauge(
    "karpenter_nodes_total_pod_requests",
    "Requests of all pods of a node, DaemonSet pods included.",
    *_RESOURCE,
)
TOTAL_POD_LIMITS: Final = gauge(
    "karpenter_nodes_total_pod_limits", "Limits of all pods of a node, DaemonSet pods included.", *_RESOURCE
)
TOTAL_DAEMON_REQUESTS: Final = gauge(
    "karpenter_nodes_total_daemon_requests", "Requests of the DaemonSet pods of a node.", *_RESOURCE
)
TOTAL_DAEMON_LIMITS: Final = gauge(
    "karpenter_nodes_total_daemon_limits", "Limits of the DaemonSet pods of a node.", *_RESOURCE
)
SYSTEM_OVERHEAD: Final = gauge(
    "karpenter_nodes_system_overhead", "Capacity of a node less its allocatable resources.", *_RESOURCE
)
CURRENT_LIFETIME: Final = age(
    "karpenter_nodes_current_lifetime_seconds", "Seconds since a node was created.", *_NODE
)
UTILIZATION: Final = gauge(
    "karpenter_cluster_utilization_percent",
    "Requests of all pods as a percentage of the allocatable resources of all nodes.",
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
