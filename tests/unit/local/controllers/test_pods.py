"""Pods as the workload controllers see them."""

import pytest

from karpenter.api.pod import Pod
from karpenter.kube.informer import InformerDelete, InformerEvent, InformerUpdate
from karpenter_local.controllers import pods
from tests.unit.local.controllers.objects import NOW, pod, workload


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(pod(), True, id="running"),
        pytest.param(pod(phase="Pending", ready=False), True, id="waiting"),
        pytest.param(pod(phase="Succeeded"), False, id="done"),
        pytest.param(pod(phase="Failed"), False, id="failed"),
        pytest.param(pod(leaving=True), False, id="on its way out"),
    ],
)
def test_is_active(found: Pod, expected: bool) -> None:
    """Pods that ended or are leaving do not count."""
    assert pods.is_active(found) is expected


@pytest.mark.parametrize(
    ("found", "least", "expected"),
    [
        pytest.param(pod(), 0, True, id="ready is enough"),
        pytest.param(pod(ready=False), 0, False, id="not ready"),
        pytest.param(pod(ready_for=30), 30, True, id="ready for just long enough"),
        pytest.param(pod(ready_for=29), 30, False, id="not for long enough"),
        pytest.param(pod(status={"conditions": []}), 0, False, id="says nothing"),
    ],
)
def test_is_available(found: Pod, least: int, expected: bool) -> None:
    """A pod is available once it has been ready for some time."""
    assert pods.is_available(found, least, NOW) is expected


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        pytest.param(InformerUpdate("a", pod()), True, id="a new pod"),
        pytest.param(InformerDelete("a", pod()), True, id="a pod that is gone"),
        pytest.param(InformerUpdate("a", pod(), pod()), False, id="nothing"),
        pytest.param(InformerUpdate("a", pod(), pod(ready=False)), True, id="readiness"),
        pytest.param(InformerUpdate("a", pod(phase="Failed"), pod()), True, id="its phase"),
        pytest.param(InformerUpdate("a", pod(leaving=True), pod()), True, id="its deletion"),
    ],
)
def test_which_events_concern_controllers(event: InformerEvent[Pod], expected: bool) -> None:
    """Controllers hear of what they read of a pod; every one of them gets the same answer."""
    predicate = pods.PodPredicate()

    assert [predicate(event), predicate(event)] == [expected, expected]


def test_a_word_about_scheduling_concerns_no_controller() -> None:
    """Why a pod waits is told again and again, and changes no workload."""
    told = [{"type": "PodScheduled", "status": "False", "message": f"0/{count} nodes"} for count in (1, 2)]
    before, after = (pod(status={"phase": "Pending", "conditions": [each]}) for each in told)

    assert not pods.PodPredicate()(InformerUpdate("a", after, before))


def test_seconds_to_available() -> None:
    """The wait is that of the pod which is next."""
    found = [pod("a", ready_for=10), pod("b", ready_for=25), pod("c", ready=False), pod("d", ready_for=99)]

    assert pods.seconds_to_available(found, 30, NOW) == 5.0
    assert pods.seconds_to_available(found, 0, NOW) is None
    assert pods.seconds_to_available([], 30, NOW) is None


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param({"node": ""}, {}, id="without a node"),
        pytest.param({"phase": "Pending"}, {}, id="not running"),
        pytest.param({"ready": False}, {}, id="not ready"),
        pytest.param({"metadata": {"annotations": {pods.DELETION_COST: "-1"}}}, {}, id="told to be cheap"),
        pytest.param(
            {"metadata": {"annotations": {pods.DELETION_COST: "dear"}}, "age": 1}, {}, id="told nonsense"
        ),
        pytest.param({"node": "crowded"}, {"node": "other"}, id="on a node with more of its kind"),
        pytest.param({"ready_for": 5}, {"ready_for": 50}, id="ready for a shorter time"),
        pytest.param(
            {"status": {"containerStatuses": [{"name": "main", "restartCount": 3}]}},
            {},
            id="restarted more often",
        ),
        pytest.param({"ready": False, "age": 5}, {"ready": False, "age": 50}, id="younger"),
    ],
)
def test_least_wanted_first(first: dict[str, object], second: dict[str, object]) -> None:
    """Pods that do least go first."""
    given = [pod("b", **second), pod("a", **first)]  # type: ignore[arg-type]  # tables of anything
    neighbours = [pod("x", node="crowded"), *given]

    assert [found.name for found in pods.least_wanted_first(given, neighbours)] == ["a", "b"]


def test_from_template() -> None:
    """A pod carries its template's labels and its owner's name, and shares nothing with the template."""
    owner = workload("ReplicaSet", "web")
    template = owner["spec"]["template"]
    template["metadata"]["finalizers"] = ["keep"]

    made = pods.from_template(template, owner, finalizers=("count",))
    made["spec"]["containers"][0]["name"] = "changed"

    assert template["spec"]["containers"][0]["name"] == "main"
    assert made["metadata"]["generateName"] == "web-"
    assert made["metadata"]["finalizers"] == ["keep", "count"]
    assert made["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "name": "web",
            "uid": "uid-web",
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    assert pods.from_template(template, owner, name="web-0")["metadata"]["name"] == "web-0"
