"""
The next step of a job: how many pods have ended how, whether that is enough, and how many more to start.

Every pod carries a finalizer until its end was counted, so that no end is missed and none counts twice: what
is being counted is written to the status first (``uncountedTerminatedPods``), then the finalizers are taken
off.

Pure: ``now`` is an argument.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

import msgspec

from karpenter.api.pod import Pod
from karpenter.kube.targets import Plain
from karpenter_local.controllers import conditions, job_policy, plain, pods

# https://kubernetes.io/docs/concepts/workloads/controllers/job/
FINALIZER = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"

# DefaultJobPodFailureBackOff and MaxJobPodFailureBackOff; the delay doubles in between:
# https://kubernetes.io/docs/concepts/workloads/controllers/job/
_FIRST_BACKOFF_SECONDS = 10.0
_LONGEST_BACKOFF_SECONDS = 600.0


class JobRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Settings in the spec of a job."""

    parallelism: int
    completions: int | None
    """None: done when one pod has succeeded and the others have ended."""
    indexed: bool
    backoff_limit: int
    deadline: int | None
    suspended: bool
    replace_only_failed: bool
    """Start another pod only when one has ended, not already when it is being deleted."""


class JobCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The pods of a job by how far they are, and the counts of its status."""

    active: tuple[Pod, ...]
    terminating: tuple[Pod, ...]
    succeeded: int
    failed: int
    to_release: tuple[Pod, ...]
    """Pods whose end is counted with this and whose finalizer then goes."""
    uncounted_succeeded: tuple[str, ...]
    uncounted_failed: tuple[str, ...]
    completed: frozenset[int]
    """Indexes that have succeeded."""
    last_failure: datetime | None
    restarts: int
    forgiven: int = 0
    """Failures that the job's policy ignores; the next pod waits for them all the same."""
    fatal: str = ""
    """The failure that the job's policy says ends it."""


class JobResult(msgspec.Struct, frozen=True):
    """End of a job."""

    kind: str
    """Complete or Failed."""
    reason: str
    message: str


class JobStep(msgspec.Struct, frozen=True):
    """Pods to create and to delete now, and how long to wait."""

    create: tuple[int | None, ...] = ()
    """One entry per pod to start: its index, or None."""
    delete: tuple[Pod, ...] = ()
    wait: float | None = None
    """Seconds after which to look again."""


def request_of(job: Plain) -> JobRequest:
    spec = plain.spec_of(job)
    completions = spec.get("completions")
    deadline = spec.get("activeDeadlineSeconds")
    return JobRequest(
        parallelism=int(spec.get("parallelism", 1)),
        completions=None if completions is None else int(completions),
        indexed=spec.get("completionMode") == "Indexed",
        backoff_limit=int(spec.get("backoffLimit", 6)),
        deadline=None if deadline is None else int(deadline),
        suspended=bool(spec.get("suspend")),
        replace_only_failed=spec.get("podReplacementPolicy") == "Failed",
    )


def result_of(job: Plain) -> Plain | None:
    """Return the condition by which the job has ended; None while it goes on."""
    known = plain.status_of(job).get("conditions") or []
    return next(
        (each for each in known if each["type"] in {"Complete", "Failed"} and each["status"] == "True"), None
    )


def count_pods(job: Plain, request: JobRequest, mine: Sequence[Pod]) -> JobCounts:
    status = plain.status_of(job)
    uncounted = status.get("uncountedTerminatedPods") or {}
    seen_good, seen_bad = set(uncounted.get("succeeded") or ()), set(uncounted.get("failed") or ())
    tracked = [pod for pod in mine if FINALIZER in pod.metadata.finalizers]
    good = [pod for pod in tracked if pod.status.phase == "Succeeded"]
    matches = {pod.metadata.uid: job_policy.match(job, pod) for pod in mine if pod.status.phase == "Failed"}
    ignored = {uid for uid, match_ in matches.items() if match_ is not None and match_.action == "Ignore"}
    forgiven = [pod for pod in tracked if pod.metadata.uid in ignored]
    bad = [pod for pod in tracked if _has_failed(pod, request) and pod.metadata.uid not in ignored]
    # Pods that a suspension takes away have neither succeeded nor failed.
    paused = [p for p in tracked if request.suspended and pods.is_leaving(p) and not pods.is_finished(p)]
    completed = set(parse_indexes(status.get("completedIndexes", "")))
    fresh = {index for pod in good if (index := index_of(pod)) is not None}
    if request.indexed:
        succeeded = len(completed | fresh)
    else:
        succeeded = int(status.get("succeeded", 0)) + sum(pod.metadata.uid not in seen_good for pod in good)
    return JobCounts(
        active=tuple(pod for pod in mine if pods.is_active(pod)),
        terminating=tuple(pod for pod in mine if pods.is_leaving(pod) and not pods.is_finished(pod)),
        succeeded=succeeded,
        failed=int(status.get("failed", 0)) + sum(pod.metadata.uid not in seen_bad for pod in bad),
        to_release=(*good, *bad, *forgiven, *paused),
        uncounted_succeeded=tuple(sorted(pod.metadata.uid for pod in good)),
        uncounted_failed=tuple(sorted(pod.metadata.uid for pod in bad)),
        completed=frozenset(completed | fresh) if request.indexed else frozenset(),
        last_failure=max((_ended_at(pod) for pod in mine if pod.status.phase == "Failed"), default=None),
        restarts=sum(each.restart_count for pod in mine for each in pod.status.container_statuses),
        forgiven=len(ignored),
        fatal=next(
            (match_.message for match_ in matches.values() if match_ and match_.action == "FailJob"), ""
        ),
    )


def finished(job: Plain, request: JobRequest, count: JobCounts, now: datetime) -> JobResult | None:
    """Say whether the job is over, and how."""
    if count.fatal:
        return JobResult("Failed", "PodFailurePolicy", count.fatal)
    on_failure = (plain.spec_of(job)["template"].get("spec") or {}).get("restartPolicy") == "OnFailure"
    if count.failed > request.backoff_limit or (on_failure and 0 < request.backoff_limit <= count.restarts):
        return JobResult("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    started = plain.parse_time(plain.status_of(job).get("startTime"))
    if (
        request.deadline is not None
        and started is not None
        and now >= started + timedelta(seconds=request.deadline)
    ):
        return JobResult("Failed", "DeadlineExceeded", "Job was active longer than specified deadline")
    if request.completions is None:
        done = count.succeeded > 0 and not count.active
    else:
        done = count.succeeded >= request.completions
    if done:
        return JobResult("Complete", "CompletionsReached", "Reached expected number of succeeded pods")
    return None


def next_step(
    job: Plain, request: JobRequest, count: JobCounts, result: JobResult | None, now: datetime
) -> JobStep:
    """Return which pods to start or to delete now."""
    if result is not None or request.suspended:
        return JobStep(delete=count.active)
    wanted = _wanted(request, count)
    surplus = len(count.active) - wanted
    if surplus > 0:
        return JobStep(delete=tuple(pods.least_wanted_first(count.active, count.active)[:surplus]))
    missing = -surplus - (len(count.terminating) if request.replace_only_failed else 0)
    wait = _backoff_left(count, now)
    if missing <= 0 or wait > 0:
        return JobStep(wait=_sooner(wait if missing > 0 else None, _deadline_left(job, request, now)))
    if not request.indexed:
        return JobStep(create=(None,) * missing, wait=_deadline_left(job, request, now))
    taken = {index_of(pod) for pod in (*count.active, *count.terminating)} | count.completed
    free = [index for index in range(request.completions or 0) if index not in taken]
    return JobStep(create=tuple(free[:missing]), wait=_deadline_left(job, request, now))


def status(
    job: Plain,
    request: JobRequest,
    count: JobCounts,
    result: JobResult | None,
    *,
    now: datetime,
    settled: bool,
) -> Plain:
    """Return the status; `settled` says that no pod is left that could still change it."""
    old = plain.status_of(job)
    known = list(old.get("conditions") or [])
    if result is not None:
        known = _with_result(known, result, now, final=settled)
    known = _with_suspension(known, request, now)
    ended = result is not None
    found: Plain = {
        "active": 0 if ended else len(count.active),
        "ready": 0 if ended else sum(pods.is_ready(pod) for pod in count.active),
        "terminating": len(count.terminating),
        "succeeded": count.succeeded,
        "failed": count.failed,
        "uncountedTerminatedPods": _uncounted(count),
        "conditions": known,
    }
    if request.indexed:
        found["completedIndexes"] = render_indexes(count.completed)
    waits = request.suspended and not ended
    found["startTime"] = None if waits else old.get("startTime") or plain.render_time(now)
    if result is not None and result.kind == "Complete" and settled:
        found["completionTime"] = old.get("completionTime") or plain.render_time(now)
    always = {"ready", "terminating", "uncountedTerminatedPods"}
    return {key: value for key, value in found.items() if value or key in always}


def pod_for(job: Plain, index: int | None) -> Plain:
    template = plain.spec_of(job)["template"]
    body = pods.from_template(template, job, finalizers=(FINALIZER,))
    name, uid = plain.name_of(job), plain.uid_of(job)
    body["metadata"]["labels"] |= {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        "job-name": name,
    }
    if index is not None:
        body["metadata"]["generateName"] = f"{name}-{index}-"
        body["metadata"]["labels"][INDEX] = str(index)
        body["metadata"]["annotations"][INDEX] = str(index)
        body["spec"]["hostname"] = f"{name}-{index}"
        source = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}
        variable = {"name": "JOB_COMPLETION_INDEX", "valueFrom": source}
        for container in (*body["spec"].get("containers", ()), *body["spec"].get("initContainers", ())):
            container["env"] = [*(container.get("env") or ()), variable]
    return body


def index_of(pod: Pod) -> int | None:
    text = pod.metadata.annotations.get(INDEX, "")
    return int(text) if text.isdecimal() else None


def parse_indexes(text: str) -> list[int]:
    """Read a list of indexes such as ``1,3-5``."""
    found: list[int] = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def render_indexes(indexes: Iterable[int]) -> str:
    """Write a list of indexes; neighbours are joined."""
    parts: list[list[int]] = []
    for index in sorted(indexes):
        if parts and index == parts[-1][1] + 1:
            parts[-1][1] = index
        else:
            parts.append([index, index])
    return ",".join(_span(first, last) for first, last in parts)


def _span(first: int, last: int) -> str:
    if first == last:
        return str(first)
    return f"{first},{last}" if last == first + 1 else f"{first}-{last}"


def _has_failed(pod: Pod, request: JobRequest) -> bool:
    if pod.status.phase == "Failed":
        return True
    if request.suspended or request.replace_only_failed or pod.status.phase == "Succeeded":
        return False
    return pods.is_leaving(pod)


def _ended_at(pod: Pod) -> datetime:
    ready = pods.condition(pod, "Ready")
    if ready is not None and ready.last_transition_time is not None:
        return ready.last_transition_time
    return pods.created_at(pod)


def _wanted(request: JobRequest, count: JobCounts) -> int:
    if request.completions is None:
        return len(count.active) if count.succeeded else request.parallelism
    return min(request.parallelism, max(0, request.completions - count.succeeded))


def _backoff_left(count: JobCounts, now: datetime) -> float:
    """Return how long to wait after the last failure; each failure in the job doubles it."""
    failures = count.failed + count.forgiven
    if not failures or count.last_failure is None:
        return 0.0
    backoff = min(_FIRST_BACKOFF_SECONDS * 2.0 ** (failures - 1), _LONGEST_BACKOFF_SECONDS)
    return (count.last_failure + timedelta(seconds=backoff) - now).total_seconds()


def _deadline_left(job: Plain, request: JobRequest, now: datetime) -> float | None:
    started = plain.parse_time(plain.status_of(job).get("startTime"))
    if request.deadline is None:
        return None
    return max(0.0, ((started or now) + timedelta(seconds=request.deadline) - now).total_seconds())


def _sooner(*waits: float | None) -> float | None:
    return min((wait for wait in waits if wait is not None), default=None)


def _with_result(known: list[Plain], result: JobResult, now: datetime, *, final: bool) -> list[Plain]:
    early = "SuccessCriteriaMet" if result.kind == "Complete" else "FailureTarget"
    for kind in (early, *([result.kind] if final else [])):
        if not conditions.holds(known, kind):
            known = conditions.with_condition(
                known,
                kind,
                "True",
                now=now,
                reason=result.reason,
                message=result.message,
                lastProbeTime=plain.render_time(now),
            )
    return known


def _with_suspension(known: list[Plain], request: JobRequest, now: datetime) -> list[Plain]:
    was = conditions.holds(known, "Suspended")
    if request.suspended == was:
        return known
    return conditions.with_condition(
        known,
        "Suspended",
        "True" if request.suspended else "False",
        now=now,
        reason="JobSuspended" if request.suspended else "JobResumed",
        message="Job suspended" if request.suspended else "Job resumed",
        lastProbeTime=plain.render_time(now),
    )


def _uncounted(count: JobCounts) -> Plain:
    found: Plain = {}
    if count.uncounted_succeeded:
        found["succeeded"] = list(count.uncounted_succeeded)
    if count.uncounted_failed:
        found["failed"] = list(count.uncounted_failed)
    return found
