"""Metrics of the process: its build, its control loops and queues, its requests, and who leads."""

from typing import Final

from karpenter.telemetry.metrics.store import CALLS, counter, gauge, growing, histogram

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
    "Always one; the labels tell which build runs, on which Python (goversion) and processor (goarch).",
    "version",
    "goversion",
    "goarch",
    "commit",
)
RECONCILES: Final = counter(
    "controller_runtime_reconcile_total",
    "Steps of a controller, by how they ended: success, error, requeue or requeue_after.",
    "controller",
    "result",
)
RECONCILE_ERRORS: Final = counter(
    "controller_runtime_reconcile_errors_total", "Steps of a controller that ended in an error.", "controller"
)
TERMINAL_RECONCILE_ERRORS: Final = counter(
    "controller_runtime_terminal_reconcile_errors_total",
    "Steps of a controller that ended in an error and are not tried again; zero, since all are.",
    "controller",
)
RECONCILE_PANICS: Final = counter(
    "controller_runtime_reconcile_panics_total",
    "Steps of a controller that ended in an error of our own program.",
    "controller",
)
RECONCILE_TIMEOUTS: Final = counter(
    "controller_runtime_reconcile_timeouts_total",
    "Steps of a controller that ended because the cloud did not answer in time.",
    "controller",
)
RECONCILE_TIME: Final = histogram(
    "controller_runtime_reconcile_time_seconds",
    "Seconds that one step of a controller takes.",
    "controller",
    buckets=_RECONCILES,
)
MAX_CONCURRENT_RECONCILES: Final = gauge(
    "controller_runtime_max_concurrent_reconciles",
    "Steps that a controller may take at a time.",
    "controller",
)
ACTIVE_WORKERS: Final = gauge(
    "controller_runtime_active_workers", "Steps that a controller is taking right now.", "controller"
)
WORKQUEUE_DEPTH: Final = gauge("workqueue_depth", "Objects that wait for a controller.", "controller", "name")
WORKQUEUE_ADDS: Final = counter(
    "workqueue_adds_total", "Objects that were handed to a controller.", "controller", "name"
)
WORKQUEUE_QUEUE_DURATION: Final = histogram(
    "workqueue_queue_duration_seconds",
    "Seconds that an object waits for its controller.",
    "controller",
    "name",
    buckets=_QUEUES,
)
WORKQUEUE_WORK_DURATION: Final = histogram(
    "workqueue_work_duration_seconds",
    "Seconds that a controller works on an object.",
    "controller",
    "name",
    buckets=_QUEUES,
)
WORKQUEUE_RETRIES: Final = counter(
    "workqueue_retries_total", "Objects that a controller wants to see again.", "controller", "name"
)
WORKQUEUE_UNFINISHED: Final = gauge(
    "workqueue_unfinished_work_seconds", "Seconds of work under way, added up.", "controller", "name"
)
WORKQUEUE_LONGEST: Final = gauge(
    "workqueue_longest_running_processor_seconds",
    "Seconds that the longest work under way has taken so far.",
    "controller",
    "name",
)
CLIENT_REQUESTS: Final = counter(
    "rest_client_requests_total",
    "Requests to the API server, by the code of its answer.",
    "code",
    "host",
    "method",
)
CLIENT_REQUEST_DURATION: Final = histogram(
    "rest_client_request_duration_seconds",
    "Seconds that a request to the API server takes, waits for our own limits left out.",
    "host",
    "method",
    buckets=CALLS,
)
CLIENT_GO_REQUESTS: Final = counter(
    "client_go_request_total",
    "Requests to the API server, by the code of its answer and the HTTP method.",
    "code",
    "method",
)
CLIENT_GO_REQUEST_DURATION: Final = histogram(
    "client_go_request_duration_seconds",
    "Seconds that a request to the API server takes, by what is done with which kind of objects.",
    "verb",
    "group",
    "version",
    "kind",
    "subresource",
    buckets=growing(0.001, 1.5, 20),
)
LEADER: Final = gauge(
    "leader_election_master_status",
    "One while this process leads, else zero; by the name of the lease.",
    "name",
)

LEADER_SLOW_PATH: Final = counter(
    "leader_election_slowpath_total",
    "Renewals of the lease that failed at first, so that it had to be read again; by its name.",
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
