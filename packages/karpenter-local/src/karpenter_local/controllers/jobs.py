"""Jobs: pods that run to their end, and the end of jobs that were done long enough ago."""

from datetime import timedelta

from karpenter.api.pod import Pod
from karpenter.base.clock import Clock
from karpenter.base.queue import WorkQueue
from karpenter.kube.targets import Plain
from karpenter_local.controllers import conditions, job_plan, plain
from karpenter_local.controllers.informers import BY_NAMESPACE, BY_OWNER, JOBS, Informers
from karpenter_local.controllers.job_plan import FINALIZER, JobStep
from karpenter_local.controllers.loop import batch_delay, wake
from karpenter_local.controllers.status import write_status
from karpenter_local.controllers.writer import Writer

# MaxPodCreateDeletePerSync of the Job controller.
BURST = 500


class JobController:
    """Takes jobs to their end."""

    name = "job"

    def __init__(self, informers: Informers, writer: Writer, clock: Clock) -> None:
        self._jobs = informers.jobs
        self._pods = informers.pods
        self._predicate = informers.pod_predicate
        self._writer = writer
        self._clock = clock

    def watch(self, queue: WorkQueue[str]) -> None:
        wake(self._jobs, queue, lambda value: [plain.key_of(value)])
        wake(self._pods, queue, _job_of, after=self._batch_delay, predicate=self._predicate)

    def _batch_delay(self, key: str) -> float:
        job = self._jobs.store.get(key)
        return batch_delay(job_plan.request_of(job).parallelism if job is not None else 0)

    async def reconcile(self, key: str) -> float | None:
        """Count, decide, start or stop pods, write the status."""
        job = self._jobs.store.get(key)
        if job is None:
            # Let go of the pods of a job that is gone, so that they can go too.
            left = [
                pod
                for pod in self._pods.store.find(BY_NAMESPACE, key.partition("/")[0])
                if FINALIZER in pod.metadata.finalizers and key in _job_of(pod)
            ]
            await self._release(left)
            return None
        mine = self._pods.store.find(BY_OWNER, plain.uid_of(job))
        if plain.is_leaving(job) or job_plan.result_of(job) is not None:
            await self._release([pod for pod in mine if FINALIZER in pod.metadata.finalizers])
            return await self._expire(job)
        now = self._clock.now()
        request = job_plan.request_of(job)
        count = job_plan.count_pods(job, request, mine)
        result = job_plan.finished(job, request, count, now)
        step = job_plan.next_step(job, request, count, result, now)
        settled = not count.active and not count.terminating
        await self._perform(job, step)
        if step.create or step.delete:
            mine = self._pods.store.find(BY_OWNER, plain.uid_of(job))
            count = job_plan.count_pods(job, request, mine)
        new = job_plan.status(job, request, count, result, now=now, settled=settled)
        await write_status(self._writer, JOBS, job, new)
        await self._release(count.to_release)
        if count.to_release:
            await self._settle(key)
        self._record_suspension(job, new)
        if result is not None and settled:
            if result.kind == "Complete":
                self._writer.record_event(job, "Normal", "Completed", "Job completed")
            else:
                self._writer.record_event(job, "Warning", result.reason, result.message)
            return 0.0
        return step.wait

    async def _settle(self, key: str) -> None:
        job = self._jobs.store.get(key)
        if job is not None:
            settled = {**plain.status_of(job), "uncountedTerminatedPods": {}}
            # A merge of nothing changes nothing: take the old lists away by name.
            gone = dict.fromkeys(plain.status_of(job).get("uncountedTerminatedPods") or ())
            await self._writer.set_status(
                JOBS,
                plain.name_of(job),
                {**settled, "uncountedTerminatedPods": gone},
                namespace=plain.namespace_of(job),
            )

    def _record_suspension(self, job: Plain, new: Plain) -> None:
        before = conditions.holds(plain.status_of(job).get("conditions") or [], "Suspended")
        after = conditions.holds(new["conditions"], "Suspended") if "conditions" in new else False
        if before != after:
            word = "Suspended" if after else "Resumed"
            self._writer.record_event(job, "Normal", word, f"Job {word.lower()}")

    async def _perform(self, job: Plain, step: JobStep) -> None:
        namespace = plain.namespace_of(job)
        for pod in step.delete:
            if await self._writer.delete(Pod, pod.name, namespace=namespace, uid=pod.metadata.uid):
                self._writer.record_event(job, "Normal", "SuccessfulDelete", f"Deleted pod: {pod.name}")
        for index in step.create[:BURST]:
            made = await self._writer.create(Pod, job_plan.pod_for(job, index), namespace=namespace)
            self._writer.record_event(job, "Normal", "SuccessfulCreate", f"Created pod: {made.name}")

    async def _release(self, counted: "tuple[Pod, ...] | list[Pod]") -> None:
        for pod in counted:
            left = [each for each in pod.metadata.finalizers if each != FINALIZER]
            await self._writer.merge(
                Pod,
                pod.name,
                {"metadata": {"uid": pod.metadata.uid, "finalizers": left or None}},
                namespace=pod.namespace,
            )

    async def _expire(self, job: Plain) -> float | None:
        ended = job_plan.result_of(job)
        ttl = plain.spec_of(job).get("ttlSecondsAfterFinished")
        if ended is None or ttl is None or plain.is_leaving(job):
            return None
        since = plain.parse_time(ended["lastTransitionTime"]) or self._clock.now()
        left = (since + timedelta(seconds=int(ttl)) - self._clock.now()).total_seconds()
        if left > 0:
            return left
        await self._writer.delete(
            JOBS,
            plain.name_of(job),
            namespace=plain.namespace_of(job),
            uid=plain.uid_of(job),
            propagation="Foreground",
        )
        return None


def _job_of(pod: Pod) -> list[str]:
    owner = plain.managing_owner(pod.metadata.owner_references)
    return [f"{pod.namespace}/{owner.name}"] if owner is not None and owner.kind == "Job" else []
