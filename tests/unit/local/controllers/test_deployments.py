"""The sets of a deployment, and what the deployment says of itself."""

from datetime import timedelta
from typing import Any

import pytest

from karpenter.kube.targets import Plain
from karpenter_local.controllers import deployment_status, templates
from karpenter_local.controllers.deployment_sets import (
    DESIRED,
    MOST,
    REVISION,
    expendable,
    find_new,
    new_set,
    next_revision,
    revision_of,
)
from karpenter_local.controllers.rollout import RolloutLimits, limits
from tests.unit.local.controllers.objects import NOW, at, workload


def replica_set(
    name: str = "web-1", *, size: int = 0, revision: int = 0, age: int = 60, **status: Any
) -> Plain:
    """Return a replica set of the deployment ``web``, with pods as its status says."""
    made = workload("ReplicaSet", name, replicas=size, status={"observedGeneration": 1, **status})
    made["metadata"]["creationTimestamp"] = at(-age)
    made["metadata"]["annotations"] = {REVISION: str(revision)} if revision else {}
    made["spec"]["template"]["metadata"]["labels"] = {"app": "web", templates.HASH_LABEL: name}
    return made


def test_the_present_set_is_the_oldest_with_the_template() -> None:
    """The hash label does not make a template another one; a changed annotation does."""
    deployment = workload()
    other = replica_set("web-2", age=90)
    other["spec"]["template"]["metadata"]["annotations"] = {"changed": "yes"}
    young, old = replica_set("web-3", age=1), replica_set("web-4", age=60)

    assert find_new(deployment, [young, other, old]) is old
    assert find_new(deployment, [other]) is None


@pytest.mark.parametrize(
    ("present", "others", "expected"),
    [
        pytest.param(None, [], 1, id="the first"),
        pytest.param(None, [3, 1], 4, id="one more than any"),
        pytest.param(5, [3], 5, id="it is the newest already"),
        pytest.param(2, [3], 4, id="brought back"),
    ],
)
def test_next_revision(present: int | None, others: list[int], expected: int) -> None:
    """The present template always has the highest revision."""
    found = None if present is None else replica_set(revision=present)

    assert next_revision(found, [replica_set(revision=each) for each in others]) == expected


@pytest.mark.parametrize("text", ["", "x", "-1"])
def test_a_revision_that_is_no_number(text: str) -> None:
    """An annotation that cannot be read counts as none."""
    spoilt = replica_set()
    spoilt["metadata"]["annotations"] = {REVISION: text}

    assert revision_of(spoilt) == 0


def test_new_set() -> None:
    """A new set is told apart by its hash, and takes over what it should from the deployment."""
    notes = {"team": "blue", REVISION: "7", "kubectl.kubernetes.io/last-applied-configuration": "{}"}
    deployment = workload(minReadySeconds=5, metadata={"annotations": notes})

    made = new_set(deployment, name_hash="abc", size=2, revision=8, bounds=RolloutLimits(3, 1, 0))

    assert made["metadata"]["name"] == "web-abc"
    assert made["metadata"]["annotations"] == {"team": "blue", REVISION: "8", DESIRED: "3", MOST: "4"}
    assert made["spec"]["selector"] == {"matchLabels": {"app": "web", "pod-template-hash": "abc"}}
    assert made["spec"]["template"]["metadata"]["labels"] == {"app": "web", "pod-template-hash": "abc"}
    assert (made["spec"]["replicas"], made["spec"]["minReadySeconds"]) == (2, 5)


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        pytest.param({}, [], id="ten are kept"),
        pytest.param({"revisionHistoryLimit": 1}, ["web-1"], id="the oldest empty one goes"),
        pytest.param({"revisionHistoryLimit": 0}, ["web-1", "web-3"], id="all that are empty"),
        pytest.param({"revisionHistoryLimit": 2**31 - 1}, [], id="without limit"),
    ],
)
def test_expendable(limit: dict[str, Any], expected: list[str]) -> None:
    """Old sets beyond the limit go, but only empty ones that have been looked at."""
    old = [
        replica_set("web-1", revision=1),
        replica_set("web-2", revision=2, size=1),
        replica_set("web-3", revision=3),
    ]
    if limit.get("revisionHistoryLimit") == 1:
        old = old[:2]

    assert [each["metadata"]["name"] for each in expendable(workload(**limit), old)] == expected


def status_of(deployment: Plain, *sets: Plain, seconds: float = 0.0) -> Plain:
    """Return the status with the first set as the present one."""
    bounds = limits(int(deployment["spec"].get("replicas", 1)), {})
    return deployment_status.status(
        deployment, sets[0] if sets else None, sets, bounds=bounds, now=NOW + timedelta(seconds=seconds)
    )


def reasons(status: Plain) -> dict[str, str]:
    return {each["type"]: each["reason"] for each in status["conditions"]}


def test_counts() -> None:
    """The deployment adds up what its sets say."""
    deployment = workload(replicas=4)
    new = replica_set(size=3, replicas=3, readyReplicas=2, availableReplicas=1)
    old = replica_set("old", size=2, replicas=2, readyReplicas=2, availableReplicas=2, terminatingReplicas=1)

    found = status_of(deployment, new, old)

    assert {key: value for key, value in found.items() if key != "conditions"} == {
        "observedGeneration": 1,
        "replicas": 5,
        "updatedReplicas": 3,
        "readyReplicas": 4,
        "availableReplicas": 3,
        "unavailableReplicas": 2,
        "terminatingReplicas": 1,
    }


def test_progress_to_the_end() -> None:
    """A rollout progresses with each pod, is done when all are available, and then stays done."""
    deployment = workload(replicas=2)
    deployment["status"] = status_of(deployment, replica_set(size=2, replicas=2))
    assert reasons(deployment["status"]) == {
        "Available": "MinimumReplicasUnavailable",
        "Progressing": "ReplicaSetUpdated",
    }
    done = replica_set(size=2, replicas=2, readyReplicas=2, availableReplicas=2)
    deployment["status"] = status_of(deployment, done, seconds=5)
    assert reasons(deployment["status"]) == {
        "Progressing": "NewReplicaSetAvailable",
        "Available": "MinimumReplicasAvailable",
    }
    restarted = replica_set(size=2, replicas=2, readyReplicas=1, availableReplicas=1)
    assert reasons(status_of(deployment, restarted, seconds=9999))["Progressing"] == "NewReplicaSetAvailable"


def test_a_rollout_that_is_stuck() -> None:
    """Without progress for longer than the deadline, the deployment says so, once."""
    deployment = workload(replicas=1, progressDeadlineSeconds=60)
    stuck = replica_set(size=1, replicas=1)
    deployment["status"] = status_of(deployment, stuck)
    assert deployment_status.seconds_to_timeout(deployment, deployment["status"], NOW) == 61.0

    assert reasons(status_of(deployment, stuck, seconds=60))["Progressing"] == "ReplicaSetUpdated"
    deployment["status"] = late = status_of(deployment, stuck, seconds=61)
    assert reasons(late)["Progressing"] == "ProgressDeadlineExceeded"
    assert deployment_status.seconds_to_timeout(deployment, late, NOW) is None
    assert status_of(deployment, stuck, seconds=99) == late


def test_no_deadline() -> None:
    """A deployment without a deadline says nothing about progress."""
    deployment = workload(progressDeadlineSeconds=2**31 - 1)

    assert reasons(status_of(deployment, replica_set(size=1))) == {"Available": "MinimumReplicasUnavailable"}


def test_a_failure_of_a_set_is_the_deployments() -> None:
    """What the API server refused a set shows on the deployment, until it is overcome."""
    failure = {
        "type": "ReplicaFailure",
        "status": "True",
        "reason": "FailedCreate",
        "message": "no",
        "lastTransitionTime": at(0),
    }
    deployment = workload()
    deployment["status"] = status_of(deployment, replica_set(size=1, conditions=[failure]))
    assert reasons(deployment["status"])["ReplicaFailure"] == "FailedCreate"
    assert status_of(deployment, replica_set(size=1, conditions=[failure])) == deployment["status"]

    assert "ReplicaFailure" not in reasons(status_of(deployment, replica_set(size=1)))


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        pytest.param({"spec": {"a": 1}}, {"spec": {"a": 1}, "metadata": None}, True, id="nothing is nothing"),
        pytest.param({"spec": {"a": []}}, {"spec": {}}, True, id="an empty list is nothing"),
        pytest.param({"spec": {"a": 1}}, {"spec": {"a": 2}}, False, id="another value"),
    ],
)
def test_same_template(left: Plain, right: Plain, expected: bool) -> None:
    """Templates are compared by what they mean."""
    assert templates.same(left, right) is expected


def test_short_hash() -> None:
    """A hash depends on the content and the salt alone, and is safe in a name."""
    assert templates.short_hash({"a": 1, "b": None}) == templates.short_hash({"a": 1})
    assert templates.short_hash({"a": 1}) != templates.short_hash({"a": 1}, salt=1)
    assert set(templates.short_hash({})) <= set("bcdfghjklmnpqrstvwxz2456789")
