"""How many pods a replica set makes or deletes, and what it says of itself."""

from collections import Counter
from typing import Any

import pytest

from karpenter.api.pod import Pod
from karpenter.kube.informer import EventHandler, InformerDelete, InformerUpdate
from karpenter_local.controllers.pods import PodPredicate
from karpenter_local.controllers.replicasets import (
    BURST,
    ReplicaCounts,
    change,
    replica_state,
    status,
    wanted,
)
from tests.unit.local.controllers.objects import NOW, at, pod, workload


@pytest.mark.parametrize(
    ("count", "mine", "create", "delete"),
    [
        pytest.param(2, [], 2, [], id="too few"),
        pytest.param(1, [pod("a")], 0, [], id="enough"),
        pytest.param(1, [pod("a"), pod("b", ready=False)], 0, ["b"], id="too many"),
        pytest.param(
            2, [pod("a"), pod("b", leaving=True), pod("c", phase="Failed")], 1, [], id="some do not count"
        ),
        pytest.param(BURST + 1, [], BURST, [], id="not all at once"),
    ],
)
def test_change(count: int, mine: list[Pod], create: int, delete: list[str]) -> None:
    """The difference between wanted and active is made up for."""
    todo = change(count, mine, [])

    assert (todo.create, [each.name for each in todo.delete]) == (create, delete)


def test_wanted_by_default() -> None:
    """A set that does not say wants one pod."""
    assert wanted(workload("ReplicaSet")) == 1


@pytest.mark.parametrize(
    ("owner", "mine", "expected"),
    [
        pytest.param(
            {},
            [],
            {"replicas": 0, "terminatingReplicas": 0, "observedGeneration": 1},
            id="nothing: zeros are left out",
        ),
        pytest.param(
            {"minReadySeconds": 60},
            [
                pod("a", labels={"app": "web"}),
                pod("b", ready_for=5),
                pod("c", ready=False),
                pod("d", leaving=True),
            ],
            {
                "replicas": 3,
                "fullyLabeledReplicas": 1,
                "readyReplicas": 2,
                "availableReplicas": 1,
                "terminatingReplicas": 1,
                "observedGeneration": 1,
            },
            id="every count",
        ),
    ],
)
def test_status(owner: dict[str, Any], mine: list[Pod], expected: dict[str, Any]) -> None:
    """The status counts pods by how far they have come."""
    counts = Counter(map(replica_state, mine))

    assert status(workload("ReplicaSet", **owner), counts, mine, failure="", now=NOW) == expected


def test_failure() -> None:
    """A refusal by the API server shows in a condition, until it is overcome."""
    owner = workload("ReplicaSet")
    failed = status(owner, {}, [], failure="exceeded quota", now=NOW)
    assert failed["conditions"] == [
        {
            "type": "ReplicaFailure",
            "status": "True",
            "reason": "FailedCreate",
            "message": "exceeded quota",
            "lastTransitionTime": at(0),
        }
    ]

    assert "conditions" not in status({**owner, "status": failed}, {}, [], failure="", now=NOW)


class _Pods:
    """An informer that tells what it is told."""

    def __init__(self) -> None:
        self.tell: EventHandler[Pod]

    def subscribe(self, listener: EventHandler[Pod]) -> None:
        self.tell = listener


def test_counts() -> None:
    """Pods are counted by owner and state as they come, change hands, change and go."""
    web, api = workload("ReplicaSet"), workload("ReplicaSet", name="api")
    informer = _Pods()
    counts = ReplicaCounts(informer, PodPredicate())  # type: ignore[arg-type]  # all that is asked of it
    waiting, ready = pod("a", owner=web, ready=False), pod("a", owner=web)
    taken = pod("a", owner=api)

    informer.tell(InformerUpdate("default/a", waiting))
    informer.tell(InformerUpdate("default/b", pod("b", owner=web)))
    informer.tell(InformerUpdate("default/c", pod("c")))
    assert counts.of("uid-web") == {replica_state(waiting): 1, replica_state(ready): 1}
    assert counts.of("unowned/default") == {replica_state(pod("c")): 1}

    informer.tell(InformerUpdate("default/a", ready, before=waiting))
    assert counts.of("uid-web") == {replica_state(ready): 2}

    informer.tell(InformerUpdate("default/a", ready, before=ready))
    informer.tell(InformerUpdate("default/a", taken, before=ready))
    assert (counts.of("uid-web"), counts.of("uid-api")) == (
        {replica_state(ready): 1},
        {replica_state(ready): 1},
    )

    informer.tell(InformerDelete("default/a", taken))
    assert counts.of("uid-api") == {}
