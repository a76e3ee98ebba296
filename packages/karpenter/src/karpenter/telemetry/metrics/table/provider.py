"""Metrics of calls to the cloud provider."""

from typing import Final

from karpenter.telemetry.metrics.instruments import CALLS, counter, gauge, histogram

DURATION: Final = histogram(
    "karpenter_cloudprovider_duration_seconds",
    "Seconds that a call to the provider takes.",
    "controller",
    "method",
    "provider",
    buckets=CALLS,
)
ERRORS: Final = counter(
    "karpenter_cloudprovider_errors_total",
    "Calls to the provider that ended in an error, by type of error.",
    "controller",
    "method",
    "provider",
    "error",
)

ORPHANED: Final = gauge(
    "karpenter_cloudprovider_orphaned_machines",
    "Machines without a NodeClaim that the last comparison found, and terminates. Ours.",
    "provider",
)

METRICS: Final = (DURATION, ERRORS, ORPHANED)
