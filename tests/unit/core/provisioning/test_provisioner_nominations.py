"""Places that waiting pods were given, kept until they are there."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from karpenter.api.labels import BUFFER_FAKE_POD, INITIALIZED, NODEPOOL, REGISTERED
from karpenter.core.provisioning.nomination import (
    BINDING_GRACE,
    NominatedCluster,
    Nomination,
    is_node_coming,
    is_starting,
    keep_nominations,
    nomination_period,
)
from karpenter.core.state.cluster import view_of
from karpenter.core.state.statenode import state_nodes
from tests.unit.core.lifecycle.objects import BORN, NOW, at, complete, launched, node, pod
from tests.unit.core.provisioning.test_provisioner_demand import waiting

if TYPE_CHECKING:
    from karpenter.api.nodeclaim import NodeClaim

ASKS: dict[str, Any] = {"containers": [{"name": "app", "resources": {"requests": {"cpu": "1"}}}]}
ROOM = {"allocatable": {"cpu": "2", "memory": "8Gi", "pods": "10"}, "capacity": {"cpu": "2"}}
OURS = {NODEPOOL: "default", REGISTERED: "true", INITIALIZED: "true"}
COMING = launched(status=ROOM)
THERE = node(meta={"labels": OURS}, status=ROOM)
PROMISE = Nomination("claim-1", NOW)


def two() -> list[Any]:
    return [msgspec.structs.replace(pod(f"web-{n}", spec={"nodeName": "", **ASKS})) for n in range(2)]


def kept(
    *objects: Any, promise: Nomination = PROMISE, now: Any = NOW, marked: bool = False
) -> NominatedCluster:
    """Return what is kept of the promise to two pods."""
    pods = two()
    view = view_of([*objects, *pods])
    if marked:
        view = msgspec.structs.replace(view, marked=frozenset({"claim-1"}))
    return keep_nominations(view, state_nodes(view), pods, {each.key: promise for each in pods}, now)


def test_pods_are_counted_where_they_will_be() -> None:
    """Both pods are on the machine that was promised, and nowhere else; what was known stays what it was."""
    found = kept(COMING)

    assert found.pods == {"default/web-0", "default/web-1"}
    (machine,) = found.nodes
    assert [each.key for each in machine.pods] == ["default/web-0", "default/web-1"]
    assert machine.available["cpu"] == 0
    assert {name: len(pods) for name, pods in found.view.pods_by_node.items()} == {"claim-1": 2}


def test_a_machine_without_promises_hides_no_other() -> None:
    """Machines before and after the one that was promised stay as they are."""
    others = [launched(name=name, status={**ROOM, "providerID": f"kwok://{name}"}) for name in ("aaa", "zzz")]

    found = kept(*others, COMING)

    assert {machine.name: len(machine.pods) for machine in found.nodes} == {"aaa": 0, "claim-1": 2, "zzz": 0}


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        pytest.param(10, 20, id="twice the longest batch"),
        pytest.param(5, 10, id="ten seconds for a batch of five"),
        pytest.param(1, 10, id="and no less for a shorter one"),
    ],
)
def test_how_long_a_node_is_nominated(batch: int, expected: int) -> None:
    """Pods of the next batch still find the node nominated."""
    assert nomination_period(timedelta(seconds=batch)) == timedelta(seconds=expected)


@pytest.mark.parametrize(
    ("objects", "more"),
    [
        pytest.param([], {}, id="the claim is gone"),
        pytest.param([COMING], {"marked": True}, id="the claim is about to go"),
        pytest.param(
            [launched(status=ROOM, meta={"deletionTimestamp": at(NOW)})], {}, id="the claim is being deleted"
        ),
        pytest.param([COMING], {"promise": Nomination("other", NOW)}, id="the promise is of another claim"),
        pytest.param(
            [complete(status=ROOM), THERE, pod("came", spec=ASKS)], {}, id="another pod took the place"
        ),
        pytest.param(
            [complete(status=ROOM), THERE],
            {"now": NOW + BINDING_GRACE},
            id="the machine has been complete for long",
        ),
    ],
)
def test_promises_that_are_over(objects: list[Any], more: dict[str, Any]) -> None:
    """What cannot or need not be kept changes nothing."""
    found = kept(*objects, **more)

    assert found.pods == frozenset()
    assert all("web" not in each.key for machine in found.nodes for each in machine.pods)


def test_a_machine_that_was_completed_just_now_keeps_its_promise() -> None:
    """The scheduler of the cluster gets a while to put the pods there."""
    late = Nomination("claim-1", BORN - timedelta(hours=1))
    done = complete(status=ROOM)

    assert len(kept(done, THERE, promise=late, now=BORN + BINDING_GRACE / 2).pods) == 2
    assert not kept(done, THERE, promise=late, now=BORN + BINDING_GRACE).pods


def test_a_claim_that_does_not_say_when_it_was_complete() -> None:
    """Then the time of the promise counts."""
    done = complete(status={**ROOM, "conditions": [{"type": "Initialized", "status": "True"}]})

    assert len(kept(done, THERE, now=NOW + BINDING_GRACE / 2).pods) == 2


def test_pods_of_buffers_are_not_nominated() -> None:
    """Pods that only stand for room are looked at every time; so are pods without a promise."""
    stands = pod("stands", meta={"annotations": {BUFFER_FAKE_POD: "true"}}, spec={"nodeName": ""})
    view = view_of([COMING])
    found = keep_nominations(view, state_nodes(view), [stands, waiting()], {stands.key: PROMISE}, NOW)

    assert found.view is view
    assert found.pods == frozenset()


@pytest.mark.parametrize(
    ("promise", "claim", "expected"),
    [
        pytest.param(PROMISE, COMING, True, id="its node is starting"),
        pytest.param(PROMISE, complete(), False, id="its node is complete"),
        pytest.param(
            PROMISE, launched(meta={"deletionTimestamp": at(NOW)}), False, id="its claim is deleted"
        ),
        pytest.param(PROMISE, None, False, id="its claim is gone"),
        pytest.param(None, COMING, False, id="no node was promised"),
    ],
)
def test_pods_whose_node_is_coming(
    promise: Nomination | None, claim: NodeClaim | None, expected: bool
) -> None:
    """What kube-scheduler reports of a pod is no news before the node of the pod is there."""
    assert is_node_coming(promise, claim) == expected


def test_what_is_starting() -> None:
    """A machine is on its way until it is complete; other people's never are."""
    found = {each.name: is_starting(each) for each in state_nodes(view_of([complete(), THERE]))}
    found |= {each.name: is_starting(each) for each in state_nodes(view_of([COMING]))}
    theirs = node(name="theirs", spec={"providerID": "other://1"})
    found |= {each.name: is_starting(each) for each in state_nodes(view_of([theirs]))}

    assert found == {"node-1": False, "claim-1": True, "theirs": False}
