"""Work that ends: jobs and the schedules that start them."""

from typing import ClassVar

from karpenter.api.meta import LabelSelector, ObjectMeta, ObjectReference, Resource, Timestamp
from karpenter.api.pod import PodTemplateSpec
from karpenter.api.wire import Wire
from karpenter.api.workloads import WorkloadCondition


class JobSpec(Wire, frozen=True, kw_only=True):
    """How often a job's pod has to succeed, and how many may run at once."""

    parallelism: int | None = None
    completions: int | None = None
    completion_mode: str = ""
    backoff_limit: int | None = None
    active_deadline_seconds: int | None = None
    ttl_seconds_after_finished: int | None = None
    suspend: bool = False
    manual_selector: bool = False
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()


class JobStatus(Wire, frozen=True, kw_only=True):
    """How far a job has come."""

    active: int = 0
    ready: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int = 0
    completed_indexes: str = ""
    start_time: Timestamp | None = None
    completion_time: Timestamp | None = None
    conditions: tuple[WorkloadCondition, ...] = ()


class Job(Resource, frozen=True, kw_only=True):
    """Pods that run to their end."""

    api_version: ClassVar[str] = "batch/v1"
    kind: ClassVar[str] = "Job"

    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


class JobTemplateSpec(Wire, frozen=True, kw_only=True):
    """The jobs that a schedule makes."""

    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()


class CronJobSpec(Wire, frozen=True, kw_only=True):
    """When to start which job."""

    schedule: str = ""
    time_zone: str | None = None
    starting_deadline_seconds: int | None = None
    concurrency_policy: str = ""
    suspend: bool = False
    successful_jobs_history_limit: int | None = None
    failed_jobs_history_limit: int | None = None
    job_template: JobTemplateSpec = JobTemplateSpec()


class CronJobStatus(Wire, frozen=True, kw_only=True):
    """What a schedule has started."""

    active: tuple[ObjectReference, ...] = ()
    last_schedule_time: Timestamp | None = None
    last_successful_time: Timestamp | None = None


class CronJob(Resource, frozen=True, kw_only=True):
    """A job on a schedule."""

    api_version: ClassVar[str] = "batch/v1"
    kind: ClassVar[str] = "CronJob"

    spec: CronJobSpec = CronJobSpec()
    status: CronJobStatus = CronJobStatus()
