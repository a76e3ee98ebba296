"""
What a pod does once it is on a node, and when: start, become ready, end by itself, stop when told to.

Times come from annotations where there are any, and otherwise from :class:`PodTimings` with a little
variation that depends on nothing but the seed and the pod's uid, so that a run can be repeated.
"""

import hashlib

import msgspec

from karpenter.api.pod import Pod

PREFIX = "local.karpenter.sh/"
START_SECONDS = f"{PREFIX}start-seconds"
"""How long the containers take to be created."""
READY_SECONDS = f"{PREFIX}ready-seconds"
"""How long after the start the pod becomes ready; ``never`` leaves it unready."""
RUN_SECONDS = f"{PREFIX}run-seconds"
"""How long the containers run until they exit by themselves; ``forever`` keeps a Job's pod running."""
EXIT_CODE = f"{PREFIX}exit-code"
"""What they exit with; anything but 0 is a failure."""
STOP_SECONDS = f"{PREFIX}stop-seconds"
"""How long the containers take to stop once they are told to; never more than the grace period."""

SELF_ENDING = frozenset({"Never", "OnFailure"})


class PodTimings(msgspec.Struct, frozen=True, kw_only=True):
    """How long things take where a pod does not say."""

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
    stop: float


def script_for(pod: Pod, habits: PodTimings, *, seed: int) -> PodScript:
    """Return what the pod will do."""
    notes = pod.metadata.annotations
    chance = variation(seed, pod.metadata.uid)
    plain_inits = sum(each.restart_policy != "Always" for each in pod.spec.init_containers)
    stretch = 1.0 + habits.variation * chance
    runs = habits.run * stretch if _is_job_pod(pod) else None
    return PodScript(
        create=_seconds(notes.get(START_SECONDS), habits.create * stretch) or 0.0,
        init=plain_inits * habits.init * stretch,
        ready=_seconds(notes.get(READY_SECONDS), 0.0),
        run=_seconds(notes.get(RUN_SECONDS), runs) if pod.spec.restart_policy in SELF_ENDING else None,
        exit_code=_whole(notes.get(EXIT_CODE)),
        stop=_seconds(notes.get(STOP_SECONDS), habits.stop * stretch) or 0.0,
    )


def variation(seed: int, uid: str) -> float:
    """Return a number from 0 up to 1 that depends on nothing but the arguments."""
    digest = hashlib.blake2b(f"{seed}/{uid}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


def _is_job_pod(pod: Pod) -> bool:
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
