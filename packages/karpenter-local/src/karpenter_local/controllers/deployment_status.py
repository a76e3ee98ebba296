"""
The status of a deployment: its counts, and its conditions Available, Progressing and ReplicaFailure.

Pure: ``now`` is an argument, and the sets are given as plain objects.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from karpenter.kube.targets import Plain
from karpenter_local.controllers import conditions, plain
from karpenter_local.controllers.rollout import RolloutLimits

AVAILABLE = "Available"
PROGRESSING = "Progressing"
FAILURE = "ReplicaFailure"

DONE = "NewReplicaSetAvailable"
TIMED_OUT = "ProgressDeadlineExceeded"
PAUSED = "DeploymentPaused"
RESUMED = "DeploymentResumed"

_COUNTS = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas")


def deadline(deployment: Plain) -> int | None:
    """Return how many seconds without progress are too many; None if any number will do."""
    seconds = plain.spec_of(deployment).get("progressDeadlineSeconds", 600)
    return None if seconds in {None, 2**31 - 1} else int(seconds)


def counts(deployment: Plain, new: Plain | None, sets: Sequence[Plain]) -> Plain:
    asked = sum(int(plain.spec_of(each).get("replicas", 0)) for each in sets)
    available = _total(sets, "availableReplicas")
    return {
        "observedGeneration": plain.generation_of(deployment),
        "replicas": _total(sets, "replicas"),
        "updatedReplicas": _total([new] if new is not None else [], "replicas"),
        "readyReplicas": _total(sets, "readyReplicas"),
        "availableReplicas": available,
        "unavailableReplicas": max(0, asked - available),
        "terminatingReplicas": _total(sets, "terminatingReplicas"),
    }


def is_complete(deployment: Plain, numbers: Plain) -> bool:
    """Say whether every wanted pod is new and available, and no old one is left."""
    wanted = int(plain.spec_of(deployment).get("replicas", 1))
    return bool(
        numbers["updatedReplicas"] == numbers["replicas"] == numbers["availableReplicas"] == wanted
        and numbers["observedGeneration"] >= plain.generation_of(deployment)
    )


def status(
    deployment: Plain, new: Plain | None, sets: Sequence[Plain], *, bounds: RolloutLimits, now: datetime
) -> Plain:
    numbers = counts(deployment, new, sets)
    known = list(plain.status_of(deployment).get("conditions") or [])
    known = _availability(known, numbers, bounds, now)
    if not plain.spec_of(deployment).get("paused"):
        known = _progress(known, deployment, new, numbers, now)
    known = _failure(known, sets, now)
    collisions = plain.status_of(deployment).get("collisionCount")
    result = {**numbers, "conditions": known, **({"collisionCount": collisions} if collisions else {})}
    return {key: value for key, value in result.items() if value or key not in _COUNTS}


def seconds_to_timeout(deployment: Plain, found: Plain, now: datetime) -> float | None:
    """Return how long until the deployment counts as stuck if nothing happens; None if it never does."""
    limit = deadline(deployment)
    progressing = conditions.find(found.get("conditions") or [], PROGRESSING)
    if (
        limit is None
        or progressing is None
        or progressing["status"] != "True"
        or progressing["reason"] == DONE
    ):
        return None
    since = plain.parse_time(progressing.get("lastUpdateTime")) or now
    return max(0.0, (since + timedelta(seconds=limit) - now).total_seconds()) + 1.0


def noted(known: list[Plain], status_: str, reason: str, message: str, now: datetime) -> list[Plain]:
    return conditions.with_condition(
        known,
        PROGRESSING,
        status_,
        now=now,
        reason=reason,
        message=message,
        lastUpdateTime=plain.render_time(now),
    )


def _total(sets: Sequence[Plain], field: str) -> int:
    return sum(int(plain.status_of(each).get(field, 0)) for each in sets)


def _availability(known: list[Plain], numbers: Plain, bounds: RolloutLimits, now: datetime) -> list[Plain]:
    enough = numbers["availableReplicas"] >= bounds.least_available
    status_ = "True" if enough else "False"
    before = conditions.find(known, AVAILABLE)
    if before is not None and before["status"] == status_:
        return known
    return conditions.with_condition(
        known,
        AVAILABLE,
        status_,
        now=now,
        reason="MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
        message=f"Deployment {'has' if enough else 'does not have'} minimum availability.",
        lastUpdateTime=plain.render_time(now),
    )


def _progress(
    known: list[Plain], deployment: Plain, new: Plain | None, numbers: Plain, now: datetime
) -> list[Plain]:
    limit = deadline(deployment)
    before = conditions.find(known, PROGRESSING)
    if limit is None:
        return conditions.without(known, PROGRESSING)
    if before is not None and before["reason"] == DONE and numbers["replicas"] == numbers["updatedReplicas"]:
        return known
    subject = (
        f'ReplicaSet "{plain.name_of(new)}"'
        if new is not None
        else f'Deployment "{plain.name_of(deployment)}"'
    )
    if is_complete(deployment, numbers):
        return noted(known, "True", DONE, f"{subject} has successfully progressed.", now)
    if _moved(plain.status_of(deployment), numbers):
        return noted(known, "True", "ReplicaSetUpdated", f"{subject} is progressing.", now)
    if before is not None and _is_late(before, limit, now):
        return noted(known, "False", TIMED_OUT, f"{subject} has timed out progressing.", now)
    return known


def _moved(old: Plain, numbers: Plain) -> bool:
    def outdated(counts_: Plain) -> int:
        return int(counts_.get("replicas", 0)) - int(counts_.get("updatedReplicas", 0))

    return (
        numbers["updatedReplicas"] > old.get("updatedReplicas", 0)
        or outdated(numbers) < outdated(old)
        or numbers["readyReplicas"] > old.get("readyReplicas", 0)
        or numbers["availableReplicas"] > old.get("availableReplicas", 0)
    )


def _is_late(progressing: Plain, limit: int, now: datetime) -> bool:
    if progressing["reason"] == TIMED_OUT:
        return False  # said already
    since = plain.parse_time(progressing.get("lastUpdateTime")) or now
    return progressing["status"] != "Unknown" and since + timedelta(seconds=limit) < now


def _failure(known: list[Plain], sets: Sequence[Plain], now: datetime) -> list[Plain]:
    for each in sets:
        found = conditions.find(plain.status_of(each).get("conditions") or [], FAILURE)
        before = conditions.find(known, FAILURE)
        if found is not None and before is not None and found.get("reason") == before.get("reason"):
            return known
        if found is not None:
            return conditions.with_condition(
                known,
                FAILURE,
                found["status"],
                now=now,
                reason=found.get("reason", ""),
                message=found.get("message", ""),
                lastUpdateTime=found["lastTransitionTime"],
            )
    return conditions.without(known, FAILURE)
