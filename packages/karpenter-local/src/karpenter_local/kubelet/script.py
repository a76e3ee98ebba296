"""
What a pod does once it is on a node, and when: start, become ready, end by itself, stop when told to.

Probes succeed at the first try that their times allow. A preStop hook takes as long as it sleeps, by itself
or in the commands ``sleep N`` and ``sh -c '... sleep N ...'``; other commands take no time.

Times come from annotations where there are any, and otherwise from :class:`PodTimings` with a little
variation that depends on nothing but the seed and the pod's uid, so that a run can be repeated.
"""

import hashlib
import re

import msgspec

from karpenter.api.pod import Container, Pod, Probe

PREFIX = "local.karpenter.sh/"
START_SECONDS = f"{PREFIX}start-seconds"
"""How long the containers take to be created."""
READY_SECONDS = f"{PREFIX}ready-seconds"
"""How long after the start the pod becomes ready, whatever its probes say; ``never`` leaves it unready."""
RUN_SECONDS = f"{PREFIX}run-seconds"
"""How long the containers run until they exit by themselves; ``forever`` keeps a Job's pod running."""
EXIT_CODE = f"{PREFIX}exit-code"
"""What they exit with; anything but 0 is a failure."""
STOP_SECONDS = f"{PREFIX}stop-seconds"
"""How long the containers take to stop after their hooks; never more than the grace period with these."""

# https://helm.sh/docs/topics/charts_hooks/
HELM_HOOK = "helm.sh/hook"
SELF_ENDING = frozenset({"Never", "OnFailure"})


class PodTimings(msgspec.Struct, frozen=True, kw_only=True):
    """Durations, in seconds, for pods that do not give their own."""

    create: float = 1.0
    """Seconds from being bound to running."""
    init: float = 0.5
    """Seconds for each init container."""
    run: float = 5.0
    """Seconds that the pods of Jobs run."""
    stop: float = 0.5
    """Seconds that containers take to stop."""
    variation: float = 0.5
    """How far each of these may be exceeded, as a share."""


class PodScript(msgspec.Struct, frozen=True, kw_only=True):
    """The phases of one pod as durations in seconds; None means that it never gets there."""

    create: float
    init: float
    ready: float | None
    run: float | None
    exit_code: int
    pre_stop: float
    stop: float


def script_for(pod: Pod, habits: PodTimings, *, seed: int) -> PodScript:
    notes = pod.metadata.annotations
    chance = variation(seed, pod.metadata.uid)
    plain_inits = sum(each.restart_policy != "Always" for each in pod.spec.init_containers)
    stretch = 1.0 + habits.variation * chance
    runs = habits.run * stretch if _is_job_pod(pod) else None
    return PodScript(
        create=_seconds(notes.get(START_SECONDS), habits.create * stretch) or 0.0,
        init=plain_inits * habits.init * stretch,
        ready=_seconds(notes.get(READY_SECONDS), ready_after(pod)),
        run=_seconds(notes.get(RUN_SECONDS), runs) if pod.spec.restart_policy in SELF_ENDING else None,
        exit_code=_whole(notes.get(EXIT_CODE)),
        pre_stop=max((_pre_stop(each) for each in _long_running(pod)), default=0.0),
        stop=_seconds(notes.get(STOP_SECONDS), habits.stop * stretch) or 0.0,
    )


def ready_after(pod: Pod) -> float:
    """Return the seconds from the start of the containers until all of their probes have succeeded."""
    return max((_ready_after(each) for each in _long_running(pod)), default=0.0)


def _long_running(pod: Pod) -> list[Container]:
    sidecars = [each for each in pod.spec.init_containers if each.restart_policy == "Always"]
    return [*sidecars, *pod.spec.containers]


def _ready_after(container: Container) -> float:
    started = _succeeds_after(container.startup_probe, 0.0)
    return _succeeds_after(container.readiness_probe, started)


def _succeeds_after(probe: Probe | None, since: float) -> float:
    """Return when a probe has succeeded often enough; it is first tried after its delay, and not before."""
    if probe is None:
        return since
    first = max(since, float(probe.initial_delay_seconds))
    return first + max(0, probe.success_threshold - 1) * float(probe.period_seconds)


_SLEEP = re.compile(r"(?:^|[\s;&|/])sleep\s+(?P<amount>\d+(?:\.\d+)?)(?P<unit>[smh]?)(?=$|[\s;&|])")
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def _pre_stop(container: Container) -> float:
    """Return how long a container's hook takes before the container is told to stop."""
    hook = container.lifecycle.pre_stop if container.lifecycle is not None else None
    if hook is None:
        return 0.0
    if hook.sleep is not None:
        return float(hook.sleep.seconds)
    text = " ".join(hook.exec.command) if hook.exec is not None else ""
    return sum(float(each["amount"]) * _UNITS[each["unit"]] for each in _SLEEP.finditer(text))


def variation(seed: int, uid: str) -> float:
    """Return a number from 0 up to 1 that depends on nothing but the arguments."""
    digest = hashlib.blake2b(f"{seed}/{uid}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


def _is_job_pod(pod: Pod) -> bool:
    """Say whether a pod does a piece of work: of a Job, or as a hook or test of a Helm release."""
    if HELM_HOOK in pod.metadata.annotations:
        return True
    return any(owner.controller and owner.kind == "Job" for owner in pod.metadata.owner_references)


def _seconds(text: str | None, default: float | None) -> float | None:
    """Read a duration; a word such as never or forever means None, and nonsense means the default."""
    if text is None:
        return default
    if text.strip().lower() in {"never", "forever"}:
        return None
    try:
        return max(0.0, float(text))
    except ValueError:
        return default


def _whole(text: str | None) -> int:
    try:
        return int(text or "0")
    except ValueError:
        return 1
