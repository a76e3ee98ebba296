"""Which machines of a static pool go when it has too many."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from karpenter.api.labels import DO_NOT_DISRUPT, NODEPOOL, POD_DELETION_COST, REGISTERED
from karpenter.core.disruption.deprovisioning import lifetime_left, scale_down
from karpenter.core.effects import Count, DeleteObject
from karpenter.core.state.cluster import view_of
from tests.unit.core.lifecycle.objects import BORN, NOW, at, claim, complete, node, pod, pool

if TYPE_CHECKING:
    from karpenter.api.meta import Resource
    from karpenter.api.nodepool import NodePool

DAEMON = {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d"}]}
PROTECTED = {"annotations": {DO_NOT_DISRUPT: "true"}}
GONE = {"deletionTimestamp": at(NOW)}


def machine(name: str, *pods: dict[str, Any], age: str = "Never") -> list[Resource]:
    """Return a claim, its node, and a pod there for each way that pods can be."""
    held = complete(
        name=name,
        spec={"expireAfter": age},
        status={"providerID": f"kwok://{name}", "nodeName": f"node-{name}"},
    )
    there = node(
        name=f"node-{name}", meta={"labels": {NODEPOOL: "default"}}, spec={"providerID": f"kwok://{name}"}
    )
    return [
        held,
        there,
        *(pod(f"{name}-{n}", meta=meta, spec={"nodeName": f"node-{name}"}) for n, meta in enumerate(pods)),
    ]


def removed(wanted: int, *machines: list[Resource], marked: frozenset[str] = frozenset()) -> list[str]:
    """Return the claims that go, in order."""
    view = view_of([each for machine in machines for each in machine])
    view = msgspec.structs.replace(view, marked=marked)
    return [each.name for each in scale_down(static(wanted), view, NOW) if isinstance(each, DeleteObject)]


def static(wanted: int, **parts: Any) -> NodePool:
    return pool(spec={"replicas": wanted}, **parts)


ORDERED: list[list[Resource]] = [
    machine("f-protected", PROTECTED),
    machine("e-busy", {}, {}),
    machine("d-one", {}),
    machine("c-soon-too-old", {}, {}, age="2m30s"),
    machine("b-daemons", DAEMON),
    machine("a-empty"),
    [claim(name="z-unlaunched")],
]


def test_the_order() -> None:
    """What is not there yet goes first, then what is empty, then what hurts least, then what is protected."""
    assert removed(0, *ORDERED) == [
        "z-unlaunched",
        "a-empty",
        "b-daemons",
        "c-soon-too-old",
        "d-one",
        "e-busy",
        "f-protected",
    ]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        pytest.param(7, 0, id="just enough"),
        pytest.param(9, 0, id="too few"),
        pytest.param(5, 2, id="two too many"),
    ],
)
def test_only_what_is_too_much_goes(wanted: int, expected: int) -> None:
    """As many go as there are too many."""
    assert len(removed(wanted, *ORDERED)) == expected


def test_what_leaves_anyway_does_not_count() -> None:
    """Claims that are deleted, are about to be replaced or are another pool's are left alone."""
    others: list[list[Resource]] = [
        [complete(name="leaves", meta=GONE)],
        [complete(name="marked", status={"providerID": "kwok://m"})],
        [complete(name="other", meta={"labels": {NODEPOOL: "other"}}, status={"providerID": "kwok://o"})],
    ]

    assert removed(1, *others, machine("a"), marked=frozenset({"marked"})) == []
    assert removed(0, *others, machine("a"), marked=frozenset({"marked"})) == ["a"]


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(pool(), id="pods decide"),
        pytest.param(static(0, meta=GONE), id="the pool goes with all it has"),
    ],
)
def test_pools_that_do_not_shrink(found: NodePool) -> None:
    """Nothing is removed here from a dynamic pool or one that leaves."""
    assert scale_down(found, view_of(machine("a")), NOW) == ()


def test_every_removal_is_counted() -> None:
    """A machine that goes is counted with the reason."""
    (_, count) = scale_down(static(0), view_of(machine("a")), NOW)

    assert isinstance(count, Count)
    assert count.labels["reason"] == "scaledown"


@pytest.mark.parametrize(
    ("age", "born", "expected"),
    [
        pytest.param("Never", at(BORN), 1.0, id="never too old"),
        pytest.param("4m", at(BORN), 0.5, id="half of its life is over"),
        pytest.param("1m", at(BORN), 0.0, id="too old already"),
        pytest.param("4m", at(BORN + timedelta(hours=1)), 1.0, id="born in the future"),
        pytest.param("4m", None, 1.0, id="it is not known when it was created"),
        pytest.param("0s", at(BORN), 1.0, id="no life at all"),
        pytest.param("soon", at(BORN), 1.0, id="nonsense"),
    ],
)
def test_lifetime_left(age: str, born: str | None, expected: float) -> None:
    """The share of its life that a machine still has."""
    held = claim(spec={"expireAfter": age}, meta={"creationTimestamp": born})

    assert lifetime_left(held, NOW) == expected


def test_an_empty_machine_goes_before_pods_that_want_to_go() -> None:
    """What is empty goes first, also where the deletion cost of a pod is as low as it can be."""
    willing = machine("a-willing", {"annotations": {POD_DELETION_COST: "-2147483647"}})

    assert removed(1, willing, machine("b-empty")) == ["b-empty"]


def test_a_protected_daemon_keeps_its_machine() -> None:
    """A machine with nothing but a DaemonSet's pod is not empty where that pod must not be disrupted."""
    assert removed(1, machine("a-guarded", DAEMON | PROTECTED), machine("b-busy", {})) == ["b-busy"]


def test_a_protected_node_goes_last() -> None:
    """A node that must not be disrupted stays while there is another one, though it is empty."""
    guarded = machine("a-guarded")
    registered = {NODEPOOL: "default", REGISTERED: "true"}
    guarded[1] = node(
        name="node-a-guarded",
        meta={"labels": registered, **PROTECTED},
        spec={"providerID": "kwok://a-guarded"},
    )

    assert removed(1, guarded, machine("b-busy", {})) == ["b-busy"]
