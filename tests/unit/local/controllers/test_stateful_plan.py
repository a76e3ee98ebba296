"""The steps of a stateful set."""

from typing import Any

import pytest

from karpenter.api.pod import Pod
from karpenter.kube.targets import Plain
from karpenter_local.controllers.history import HASH, new_revision
from karpenter_local.controllers.stateful_plan import (
    POD_INDEX,
    POD_NAME,
    by_ordinal,
    claim_names,
    claims_for,
    deletes_when,
    next_step,
    pod_for,
    request_of,
    status,
)
from tests.unit.local.controllers.objects import NOW, pod, workload


def db(number: int, *, revision: str = "new", **more: Any) -> Pod:
    """Return a pod of the stateful set ``db``."""
    return pod(f"db-{number}", labels={HASH: revision}, **more)


def step(spec: dict[str, Any], *mine: Pod, current: str = "new") -> tuple[list[tuple[int, str]], list[str]]:
    """Return what a stateful set does next."""
    request = request_of(workload("StatefulSet", "db", **spec))
    todo = next_step(request, by_ordinal(request, mine), current=current, update="new", now=NOW)
    return list(todo.create), [each.name for each in todo.delete]


PARALLEL = {"podManagementPolicy": "Parallel"}


@pytest.mark.parametrize(
    ("spec", "mine", "expected"),
    [
        pytest.param({"replicas": 3}, [], ([(0, "new")], []), id="the first comes first"),
        pytest.param({"replicas": 3}, [db(0, ready=False)], ([], []), id="the second waits for it"),
        pytest.param({"replicas": 3}, [db(0)], ([(1, "new")], []), id="and then comes"),
        pytest.param({"replicas": 2}, [db(0), db(1)], ([], []), id="all are there"),
        pytest.param({"replicas": 1}, [db(0), db(1), db(2)], ([], ["db-2"]), id="the last goes first"),
        pytest.param({"replicas": 1}, [db(0), db(1), db(2, leaving=True)], ([], []), id="one at a time"),
        pytest.param({"replicas": 1}, [db(0, ready=False), db(1)], ([], []), id="not while one is unwell"),
        pytest.param(
            {"replicas": 2}, [db(0, phase="Failed"), db(1)], ([], ["db-0"]), id="a failed one is replaced"
        ),
        pytest.param({"replicas": 2}, [db(0, leaving=True), db(1)], ([], []), id="once it is gone"),
        pytest.param(
            {"replicas": 2, "ordinals": {"start": 5}}, [], ([(5, "new")], []), id="numbers may start anywhere"
        ),
        pytest.param(
            {"replicas": 2, "ordinals": {"start": 5}}, [db(0), db(5), db(6)], ([], ["db-0"]), id="and move"
        ),
        pytest.param({"replicas": 2, **PARALLEL}, [], ([(0, "new"), (1, "new")], []), id="all at once"),
        pytest.param(
            {"replicas": 0, **PARALLEL}, [db(0), db(1)], ([], ["db-1", "db-0"]), id="and away at once"
        ),
    ],
)
def test_next_step(spec: dict[str, Any], mine: list[Pod], expected: Any) -> None:
    """Pods come one after the other, and go in the opposite order."""
    assert step(spec, *mine) == expected


def partition(number: int) -> dict[str, Any]:
    """Return the strategy that spares the first pods."""
    return {"updateStrategy": {"rollingUpdate": {"partition": number}}}


@pytest.mark.parametrize(
    ("spec", "mine", "expected"),
    [
        pytest.param({}, [db(n, revision="old") for n in range(3)], ([], ["db-2"]), id="the last is first"),
        pytest.param(
            {}, [db(0, revision="old"), db(1, revision="old"), db(2, ready=False)], ([], []), id="then waits"
        ),
        pytest.param(
            {}, [db(0, revision="old"), db(1, revision="old"), db(2)], ([], ["db-1"]), id="then the next"
        ),
        pytest.param(
            partition(2),
            [db(0, revision="old"), db(1, revision="old"), db(2)],
            ([], []),
            id="down to the partition",
        ),
        pytest.param(
            partition(2), [db(0, revision="old")], ([(1, "old")], []), id="below it, the old template"
        ),
        pytest.param(
            {"updateStrategy": {"type": "OnDelete"}},
            [db(n, revision="old") for n in range(3)],
            ([], []),
            id="only when deleted",
        ),
        pytest.param(
            PARALLEL,
            [db(0, revision="old"), db(1, revision="old", leaving=True), db(2)],
            ([], []),
            id="one that leaves is waited for",
        ),
    ],
)
def test_updates(spec: dict[str, Any], mine: list[Pod], expected: Any) -> None:
    """An update replaces pods from the last to the first, each only if those above are well."""
    assert step({"replicas": 3, **spec}, *mine, current="old") == expected


CLAIM = {
    "metadata": {"name": "data", "labels": {"tier": "db"}},
    "spec": {"resources": {"requests": {"storage": "1Gi"}}},
}


def stateful(**spec: Any) -> Plain:
    """Return a stateful set with a claim per pod."""
    return workload("StatefulSet", "db", serviceName="svc", volumeClaimTemplates=[CLAIM], **spec)


def test_pod_for() -> None:
    """A pod has a name, a host name, a place in the order, and volumes of its own."""
    owner = stateful()
    owner["spec"]["template"]["spec"]["volumes"] = [{"name": "data"}, {"name": "tmp", "emptyDir": {}}]

    made = pod_for(owner, 1, new_revision(owner, number=1, collisions=0))

    assert made["metadata"]["name"] == "db-1"
    assert (made["spec"]["hostname"], made["spec"]["subdomain"]) == ("db-1", "svc")
    assert (made["metadata"]["labels"][POD_NAME], made["metadata"]["labels"][POD_INDEX]) == ("db-1", "1")
    assert made["metadata"]["labels"][HASH].startswith("db-")
    assert made["spec"]["volumes"] == [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-db-1"}},
        {"name": "tmp", "emptyDir": {}},
    ]


def test_claims_for() -> None:
    """A claim is named after its pod, and belongs to the set only if it should go with it."""
    kept = claims_for(stateful(), 1)[0]
    policy = {"whenDeleted": "Delete"}
    owned = claims_for(stateful(persistentVolumeClaimRetentionPolicy=policy), 1)[0]

    assert kept["metadata"]["name"] == claim_names(stateful(), 1)[0] == "data-db-1"
    assert kept["metadata"]["labels"] == {"tier": "db", "app": "db"}
    assert "ownerReferences" not in kept["metadata"]
    assert owned["metadata"]["ownerReferences"][0]["uid"] == "uid-db"
    assert not deletes_when(stateful(), "whenScaled")


@pytest.mark.parametrize(
    ("spec", "mine", "expected"),
    [
        pytest.param({}, [], {"replicas": 0, "currentRevision": "old"}, id="nothing yet"),
        pytest.param(
            {},
            [db(0, revision="old"), db(1), db(2, ready=False)],
            {
                "replicas": 3,
                "readyReplicas": 2,
                "currentReplicas": 1,
                "updatedReplicas": 2,
                "currentRevision": "old",
            },
            id="in the middle of an update",
        ),
        pytest.param(
            {},
            [db(0), db(1), db(2)],
            {
                "replicas": 3,
                "readyReplicas": 3,
                "currentReplicas": 3,
                "updatedReplicas": 3,
                "currentRevision": "new",
            },
            id="at its end the new revision is the current one",
        ),
        pytest.param(
            partition(2),
            [db(0, revision="old"), db(1, revision="old"), db(2)],
            {
                "replicas": 3,
                "readyReplicas": 3,
                "currentReplicas": 2,
                "updatedReplicas": 1,
                "currentRevision": "old",
            },
            id="a partition keeps it from ending",
        ),
    ],
)
def test_status(spec: dict[str, Any], mine: list[Pod], expected: dict[str, Any]) -> None:
    """The status counts pods by revision."""
    owner = workload("StatefulSet", "db", replicas=3, **spec)
    request = request_of(owner)
    found = status(owner, request, by_ordinal(request, mine), current="old", update="new", now=NOW)

    shown = ("replicas", "readyReplicas", "currentReplicas", "updatedReplicas", "currentRevision")
    assert {key: found[key] for key in shown if key in found} == expected


def test_names_that_are_not_ours() -> None:
    """A pod with another sort of name has no place in the order."""
    request = request_of(workload("StatefulSet", "db"))

    assert by_ordinal(request, [pod("db-x"), pod("other-1"), db(4)]).keys() == {4}
