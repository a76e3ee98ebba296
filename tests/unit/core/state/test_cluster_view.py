"""The cluster as a value."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from karpenter.api.cluster import Lease
from karpenter.api.meta import (
    Condition,
    ObjectMeta,
    convert,
    find_status_condition,
    is_status_condition_true,
    status_condition_since,
)
from karpenter.api.node import Node
from karpenter.api.pod import Pod
from karpenter.core.state.cluster import NodeClass, nodes_and_pools, view_of
from karpenter_local.testing.builders import manifest_pod

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
READY = Condition(type="Ready", status="True", last_transition_time=NOON)
DRIFTED = Condition(type="Drifted", status="False")


def test_objects_are_found_by_kind_and_key() -> None:
    """Every object has its place; kinds that decide nothing are left out."""
    lease = Lease(metadata=ObjectMeta(name="leader", namespace="kube-system"))
    view = view_of([manifest_pod("web"), Node(metadata=ObjectMeta(name="node-1")), lease])

    assert (list(view.pods), list(view.nodes), list(view.claims)) == (["default/web"], ["node-1"], [])


def test_what_is_known_of_machines_can_be_compared() -> None:
    """Pods come and go without a difference; nodes make one."""
    node = Node(metadata=ObjectMeta(name="node-1"))

    assert nodes_and_pools(view_of([manifest_pod("web"), node])) == nodes_and_pools(view_of([node]))
    assert nodes_and_pools(view_of([manifest_pod("web"), node])) != nodes_and_pools(
        view_of([manifest_pod("web")])
    )


def test_the_last_of_two_wins() -> None:
    """An object that comes twice is the later one."""
    assert (
        view_of([manifest_pod("web"), manifest_pod("web", nodeName="node-1")])
        .pods["default/web"]
        .spec.node_name
        == "node-1"
    )


def test_node_classes_are_found_by_group_kind_and_name() -> None:
    """A node class of any provider is known by its reference."""
    found = NodeClass(group="example.com", kind="ThingClass", name="default")

    assert view_of([], [found]).node_classes == {("example.com", "ThingClass", "default"): found}


def test_pods_by_node() -> None:
    """Pods that have finished use no room any more."""
    done: dict[str, Any] = {
        "metadata": {"name": "done", "namespace": "default"},
        "spec": {"nodeName": "node-1"},
        "status": {"phase": "Succeeded"},
    }
    view = view_of(
        [
            manifest_pod("a", nodeName="node-1"),
            manifest_pod("b", nodeName="node-1"),
            manifest_pod("c"),
            convert(done, Pod),
        ]
    )

    assert {name: [p.name for p in pods] for name, pods in view.pods_by_node.items()} == {
        "node-1": ["a", "b"]
    }


@pytest.mark.parametrize(
    ("kind", "found", "holds", "when"),
    [
        pytest.param("Ready", READY, True, NOON, id="a condition that holds"),
        pytest.param("Drifted", DRIFTED, False, None, id="a condition that does not"),
        pytest.param("Other", None, False, None, id="a condition that is not there"),
    ],
)
def test_conditions(kind: str, found: Condition | None, holds: bool, when: datetime | None) -> None:
    """A condition can be found, asked, and dated."""
    conditions = (READY, DRIFTED)

    assert (
        find_status_condition(conditions, kind),
        is_status_condition_true(conditions, kind),
        status_condition_since(conditions, kind),
    ) == (
        found,
        holds,
        when,
    )
