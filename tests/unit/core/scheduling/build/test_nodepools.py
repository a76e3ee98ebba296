"""Which pools may launch nodes, and how much their limits leave."""

from __future__ import annotations

from typing import Any

import pytest

from karpenter.api import labels
from karpenter.api.meta import convert
from karpenter.api.node import Node
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodepool import NodePool
from karpenter.core.model.overlays import ParsedOverlay
from karpenter.core.model.requirements import NOTHING_REQUIRED
from karpenter.core.model.resources import LARGEST
from karpenter.core.scheduling.build.nodepools import as_pool, pool_usage, pools_by_weight
from karpenter.core.state.cluster import NodeClass, view_of
from karpenter.core.state.statenode import StateNode
from tests.unit.core.scheduling.build.catalogue import CATALOG

GONE = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
REF = {"group": "example.com", "kind": "ThingClass", "name": "main"}


def pool(
    name: str = "default",
    *,
    meta: dict[str, Any] | None = None,
    template: dict[str, Any] | None = None,
    own: dict[str, Any] | None = None,
    ready: dict[str, Any] | None = None,
    **spec: object,
) -> NodePool:
    """Return a pool from parts of its manifest."""
    conditions = [{"type": "Ready", **ready}] if ready else []
    plain = {
        "metadata": {"name": name, **(meta or {})},
        "spec": {
            "template": {
                "metadata": own or {},
                "spec": {"nodeClassRef": REF, "requirements": [], **(template or {})},
            },
            **spec,
        },
        "status": {"conditions": conditions},
    }
    return convert(plain, NodePool)


def node_class(*, ready: bool | None = None, reason: str = "", deleting: bool = False) -> NodeClass:
    return NodeClass(
        group="example.com", kind="ThingClass", name="main", ready=ready, reason=reason, deleting=deleting
    )


def test_order() -> None:
    """The heaviest pool comes first, and of equals the later name."""
    pools = [pool("a"), pool("b", weight=5), pool("c", weight=5), pool("d"), pool("aa", weight=1)]

    assert [state.pool.name for state in pools_by_weight(view_of(pools))] == ["c", "b", "aa", "d", "a"]


@pytest.mark.parametrize(
    ("found", "classes", "sentence"),
    [
        pytest.param(pool(), [], "", id="a pool that nothing is known about"),
        pytest.param(pool(ready={"status": "True"}), [], "", id="a ready pool"),
        pytest.param(pool(meta=GONE), [], "it is being deleted", id="a pool that goes"),
        pytest.param(
            pool(replicas=3), [], "it is static: its nodes are not launched for pods", id="a static pool"
        ),
        pytest.param(pool(ready={"status": "False"}), [], "it is not ready", id="a pool that is not ready"),
        pytest.param(
            pool(ready={"status": "Unknown", "message": "no class"}),
            [],
            "it is not ready: no class",
            id="a pool that says why it is not ready",
        ),
        pytest.param(pool(), [node_class()], "", id="a class that nothing is known about"),
        pytest.param(pool(), [node_class(ready=True)], "", id="a ready class"),
        pytest.param(
            pool(),
            [node_class(ready=False)],
            "its ThingClass main is not ready",
            id="a class that is not ready",
        ),
        pytest.param(
            pool(),
            [node_class(ready=False, reason="no subnet")],
            "its ThingClass main is not ready: no subnet",
            id="a class that says why it is not ready",
        ),
        pytest.param(
            pool(),
            [node_class(deleting=True)],
            "its ThingClass main is being deleted",
            id="a class that goes",
        ),
        pytest.param(
            pool(limits={"cpu": "lots"}),
            [],
            "it cannot be read: resource 'cpu': 'lots' is not a quantity",
            id="a limit that cannot be read",
        ),
        pytest.param(
            pool(template={"requirements": [{"key": "a", "operator": "Is"}]}),
            [],
            "it cannot be read: label 'a': 'Is' is not one of the operators",
            id="a requirement that cannot be read",
        ),
        pytest.param(
            pool(template={"expireAfter": "soon"}),
            [],
            "it cannot be read: spec.template.spec.expireAfter: 'soon' is not a duration",
            id="a duration that cannot be read",
        ),
    ],
)
def test_obstacles(found: NodePool, classes: list[NodeClass], sentence: str) -> None:
    """A pool launches nodes unless something keeps it from doing so, which it can say."""
    (state,) = pools_by_weight(view_of([found], classes))

    assert bool(state.obstacle) is bool(sentence)
    assert state.obstacle.startswith(sentence)


def test_a_pool_becomes_a_template() -> None:
    """Requirements and labels are one; the pool and its class are labels, its hash is an annotation."""
    found = as_pool(
        pool(
            own={"labels": {"team": "web"}, "annotations": {"note": "x"}},
            template={
                "requirements": [{"key": labels.ZONE, "operator": "In", "values": ["a"], "minValues": 1}],
                "taints": [{"key": "x", "effect": "NoSchedule"}],
                "startupTaints": [{"key": "y", "effect": "NoSchedule"}],
            },
        ),
        CATALOG,
        {},
    )
    own = {"team": "web", labels.NODEPOOL: "default", "example.com/thingclass": "main"}

    assert (found.labels, found.types) == (own, CATALOG.types)
    assert str(found.requirements) == (
        "example.com/thingclass In [main], karpenter.sh/nodepool In [default],"
        " team In [web], topology.kubernetes.io/zone In [a] minValues 1"
    )
    assert ([t.key for t in found.taints], [t.key for t in found.startup_taints]) == (["x"], ["y"])
    assert found.annotations["note"] == "x"
    assert found.annotations[labels.NODEPOOL_HASH].isdigit()
    assert found.annotations[labels.NODEPOOL_HASH_VERSION] == "v3"


def test_a_label_narrows_a_requirement() -> None:
    """A template that sets a label also requires it."""
    requires = {"requirements": [{"key": "team", "operator": "In", "values": ["web", "db"]}]}
    found = as_pool(pool(own={"labels": {"team": "web"}}, template=requires), CATALOG, {})

    assert str(found.requirements["team"]) == "team In [web]"


@pytest.mark.parametrize(
    ("limits", "used", "expected"),
    [
        pytest.param({}, {"cpu": 1000}, {}, id="no limits"),
        pytest.param({"cpu": "4"}, {}, {"cpu": 4000}, id="nothing is used"),
        pytest.param({"cpu": "4"}, {"cpu": 1500, "memory": 1}, {"cpu": 2500}, id="some is used"),
        pytest.param({"cpu": "4"}, {"cpu": 9000}, {"cpu": -5000}, id="more is used than allowed"),
        pytest.param({"nodes": "3"}, {"nodes": 1}, {"nodes": 2}, id="nodes are counted"),
        pytest.param({"memory": "1e30"}, {}, {"memory": LARGEST}, id="a limit without end is no limit"),
    ],
)
def test_limits(limits: dict[str, str], used: dict[str, int], expected: dict[str, int]) -> None:
    """What a limit leaves is what the pool's machines do not have yet."""
    assert as_pool(pool(limits=limits), CATALOG, used).limits == expected


def test_corrections_apply() -> None:
    """Overlays change what a pool is offered, and the changes are marked."""
    found = as_pool(pool(), CATALOG, {}, [ParsedOverlay("o", 0, NOTHING_REQUIRED, "3")])

    assert ({o.price for kind in found.types for o in kind.offerings}, found.overlaid) == (
        {3.0},
        {"small": (True, False), "large": (True, False)},
    )


def machine(name: str, pool_name: str = "default", **meta: object) -> StateNode:
    """Return a machine of a pool with four cores."""
    claim = {
        "metadata": {"name": name, "labels": {labels.NODEPOOL: pool_name}, **meta},
        "spec": {"nodeClassRef": REF, "requirements": []},
        "status": {"providerID": name, "capacity": {"cpu": "4"}},
    }
    return StateNode(claim=convert(claim, NodeClaim))


def test_usage() -> None:
    """Machines of a pool count until they leave; other people's nodes never do."""
    theirs = StateNode(
        node=convert({"metadata": {"name": "x", "labels": {labels.NODEPOOL: "default"}}}, Node)
    )
    nodes = [machine("a"), machine("b"), machine("c", "other"), machine("d", **GONE), theirs]

    assert pool_usage(nodes) == {"default": {"cpu": 8000, "nodes": 2}, "other": {"cpu": 4000, "nodes": 1}}
