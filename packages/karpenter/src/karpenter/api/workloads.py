"""Workloads: deployments, replica sets, stateful sets, daemon sets, jobs and cron jobs."""

from typing import ClassVar

from msgspec import field

from karpenter.api.meta import (
    Condition,
    IntOrString,
    LabelSelector,
    ObjectMeta,
    ObjectReference,
    Resource,
    Timestamp,
    Wire,
)
from karpenter.api.pod import PersistentVolumeClaimSpec, PodTemplateSpec


class WorkloadCondition(Condition, frozen=True, kw_only=True):
    """One aspect of a workload's state."""

    last_update_time: Timestamp | None = None
    last_probe_time: Timestamp | None = None


# Counts or percentages; percentages of maxSurge round up, those of maxUnavailable round down:
# https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#rolling-update-deployment
class RollingUpdate(Wire, frozen=True, kw_only=True):
    """Limits between which a rollout keeps the number of pods."""

    max_unavailable: IntOrString | None = None
    max_surge: IntOrString | None = None
    partition: int | None = None


class UpdateStrategy(Wire, frozen=True, kw_only=True):
    """Rules for replacing old pods by new ones."""

    type: str = ""
    rolling_update: RollingUpdate | None = None


class DeploymentSpec(Wire, frozen=True, kw_only=True):
    """Wanted state of a deployment."""

    replicas: int | None = None
    """Absent means 1."""

    selector: LabelSelector = LabelSelector()
    template: PodTemplateSpec = PodTemplateSpec()
    strategy: UpdateStrategy = UpdateStrategy()
    min_ready_seconds: int = 0
    revision_history_limit: int | None = None
    paused: bool = False
    progress_deadline_seconds: int | None = None


class DeploymentStatus(Wire, frozen=True, kw_only=True):
    """Observed state of a deployment."""

    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    unavailable_replicas: int = 0
    conditions: tuple[WorkloadCondition, ...] = ()


class Deployment(Resource, frozen=True, kw_only=True):
    """Interchangeable pods, replaced gradually."""

    api_version: ClassVar[str] = "apps/v1"
    kind: ClassVar[str] = "Deployment"

    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()


class ReplicaSetSpec(Wire, frozen=True, kw_only=True):
    """Wanted state of a replica set."""

    replicas: int | None = None
    min_ready_seconds: int = 0
    selector: LabelSelector = LabelSelector()
    template: PodTemplateSpec = PodTemplateSpec()


class ReplicaSetStatus(Wire, frozen=True, kw_only=True):
    """Observed state of a replica set."""

    observed_generation: int = 0
    replicas: int = 0
    fully_labeled_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    conditions: tuple[WorkloadCondition, ...] = ()


class ReplicaSet(Resource, frozen=True, kw_only=True):
    """A count of interchangeable pods."""

    api_version: ClassVar[str] = "apps/v1"
    kind: ClassVar[str] = "ReplicaSet"

    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()


class VolumeClaim(Wire, frozen=True, kw_only=True):
    """A claim that a stateful set makes for each of its pods."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()


# https://kubernetes.io/docs/concepts/workloads/controllers/statefulset/
class StatefulSetSpec(Wire, frozen=True, kw_only=True):
    """Wanted state of a stateful set."""

    replicas: int | None = None
    service_name: str = ""
    pod_management_policy: str = ""
    selector: LabelSelector = LabelSelector()
    template: PodTemplateSpec = PodTemplateSpec()
    update_strategy: UpdateStrategy = UpdateStrategy()
    min_ready_seconds: int = 0
    volume_claim_templates: tuple[VolumeClaim, ...] = ()


class StatefulSetStatus(Wire, frozen=True, kw_only=True):
    """Observed state of a stateful set."""

    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    current_replicas: int = 0
    updated_replicas: int = 0
    available_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""


class StatefulSet(Resource, frozen=True, kw_only=True):
    """Pods with names and volumes of their own."""

    api_version: ClassVar[str] = "apps/v1"
    kind: ClassVar[str] = "StatefulSet"

    spec: StatefulSetSpec = StatefulSetSpec()
    status: StatefulSetStatus = StatefulSetStatus()


# https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/
class DaemonSetSpec(Wire, frozen=True, kw_only=True):
    """Wanted state of a daemon set."""

    selector: LabelSelector = LabelSelector()
    template: PodTemplateSpec = PodTemplateSpec()
    update_strategy: UpdateStrategy = UpdateStrategy()
    min_ready_seconds: int = 0


class DaemonSetStatus(Wire, frozen=True, kw_only=True):
    """Observed state of a daemon set."""

    observed_generation: int = 0
    current_number_scheduled: int = 0
    desired_number_scheduled: int = 0
    number_misscheduled: int = 0
    number_ready: int = 0
    number_available: int = 0
    number_unavailable: int = 0
    updated_number_scheduled: int = 0


class DaemonSet(Resource, frozen=True, kw_only=True):
    """One pod on every node that fits: overhead the scheduler has to leave room for."""

    api_version: ClassVar[str] = "apps/v1"
    kind: ClassVar[str] = "DaemonSet"

    spec: DaemonSetSpec = DaemonSetSpec()
    status: DaemonSetStatus = DaemonSetStatus()


class ReplicationControllerSpec(Wire, frozen=True, kw_only=True):
    """Wanted state of a replication controller."""

    replicas: int | None = None
    selector: dict[str, str] = field(default_factory=dict)
    template: PodTemplateSpec | None = None


class ReplicationController(Resource, frozen=True, kw_only=True):
    """The older form of a replica set."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "ReplicationController"

    spec: ReplicationControllerSpec = ReplicationControllerSpec()


# https://kubernetes.io/docs/concepts/workloads/controllers/job/
class JobSpec(Wire, frozen=True, kw_only=True):
    """Number of times that a job's pod has to succeed, and number of pods at once."""

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
    """Progress of a job."""

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


# https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/
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
    """Jobs that a schedule has started."""

    active: tuple[ObjectReference, ...] = ()
    last_schedule_time: Timestamp | None = None
    last_successful_time: Timestamp | None = None


class CronJob(Resource, frozen=True, kw_only=True):
    """A job on a schedule."""

    api_version: ClassVar[str] = "batch/v1"
    kind: ClassVar[str] = "CronJob"

    spec: CronJobSpec = CronJobSpec()
    status: CronJobStatus = CronJobStatus()
