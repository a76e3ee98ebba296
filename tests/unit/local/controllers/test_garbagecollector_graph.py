"""What happens to those whose owners go."""

from typing import Any

import pytest

from karpenter.api.meta import OwnerReference
from karpenter_local.controllers.garbagecollector_graph import (
    FOREGROUND,
    ORPHAN,
    Delete,
    DropFinalizer,
    DropOwners,
    GraphNode,
    OwnerGraph,
    decide,
)


def node(uid: str, *owners: str, blocks: bool = True, **more: Any) -> GraphNode:
    """Return an object that belongs to others, by their uids."""
    return GraphNode(
        api_version="v1",
        kind="Widget",
        namespace="default",
        name=uid,
        uid=uid,
        owners=tuple(OwnerReference(uid=each, name=each, block_owner_deletion=blocks) for each in owners),
        **more,
    )


def graph(*nodes: GraphNode) -> OwnerGraph:
    """Return what is known of some objects."""
    found = OwnerGraph()
    for each in nodes:
        found.put(each)
    return found


WAITING = node("boss", finalizers=(FOREGROUND,), leaving=True)


@pytest.mark.parametrize(
    ("known", "about", "absent", "expected"),
    [
        pytest.param([node("a")], "a", [], [], id="no owner"),
        pytest.param([node("boss"), node("a", "boss")], "a", [], [], id="its owner is there"),
        pytest.param([node("a", "boss")], "a", [], [], id="its owner is not known, and not known to be gone"),
        pytest.param([node("a", "boss")], "a", ["boss"], ["delete Background"], id="its owner is gone"),
        pytest.param(
            [node("a", "boss", finalizers=(ORPHAN,))],
            "a",
            ["boss"],
            ["delete Orphan"],
            id="it leaves its own behind",
        ),
        pytest.param([node("a", "boss", leaving=True)], "a", ["boss"], [], id="it is going already"),
        pytest.param(
            [node("other"), node("a", "boss", "other")],
            "a",
            ["boss"],
            ["drop boss"],
            id="one of two owners is gone",
        ),
        pytest.param(
            [node("a", "boss", "other")], "a", ["boss", "other"], ["delete Background"], id="both are gone"
        ),
        pytest.param(
            [WAITING, node("a", "boss")], "a", [], ["delete Background"], id="its owner waits for it"
        ),
        pytest.param(
            [WAITING, node("a", "boss"), node("child", "a")],
            "a",
            [],
            ["delete Foreground"],
            id="and it has some of its own",
        ),
        pytest.param(
            [WAITING, node("other"), node("a", "boss", "other")],
            "a",
            [],
            ["drop boss"],
            id="one of two owners waits",
        ),
        pytest.param([WAITING, node("a", "boss")], "boss", [], [], id="an owner waits"),
        pytest.param([WAITING], "boss", [], [f"unhold {FOREGROUND}"], id="until no dependent is left"),
        pytest.param(
            [WAITING, node("a", "boss", blocks=False)],
            "boss",
            [],
            [f"unhold {FOREGROUND}"],
            id="that would hold it",
        ),
        pytest.param(
            [node("boss", finalizers=(ORPHAN,), leaving=True), node("a", "boss")],
            "boss",
            [],
            ["drop boss", f"unhold {ORPHAN}"],
            id="an owner leaves its own behind",
        ),
    ],
)
def test_decide(known: list[GraphNode], about: str, absent: list[str], expected: list[str]) -> None:
    """An object goes with its last owner, in the order and manner that its owner asked for."""
    found = graph(*known)
    target = found.find(about)
    assert target is not None

    told = []
    for action in decide(found, target, absent):
        match action:
            case Delete(propagation=propagation):
                told.append(f"delete {propagation}")
            case DropOwners(uids=uids):
                told.append(f"drop {' '.join(uids)}")
            case DropFinalizer(finalizer=finalizer):
                told.append(f"unhold {finalizer}")
    assert told == expected


def test_who_is_to_be_looked_at() -> None:
    """A change concerns the object itself, those that belong to it, and an owner that waits for it."""
    found = graph(node("boss"), node("a", "boss"), node("b", "boss"))

    assert found.put(node("lonely")) == []
    assert found.put(WAITING) == ["boss", "a", "b"]
    assert found.put(node("a", "boss", leaving=True)) == ["a", "boss"]
    assert found.remove("a") == ["boss"]
    assert found.remove("boss") == ["b"]
    assert found.remove("boss") == []


def test_owners_that_change() -> None:
    """Who belongs to whom follows the references as they are now."""
    found = graph(node("boss"), node("a", "boss"))
    found.put(node("a", "other"))

    assert found.dependents("boss") == []
    assert [each.uid for each in found.dependents("other")] == ["a"]
