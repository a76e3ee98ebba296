"""
Cron jobs: a job whenever the schedule says so. What the schedule says is worked out in :mod:`.cron_plan`.

What happens when the job before still runs is the cron job's own choice: start another, skip this one, or
replace it.
"""

from datetime import datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from karpenter.base.clock import Clock
from karpenter.base.cron import CronError, parse_cron
from karpenter.base.queue import WorkQueue
from karpenter.kube.errors import AlreadyExists
from karpenter.kube.targets import Plain
from karpenter_local.controllers import cron_plan, job_plan, plain
from karpenter_local.controllers.informers import BY_OWNER, CRON_JOBS, JOBS, Informers
from karpenter_local.controllers.loop import wake
from karpenter_local.controllers.status import write_status
from karpenter_local.controllers.writer import Writer

_AFTER_DUE = 0.1  # look just after the moment, not just before it


class CronJobController:
    """Starts jobs on schedule."""

    name = "cronjob"

    def __init__(self, informers: Informers, writer: Writer, clock: Clock) -> None:
        self._cron_jobs = informers.cron_jobs
        self._jobs = informers.jobs
        self._writer = writer
        self._clock = clock

    def watch(self, queue: WorkQueue[str]) -> None:
        wake(self._cron_jobs, queue, lambda value: [plain.key_of(value)])
        wake(self._jobs, queue, _cron_job_of)

    async def reconcile(self, key: str) -> float | None:
        """Start what is due, forget what is old, write the status."""
        owner = self._cron_jobs.store.get(key)
        if owner is None or plain.is_leaving(owner):
            return None
        now = self._clock.now()
        started, upcoming = await self._start_due(owner, now)
        jobs = list(self._jobs.store.find(BY_OWNER, plain.uid_of(owner)))
        for each in cron_plan.expendable(owner, jobs):
            await self._delete(owner, each)
        jobs = list(self._jobs.store.find(BY_OWNER, plain.uid_of(owner)))
        await write_status(self._writer, CRON_JOBS, owner, cron_plan.status(owner, jobs, started=started))
        return None if upcoming is None else (upcoming - now).total_seconds() + _AFTER_DUE

    async def _start_due(self, owner: Plain, now: datetime) -> tuple[datetime | None, datetime | None]:
        """Start the job that is due; return the time it was started for, and when the next one is due."""
        spec = plain.spec_of(owner)
        if spec.get("suspend"):
            return None, None
        try:
            schedule = parse_cron(spec.get("schedule"))
            zone = ZoneInfo(spec.get("timeZone") or "UTC")
        except (CronError, ZoneInfoNotFoundError, ValueError) as error:
            self._writer.record_event(
                owner, "Warning", "UnparseableSchedule", f"unparseable schedule: {error}"
            )
            return None, None
        found = cron_plan.times(schedule, zone, cron_plan.last_acted_on(owner, now), now)
        if found.due is None:
            return None, found.next
        if found.missed > cron_plan.MOST_MISSED:
            message = (
                "too many missed start times. "
                "Set or decrease .spec.startingDeadlineSeconds or check clock skew"
            )
            self._writer.record_event(owner, "Warning", "TooManyMissedTimes", message)
        running = [
            each
            for each in self._jobs.store.find(BY_OWNER, plain.uid_of(owner))
            if job_plan.result_of(each) is None
        ]
        policy = spec.get("concurrencyPolicy", "Allow")
        if running and policy == "Forbid":
            message = "Not starting job because prior execution is running and concurrency policy is Forbid"
            self._writer.record_event(owner, "Normal", "JobAlreadyActive", message)
            return None, found.next
        if policy == "Replace":
            for each in running:
                await self._delete(owner, each)
        await self._start(owner, found.due)
        return found.due, found.next

    async def _start(self, owner: Plain, due: datetime) -> None:
        try:
            made = await self._writer.create(
                JOBS, cron_plan.job_for(owner, due), namespace=plain.namespace_of(owner)
            )
        except AlreadyExists:
            return  # started before, but the status did not get to say so
        self._writer.record_event(owner, "Normal", "SuccessfulCreate", f"Created job {plain.name_of(made)}")

    async def _delete(self, owner: Plain, job: Plain) -> None:
        if await self._writer.delete(
            JOBS,
            plain.name_of(job),
            namespace=plain.namespace_of(job),
            uid=plain.uid_of(job),
            propagation="Background",
        ):
            self._writer.record_event(
                owner, "Normal", "SuccessfulDelete", f"Deleted job {plain.name_of(job)}"
            )


def _cron_job_of(job: Plain) -> list[str]:
    return [
        f"{plain.namespace_of(job)}/{owner['name']}"
        for owner in plain.owners_of(job)
        if owner.get("controller") and owner["kind"] == "CronJob"
    ]
