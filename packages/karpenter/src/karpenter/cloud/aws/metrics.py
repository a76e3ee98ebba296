"""The metrics that only this provider has, by Karpenter's names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karpenter.telemetry.metrics.instruments import DURATIONS, age, counter, doubling, gauge, histogram
from karpenter.telemetry.metrics.table.conditions import condition_metrics

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping

    from karpenter.cloud.aws.sdk import ApiCall
    from karpenter.telemetry.metrics import CounterMetric, GaugeMetric, HistogramMetric, Metrics, MetricSpec


RECEIVED: Final = counter(
    "karpenter_interruption_received_messages_total",
    "Messages that came through the interruption queue, by what they tell.",
    "message_type",
)
DELETED: Final = counter(
    "karpenter_interruption_deleted_messages_total",
    "Messages of the interruption queue that were dealt with.",
)
QUEUED: Final = histogram(
    "karpenter_interruption_message_queue_duration_seconds",
    "Seconds from an event until its message was dealt with.",
    buckets=DURATIONS,
)
LAST_RECEIVE: Final = gauge(
    "karpenter_interruption_last_receive_timestamp_seconds",
    "When SQS last answered for the interruption queue, with or without messages. Ours.",
)
LAST_MESSAGE: Final = gauge(
    "karpenter_interruption_last_message_timestamp_seconds",
    "When the last message came through the interruption queue. Ours.",
)
UNHEALTHY: Final = counter(
    "karpenter_interruption_instance_status_unhealthy_total",
    "Machines that EC2 began to call unhealthy, by what is wrong.",
    "category",
)
CPU_CORES: Final = gauge(
    "karpenter_cloudprovider_instance_type_cpu_cores", "Cores of an instance type.", "instance_type"
)
MEMORY_BYTES: Final = gauge(
    "karpenter_cloudprovider_instance_type_memory_bytes",
    "Memory of an instance type, before anything is subtracted.",
    "instance_type",
)
OFFERING_AVAILABLE: Final = gauge(
    "karpenter_cloudprovider_instance_type_offering_available",
    "One when some pool could buy an offering at the moment, zero when none could.",
    "instance_type",
    "capacity_type",
    "zone",
)
OFFERING_PRICE: Final = gauge(
    "karpenter_cloudprovider_instance_type_offering_price_estimate",
    "What an offering is taken to cost per hour.",
    "instance_type",
    "capacity_type",
    "zone",
)
PRICE_DATA_AGE: Final = age(
    "karpenter_cloudprovider_price_data_age_seconds",
    "Seconds since AWS was last read for prices, or since the date of those that ship. Ours.",
    "capacity_type",
)
LAUNCH_FAILURES: Final = counter(
    "karpenter_cloudprovider_instance_launch_failures_total",
    "Offerings that a launch could not get, by why: a word such as VCPULimitExceeded, or LaunchFailed.",
    "zone",
    "zone_id",
    "capacity_type",
    "reason",
)
TERMINATION_FAILURES: Final = counter(
    "karpenter_cloudprovider_instance_termination_failures_total",
    "Machines that EC2 did not end when it was asked to.",
    "zone",
    "zone_id",
)
BATCH_TIME: Final = histogram(
    "karpenter_cloudprovider_batcher_batch_time_seconds",
    "Seconds that calls were waited for before they were sent together.",
    "batcher",
    buckets=DURATIONS,
)
BATCH_SIZE: Final = histogram(
    "karpenter_cloudprovider_batcher_batch_size",
    "Calls that were sent together.",
    "batcher",
    buckets=(
        *(1.0, 2.0, 4.0, 5.0, 10.0, 15.0, 20.0, 25.0),
        *(float(size) for size in range(30, 101, 10)),
        *(float(size) for size in range(125, 301, 25)),
        *(float(size) for size in range(350, 601, 50)),
        *(float(size) for size in range(700, 1001, 100)),
    ),
)
USER_DATA_BYTES: Final = gauge(
    "karpenter_ec2nodeclasses_userdata_bytes",
    "Size of the user data that machines of a node class start with; EC2 takes 16384 bytes.",
    "nodeclass",
)

_CALL: Final = ("service", "action", "code")
_LATENCIES: Final = doubling(0.001, 10)

REQUESTS: Final = counter(
    "aws_sdk_go_request_total", "Calls to AWS, by the status of their last answers; 0 without one.", *_CALL
)
REQUEST_DURATION: Final = histogram(
    "aws_sdk_go_request_duration_seconds",
    "Seconds that calls to AWS take, with all their attempts.",
    *_CALL,
    buckets=_LATENCIES,
)
RETRIES: Final = histogram(
    "aws_sdk_go_request_retry_count",
    "How often calls to AWS were sent again.",
    *_CALL,
    buckets=tuple(float(count) for count in range(11)),
)
ATTEMPTS: Final = counter(
    "aws_sdk_go_request_attempt_total", "Times that calls were sent to AWS, by the answers.", *_CALL
)
ATTEMPT_DURATION: Final = histogram(
    "aws_sdk_go_request_attempt_duration_seconds",
    "Seconds that AWS takes to answer when a call was sent.",
    *_CALL,
    buckets=_LATENCIES,
)
CLASS_CONDITIONS: Final = condition_metrics("operator_ec2nodeclass", "an EC2NodeClass")

METRICS: Final = (
    RECEIVED,
    DELETED,
    QUEUED,
    LAST_RECEIVE,
    LAST_MESSAGE,
    UNHEALTHY,
    CPU_CORES,
    MEMORY_BYTES,
    OFFERING_AVAILABLE,
    OFFERING_PRICE,
    PRICE_DATA_AGE,
    LAUNCH_FAILURES,
    TERMINATION_FAILURES,
    BATCH_TIME,
    BATCH_SIZE,
    USER_DATA_BYTES,
    REQUESTS,
    REQUEST_DURATION,
    RETRIES,
    ATTEMPTS,
    ATTEMPT_DURATION,
    *CLASS_CONDITIONS.all,
)


class ProviderMetrics:
    """The metrics of the operator; until it has set them with :meth:`use`, nothing is recorded."""

    def __init__(self) -> None:
        self._metrics: Metrics | None = None

    def use(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def note_call(self, called: ApiCall) -> None:
        what = {"service": called.service, "action": called.action}
        self.count(REQUESTS, **what, code=called.code)
        self.observe(REQUEST_DURATION, called.seconds, **what, code=called.code)
        self.observe(RETRIES, float(called.retries), **what, code=called.code)
        for each in called.attempts:
            self.count(ATTEMPTS, **what, code=each.code)
            self.observe(ATTEMPT_DURATION, each.seconds, **what, code=each.code)

    def count(self, declared: MetricSpec[CounterMetric], **labels: str) -> None:
        if self._metrics is not None:
            self._metrics[declared].add(**labels)

    def observe(self, declared: MetricSpec[HistogramMetric], value: float, **labels: str) -> None:
        if self._metrics is not None:
            self._metrics[declared].observe(value, **labels)

    def show(
        self,
        declared: MetricSpec[GaugeMetric],
        owner: Hashable,
        rows: Iterable[tuple[float, Mapping[str, str]]],
    ) -> None:
        """Show these rows for `owner`, in place of all that were shown for it before."""
        if self._metrics is not None:
            self._metrics[declared].publish(owner, rows)
