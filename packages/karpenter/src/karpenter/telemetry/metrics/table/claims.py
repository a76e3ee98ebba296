"""Metrics of NodeClaims: how many are made and ended, why, and how long their end takes."""

from typing import Final

from karpenter.telemetry.metrics.store import counter, doubling, histogram

CREATED: Final = counter(
    "karpenter_nodeclaims_created_total",
    "Claims that were created, by why: provisioned, or the reason of the disruption that they replace"
    " something for.",
    "reason",
    "nodepool",
    "min_values_relaxed",
)
TERMINATED: Final = counter(
    "karpenter_nodeclaims_terminated_total",
    "Claims that are gone, machine and all.",
    "nodepool",
    "capacity_type",
    "zone",
)
DISRUPTED: Final = counter(
    "karpenter_nodeclaims_disrupted_total",
    "Claims whose deletion was our own decision, by the reason for it.",
    "reason",
    "nodepool",
    "capacity_type",
)
UNHEALTHY_DISRUPTED: Final = counter(
    "karpenter_nodeclaims_unhealthy_disrupted_total",
    "Claims that were deleted because a condition of their node said for too long that it is broken.",
    "condition",
    "nodepool",
    "capacity_type",
    "image_id",
)
INSTANCE_TERMINATION_DURATION: Final = histogram(
    "karpenter_nodeclaims_instance_termination_duration_seconds",
    "Seconds from asking the cloud to end a machine until the cloud says that it is gone.",
    "nodepool",
    buckets=doubling(1.0, 11),
)
TERMINATION_DURATION: Final = histogram(
    "karpenter_nodeclaims_termination_duration_seconds",
    "Seconds from the deletion of a claim until it is gone.",
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
