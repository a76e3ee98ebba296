"""What kube-scheduler is told about where pods are planned to run."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from karpenter.api.labels import DISRUPTED, INITIALIZED, NODEPOOL, REGISTERED, UNREGISTERED
from karpenter.api.meta import convert
from karpenter.api.pod import Pod
from karpenter.core.effects import NominatePod
from karpenter.core.provisioning.nomination import (
    BINDING_GRACE,
    SUCCESSOR_GRACE,
    Expected,
    Nomination,
    expect,
    is_over,
    nominate,
    successor,
)
from karpenter.core.state.pod import NOMINATION_MANAGER, is_preempting, is_unscheduled
from karpenter.core.state.statenode import StateNode
from tests.unit.core.lifecycle.objects import NOW, at, complete, launched, node, pod

if TYPE_CHECKING:
    from karpenter.core.effects import Step

ASKS: dict[str, Any] = {"containers": [{"name": "app", "resources": {"requests": {"cpu": "1"}}}]}
SPREAD = {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone"}
ROOM = {"allocatable": {"cpu": "2", "memory": "8Gi", "pods": "10"}, "capacity": {"cpu": "2"}}
THERE = node(meta={"labels": {NODEPOOL: "default", REGISTERED: "true", INITIALIZED: "true"}}, status=ROOM)
PLANNED = Nomination("claim-1", NOW)
SCHEDULER = "kube-scheduler"
WITHDRAWN = ""


DAEMON_SET = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "ds", "controller": True}
NEW: dict[str, Any] = {"spec": {"nodeName": "", **ASKS}, "status": {"phase": "Pending"}}


def waits(name: str = "web-0", *, nominated: str = "", by: str = NOMINATION_MANAGER, **spec: Any) -> Pod:
    """Return a pod without a node, and who has nominated it."""
    entry = {
        "manager": by,
        "operation": "Update",
        "subresource": "status",
        "fieldsV1": {"f:status": {"f:nominatedNodeName": {}}},
    }
    return convert(
        {
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": f"{name}-uid",
                "resourceVersion": "7",
                "managedFields": [entry] if nominated else [],
            },
            "spec": {**ASKS, **spec},
            "status": {"phase": "Pending", "nominatedNodeName": nominated},
        },
        Pod,
    )


def starting(found: Any = THERE) -> StateNode:
    """Return a node that is not initialized."""
    return StateNode(node=found, claim=launched(status=ROOM))


def written(due: Step) -> list[str]:
    """Return the nodes that are written, in order."""
    assert all(isinstance(each, NominatePod) for each in due.effects)
    return [each.node for each in due.effects if isinstance(each, NominatePod)]


def test_a_pod_is_nominated_for_the_node_that_it_was_given() -> None:
    """The write holds only for the pod that the decision was made about."""
    due = nominate(waits(), PLANNED, starting(), [], NOW)

    assert due.effects == (
        NominatePod(
            pod="default/web-0",
            uid="web-0-uid",
            node="node-1",
            because="it is planned to run on node node-1",
        ),
    )


@pytest.mark.parametrize(
    ("nomination", "target", "found"),
    [
        pytest.param(PLANNED, starting(), [], id="the node is as planned"),
        pytest.param(None, None, [WITHDRAWN], id="there is no plan for it"),
        pytest.param(PLANNED, None, [WITHDRAWN], id="its claim is gone"),
        pytest.param(
            PLANNED,
            StateNode(claim=launched(status=ROOM)),
            [WITHDRAWN],
            id="the node is gone and will return",
        ),
        pytest.param(
            PLANNED,
            StateNode(node=THERE, claim=launched(status=ROOM), marked=True),
            [WITHDRAWN],
            id="the node is marked for deletion",
        ),
        pytest.param(
            PLANNED,
            starting(node(spec={"taints": [{"key": DISRUPTED, "effect": "NoSchedule"}]}, status=ROOM)),
            [WITHDRAWN],
            id="the node is being disrupted",
        ),
        pytest.param(
            PLANNED, starting(node(name="node-2", status=ROOM)), ["node-2"], id="the plan has changed"
        ),
    ],
)
def test_what_was_nominated_is_kept_or_withdrawn(
    nomination: Nomination | None, target: StateNode | None, found: list[str]
) -> None:
    """A nomination of ours lasts as long as what it was made for."""
    assert written(nominate(waits(nominated="node-1"), nomination, target, [], NOW)) == found


def test_a_node_that_takes_no_pods_yet() -> None:
    """A pod is nominated for it only when it is about to; what was nominated then stays."""
    closed = [{"key": UNREGISTERED, "effect": "NoExecute"}]
    there = starting(node(spec={"taints": closed}, status=ROOM))

    assert written(nominate(waits(), PLANNED, there, [], NOW)) == []
    assert written(nominate(waits(), PLANNED, there, [], NOW, opens=True)) == ["node-1"]
    assert written(nominate(waits(nominated="node-1"), PLANNED, there, [], NOW)) == []


def test_a_nomination_ends_a_while_after_the_node_is_complete() -> None:
    """Until then it is looked at again in time; the room is for others afterwards."""
    claim = complete(status=ROOM)
    there = StateNode(node=THERE, claim=claim)

    before = nominate(waits(nominated="node-1"), PLANNED, there, [], NOW)
    after = nominate(waits(nominated="node-1"), PLANNED, there, [], NOW + BINDING_GRACE)

    assert written(before) == []
    assert before.again == BINDING_GRACE.total_seconds()
    assert written(after) == [WITHDRAWN]


def test_a_node_without_a_claim_is_nominated_for_the_same_time() -> None:
    """A pod may be planned to run on a node that Karpenter does not manage."""
    planned = Nomination("", NOW, "node-1")

    assert written(nominate(waits(), planned, StateNode(node=THERE), [], NOW)) == ["node-1"]
    assert written(nominate(waits(), planned, StateNode(node=THERE), [], NOW + BINDING_GRACE)) == []


def test_of_pods_that_do_not_fit_together_the_first_are_nominated() -> None:
    """kube-scheduler counts all of them when it tries one: with one too many, none would fit."""
    pods = [waits(f"web-{number}", nominated="node-1") for number in range(3)]

    found = [
        written(nominate(each, PLANNED, starting(), [other for other in pods if other is not each], NOW))
        for each in pods
    ]

    assert found == [[], [], [WITHDRAWN]]


def test_pods_that_were_bound_take_the_room_of_those_that_wait() -> None:
    """What runs on the node counts before what is nominated."""
    there = StateNode(node=THERE, claim=launched(status=ROOM), pods=(pod("there", spec=ASKS),))

    assert written(nominate(waits("web-0", nominated="node-1"), PLANNED, there, [], NOW)) == []
    assert written(nominate(waits("web-1", nominated="node-1"), PLANNED, there, [waits("web-0")], NOW)) == [
        ""
    ]


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(waits(nominated="node-9", by=SCHEDULER), id="kube-scheduler has nominated it"),
        pytest.param(waits(schedulerName="other"), id="another scheduler places it"),
        pytest.param(waits(schedulingGates=[{"name": "held"}]), id="it is gated"),
        pytest.param(waits(nodeName="node-9"), id="it is bound"),
        pytest.param(
            msgspec.structs.replace(
                waits(),
                metadata=pod(
                    meta={"ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet"}]}
                ).metadata,
            ),
            id="a DaemonSet owns it",
        ),
    ],
)
def test_pods_that_are_left_alone(found: Pod) -> None:
    """Nothing is written about a pod that is not ours to place, planned or not."""
    assert nominate(found, PLANNED, starting(), [], NOW).effects == ()
    assert nominate(found, None, None, [], NOW).effects == ()


@pytest.mark.parametrize(
    ("found", "preempts"),
    [
        pytest.param(waits(), False, id="it is not nominated"),
        pytest.param(waits(nominated="node-1"), False, id="we have nominated it"),
        pytest.param(waits(nominated="node-1", by=SCHEDULER), True, id="kube-scheduler has nominated it"),
    ],
)
def test_who_has_nominated_a_pod(found: Pod, preempts: bool) -> None:
    """A pod for which kube-scheduler makes room needs no other; one that we have nominated still does."""
    assert is_preempting(found) is preempts
    assert is_unscheduled(found) is not preempts


@pytest.mark.parametrize(
    ("when", "told"),
    [
        pytest.param("DoNotSchedule", [], id="it must be spread"),
        pytest.param("ScheduleAnyway", ["node-1"], id="it should be spread"),
    ],
)
def test_pods_that_must_be_spread_are_left_to_kube_scheduler(when: str, told: list[str]) -> None:
    """It would count others that are nominated for the node as if they ran there, and refuse each."""
    found = waits(topologySpreadConstraints=[{**SPREAD, "whenUnsatisfiable": when}])

    assert written(nominate(found, PLANNED, starting(), [], NOW)) == told


def test_the_last_client_that_changed_the_field_has_nominated_the_pod() -> None:
    """A pod that no managedFields are known of counts as preempting, as it does for Karpenter."""
    ours = waits(nominated="node-1")
    unknown = msgspec.structs.replace(
        ours, metadata=msgspec.structs.replace(ours.metadata, managed_fields=())
    )

    assert is_preempting(unknown)


def owned(name: str, *, owner: str = "rs-uid", revision: str = "abc", **more: Any) -> Pod:
    """Return a pod that a ReplicaSet has made."""
    meta = {
        "uid": f"{name}-uid",
        "labels": {"pod-template-hash": revision},
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": owner, "controller": True}
        ],
        **more.pop("meta", {}),
    }
    return pod(name, meta=meta, **more)


def left(name: str = "old", *, ago: timedelta = timedelta()) -> Expected:
    """Return the place of a pod that has left."""
    found = expect(owned(name, meta={"deletionTimestamp": at(NOW - ago)}), PLANNED, NOW - ago)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("found", "expected", "takes"),
    [
        pytest.param(owned("new", **NEW), left(), True, id="its owner and template are the same"),
        pytest.param(owned("new", owner="other", **NEW), left(), False, id="it has another owner"),
        pytest.param(owned("new", revision="def", **NEW), left(), False, id="it has another template"),
        pytest.param(pod("new", **NEW), left(), False, id="it has no owner"),
        pytest.param(owned("new"), left(), False, id="it is bound already"),
        pytest.param(
            owned("new", **NEW), expect(owned("old"), PLANNED, NOW), False, id="the pod has not left yet"
        ),
        pytest.param(
            owned("new", **NEW),
            left(ago=SUCCESSOR_GRACE + timedelta(seconds=1)),
            False,
            id="the pod has left long ago",
        ),
    ],
)
def test_the_successor_of_an_evicted_pod(found: Pod, expected: Expected, takes: bool) -> None:
    """A pod that was created for one that has left takes the place that this was to have."""
    assert successor(found, [expected], NOW) == (expected if takes else None)


def test_a_pod_of_the_same_name_takes_its_own_place() -> None:
    """Pods of a StatefulSet keep their names; of others the one that left first comes first."""
    early, late = left("web-0", ago=timedelta(seconds=9)), left("web-1")
    comes = owned("web-1", **{**NEW, "meta": {"uid": "second"}})

    assert successor(comes, [early, late], NOW) == late
    assert successor(owned("web-7", **NEW), [late, early], NOW) == early


def test_a_place_does_not_wait_forever() -> None:
    """A workload that was scaled down creates no successor."""
    assert not is_over(left(), NOW)
    assert is_over(left(ago=SUCCESSOR_GRACE + timedelta(seconds=1)), NOW)
