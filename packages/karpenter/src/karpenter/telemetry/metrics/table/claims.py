"""Metrics of NodeClaims: created, terminated, disrupted, and how long termination takes."""

from typing import Final

from karpenter.telemetry.metrics.instruments import counter, doubling, histogram

CREATED: Final = counter(
    "karpenter_nodeclaims_created_total",
    "NodeClaims created, by reason: provisioned, or the reason of the disruption that they are a"
    " replacement for.",
    "reason",
    "nodepool",
    "min_values_relaxed",
)
TERMINATED: Final = counter(
    "karpenter_nodeclaims_terminated_total",
    "NodeClaims terminated.",
    "nodepool",
    "capacity_type",
    "zone",
)
DISRUPTED: Final = counter(
    "karpenter_nodeclaims_disrupted_total",
    "NodeClaims disrupted by Karpenter, by reason.",
    "reason",
    "nodepool",
    "capacity_type",
)
UNHEALTHY_DISRUPTED: Final = counter(
    "karpenter_nodeclaims_unhealthy_disrupted_total",
    "NodeClaims deleted because their Node was unhealthy for too long, by node condition.",
    "condition",
    "nodepool",
    "capacity_type",
    "image_id",
)
INSTANCE_TERMINATION_DURATION: Final = histogram(
    "karpenter_nodeclaims_instance_termination_duration_seconds",
    "Seconds from the first terminate call until the cloud no longer knows the machine.",
    "nodepool",
    buckets=doubling(1.0, 11),
)
TERMINATION_DURATION: Final = histogram(
    "karpenter_nodeclaims_termination_duration_seconds",
    "Seconds from the deletion of a NodeClaim until it is removed.",
    "nodepool",
    buckets=doubling(1.0, 12),
)

METRICS: Final = (
    CREATED,
    TERMINATED,
    DISRUPTED,
    UNHEALTHY_DISRUPTED,
    INSTANCE_TERMINATION_DURATION,
    TERMINATION_DURATION,
)
