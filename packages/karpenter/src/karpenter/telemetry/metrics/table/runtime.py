"""Metrics of the process: build, reconciles, queues, requests to API server and cloud, leader election."""

from typing import Final

from karpenter.telemetry.metrics.instruments import CALLS, counter, gauge, growing, histogram

# fmt: off
_RECONCILES: Final = (
    .005, .01, .025, .05, .1, .15, .2, .25, .3, .35, .4, .45, .5, .6, .7, .8, .9, 1.0,
    1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0,
    40.0, 50.0, 60.0,
)
# fmt: on
_QUEUES: Final = tuple(10.0**power for power in range(-8, 4))

BUILD_INFO: Final = gauge(
    "karpenter_build_info",
    "Always one; the labels are the version, the Python version (goversion) and the processor (goarch).",
    "version",
    "goversion",
    "goarch",
    "commit",
)
RECONCILES: Final = counter(
    "controller_runtime_reconcile_total",
    "Reconciles of a controller, by result: success, error, requeue or requeue_after.",
    "controller",
    "result",
)
RECONCILE_ERRORS: Final = counter(
    "controller_runtime_reconcile_errors_total",
    "Reconciles of a controller that ended in an error.",
    "controller",
)
TERMINAL_RECONCILE_ERRORS: Final = counter(
    "controller_runtime_terminal_reconcile_errors_total",
    "Reconciles of a controller that ended in an error and are not retried; always zero, because all are.",
    "controller",
)
RECONCILE_PANICS: Final = counter(
    "controller_runtime_reconcile_panics_total",
    "Reconciles of a controller that ended in an exception which it does not expect.",
    "controller",
)
RECONCILE_TIMEOUTS: Final = counter(
    "controller_runtime_reconcile_timeouts_total",
    "Reconciles of a controller that ended because a call of the cloud provider timed out.",
    "controller",
)
RECONCILE_TIME: Final = histogram(
    "controller_runtime_reconcile_time_seconds",
    "Seconds that one reconcile of a controller takes.",
    "controller",
    buckets=_RECONCILES,
)
MAX_CONCURRENT_RECONCILES: Final = gauge(
    "controller_runtime_max_concurrent_reconciles",
    "Most concurrent reconciles of a controller.",
    "controller",
)
ACTIVE_WORKERS: Final = gauge(
    "controller_runtime_active_workers", "Reconciles of a controller in progress.", "controller"
)
WORKQUEUE_DEPTH: Final = gauge(
    "workqueue_depth", "Keys in the work queue of a controller.", "controller", "name"
)
WORKQUEUE_ADDS: Final = counter(
    "workqueue_adds_total", "Keys added to the work queue of a controller.", "controller", "name"
)
WORKQUEUE_QUEUE_DURATION: Final = histogram(
    "workqueue_queue_duration_seconds",
    "Seconds that a key waits in the work queue.",
    "controller",
    "name",
    buckets=_QUEUES,
)
WORKQUEUE_WORK_DURATION: Final = histogram(
    "workqueue_work_duration_seconds",
    "Seconds that the processing of a key takes.",
    "controller",
    "name",
    buckets=_QUEUES,
)
WORKQUEUE_RETRIES: Final = counter(
    "workqueue_retries_total", "Keys retried after an error or requeue.", "controller", "name"
)
WORKQUEUE_UNFINISHED: Final = gauge(
    "workqueue_unfinished_work_seconds",
    "Seconds of the reconciles in progress, added up.",
    "controller",
    "name",
)
WORKQUEUE_LONGEST: Final = gauge(
    "workqueue_longest_running_processor_seconds",
    "Seconds that the longest reconcile in progress has taken so far.",
    "controller",
    "name",
)
CLIENT_REQUESTS: Final = counter(
    "rest_client_requests_total",
    "Requests to the API server, by response code.",
    "code",
    "host",
    "method",
)
CLIENT_REQUEST_DURATION: Final = histogram(
    "rest_client_request_duration_seconds",
    "Seconds that a request to the API server takes, without waits for the client's rate limit.",
    "host",
    "method",
    buckets=CALLS,
)
CLIENT_GO_REQUESTS: Final = counter(
    "client_go_request_total",
    "Requests to the API server, by response code and HTTP method.",
    "code",
    "method",
)
CLIENT_GO_REQUEST_DURATION: Final = histogram(
    "client_go_request_duration_seconds",
    "Seconds that a request to the API server takes, by verb and kind.",
    "verb",
    "group",
    "version",
    "kind",
    "subresource",
    buckets=growing(0.001, 1.5, 20),
)
LEADER: Final = gauge(
    "leader_election_master_status",
    "One while this process is the leader, else zero; by the name of the Lease.",
    "name",
)

LEADER_SLOW_PATH: Final = counter(
    "leader_election_slowpath_total",
    "Renewals of the Lease that failed at first, so that it was read again; by the name of the Lease.",
    "name",
)

METRICS: Final = (
    BUILD_INFO,
    RECONCILES,
    RECONCILE_ERRORS,
    TERMINAL_RECONCILE_ERRORS,
    RECONCILE_PANICS,
    RECONCILE_TIMEOUTS,
    RECONCILE_TIME,
    MAX_CONCURRENT_RECONCILES,
    ACTIVE_WORKERS,
    WORKQUEUE_DEPTH,
    WORKQUEUE_ADDS,
    WORKQUEUE_QUEUE_DURATION,
    WORKQUEUE_WORK_DURATION,
    WORKQUEUE_RETRIES,
    WORKQUEUE_UNFINISHED,
    WORKQUEUE_LONGEST,
    CLIENT_REQUESTS,
    CLIENT_REQUEST_DURATION,
    CLIENT_GO_REQUESTS,
    CLIENT_GO_REQUEST_DURATION,
    LEADER,
    LEADER_SLOW_PATH,
)

CLOUD_DURATION: Final = histogram(
    "karpenter_cloudprovider_duration_seconds",
    "Seconds that a call to the provider takes.",
    "controller",
    "method",
    "provider",
    buckets=CALLS,
)
CLOUD_ERRORS: Final = counter(
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

CLOUD_PROVIDER: Final = (CLOUD_DURATION, CLOUD_ERRORS, ORPHANED)
