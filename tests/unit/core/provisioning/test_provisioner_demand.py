"""Which pods a decision is made for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from karpenter.api.capacitybuffer import CapacityBuffer
from karpenter.api.labels import DISRUPTED, NODEPOOL
from karpenter.api.meta import convert
from karpenter.api.pod import Pod, PodTemplate
from karpenter.core.provisioning.provisioner import (
    is_provisionable,
    is_trigger,
    may_serve_more,
    pods_to_schedule,
    requires_no_pool,
)
from karpenter.core.scheduling.build.policy import SchedulingPolicy
from karpenter.core.state.cluster import view_of
from tests.unit.core.lifecycle.objects import NOW, complete, node, pod, pool

if TYPE_CHECKING:
    from karpenter.api.node import Node
    from karpenter.api.nodepool import NodePool

TRIED = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
POLICY = SchedulingPolicy()
GOING = {"key": DISRUPTED, "effect": "NoSchedule"}


def waiting(name: str = "waits", **spec: Any) -> Pod:
    """Return a pod that the scheduler found no node for."""
    return pod(name, spec={"nodeName": "", **spec}, status={"phase": "Pending", **TRIED})


def without_pool(**extra: Any) -> dict[str, Any]:
    """Return the affinity of a pod that wants none of our nodes."""
    expressions = [{"key": NODEPOOL, "operator": "DoesNotExist", **extra}]
    terms = [{"matchExpressions": expressions}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"nodeAffinity": required}


@pytest.mark.parametrize(
    ("found", "counts"),
    [
        pytest.param(waiting(), True, id="the scheduler found no node"),
        pytest.param(pod(spec={"nodeName": ""}), False, id="the scheduler has not looked yet"),
        pytest.param(pod(status=TRIED), False, id="it has a node"),
    ],
)
def test_a_pod_counts_once_the_scheduler_has_given_up(found: Pod, counts: bool) -> None:
    """A pod that was not tried may still find room by itself."""
    assert is_provisionable(found) == counts


def test_pods_of_leaving_nodes_need_a_place_too() -> None:
    """Pods on a node that is deleted are placed like pending ones."""
    gone = complete(meta={"deletionTimestamp": "2026-01-01T12:01:00Z"})
    view = view_of([node(), gone, pod(), waiting()])

    assert [each.name for each in pods_to_schedule(view, NOW, POLICY).pods] == ["waits", "pod-1"]


def test_a_pod_that_wants_none_of_our_nodes_is_left_alone() -> None:
    """It is not even told of; a wish that cannot be read is refused later, with a sentence."""
    own = waiting("own", affinity=without_pool())
    broken = waiting("broken", affinity=without_pool(operator="Beyond"))
    view = view_of([own, broken, waiting("plain", nodeSelector={"a": "b"})])

    assert [each.name for each in pods_to_schedule(view, NOW, POLICY).pods] == ["broken", "plain"]
    assert pods_to_schedule(view, NOW, POLICY).skipped == ("default/own",)
    assert not requires_no_pool(broken.spec)


def test_buffers_ask_for_room_where_they_are_switched_on() -> None:
    """The pods that stand for a buffer's room come last."""
    template = {"metadata": {"name": "t", "namespace": "default"}, "template": {"spec": {"containers": []}}}
    spec = {"podTemplateRef": {"name": "t"}, "replicas": 2}
    buffer = {"metadata": {"name": "b", "namespace": "default", "uid": "u"}, "spec": spec}
    view = view_of([waiting(), convert(template, PodTemplate), convert(buffer, CapacityBuffer)])

    assert len(pods_to_schedule(view, NOW, POLICY).pods) == 1
    assert len(pods_to_schedule(view, NOW, SchedulingPolicy(buffers=True)).pods) == 3


@pytest.mark.parametrize(
    ("item", "triggers"),
    [
        pytest.param(waiting(), True, id="a pod that the scheduler found no node for"),
        pytest.param(pod("runs"), False, id="a pod that runs"),
        pytest.param(node(spec={"taints": [GOING]}), True, id="a node that is being disrupted"),
        pytest.param(node(), False, id="any other node"),
    ],
)
def test_what_asks_for_a_decision(item: Pod | Node, triggers: bool) -> None:
    """Pods without a node ask, and nodes that are to go, whose pods will."""
    assert is_trigger(item) is triggers


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        pytest.param("DoesNotExist", True, id="a node without a NodePool"),
        pytest.param("Exists", False, id="with one"),
    ],
)
def test_a_preference_for_other_nodes_counts_like_a_requirement(operator: str, expected: bool) -> None:
    """Preferences are requirements until they are given up; upstream asks before it gives any up."""
    term = {"matchExpressions": [{"key": NODEPOOL, "operator": operator}]}
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term}]}

    assert requires_no_pool(waiting("own", affinity={"nodeAffinity": preferred}).spec) is expected


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param(None, pool(), True, id="it is new"),
        pytest.param(pool(), pool(), False, id="nothing has changed"),
        pytest.param(pool(), pool(status={"nodes": 3, "resources": {"cpu": "4"}}), False, id="it has nodes"),
        pytest.param(
            pool(Ready="True"),
            pool(Ready="True", NodeRegistrationHealthy="True"),
            False,
            id="its first node has registered",
        ),
        pytest.param(pool(Ready="False"), pool(Ready="True"), True, id="it has become ready"),
        pytest.param(pool(), pool(spec={"limits": {"cpu": "8"}}), True, id="its limit was raised"),
        pytest.param(pool(), pool(meta={"annotations": {"a": "b"}}), True, id="its annotations were changed"),
        pytest.param(
            pool(), pool(meta={"deletionTimestamp": "2026-01-01T00:00:00Z"}), True, id="it is being deleted"
        ),
    ],
)
def test_changes_of_a_node_pool_that_may_serve_more(
    before: NodePool | None, after: NodePool, expected: bool
) -> None:
    """Pods are decided about again for what a NodePool allows, not for what it reports of its nodes."""
    assert may_serve_more(after, before) == expected
