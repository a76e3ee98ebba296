"""Reading plain objects and their conditions."""

from typing import Any

import pytest

from karpenter_local.controllers import conditions, plain
from karpenter_local.controllers.loop import HOT_LOOP, HotLoopDetector
from tests.unit.local.controllers.objects import NOW, at, workload


@pytest.mark.parametrize(
    ("value", "total", "up", "expected"),
    [
        pytest.param(3, 10, True, 3, id="a count is a count"),
        pytest.param("25%", 10, True, 3, id="a share rounds up"),
        pytest.param("25%", 10, False, 2, id="or down"),
        pytest.param("4", 10, True, 4, id="a count in quotes"),
    ],
)
def test_scaled(value: Any, total: int, up: bool, expected: int) -> None:
    """A count may be given as a share of a total."""
    assert plain.scaled(value, total, up=up) == expected


def test_who_it_is() -> None:
    """An object says who it is, and whom it belongs to."""
    owner = workload(name="web")
    owned = workload("ReplicaSet", "web-1", metadata={"ownerReferences": [plain.reference_to(owner)]})

    assert plain.key_of(owned) == "default/web-1"
    assert plain.controller_uid(owned) == "uid-web"
    assert plain.controller_uid(owner) == ""
    assert plain.selector_of(owner).matches({"app": "web"})
    assert not plain.selector_of({"metadata": {}, "spec": {}}).matches({"app": "web"})
    assert plain.key_of({"metadata": {"name": "node-1"}}) == "node-1"


def test_conditions() -> None:
    """A condition keeps the time of its last change, and the latest comes last."""
    first = conditions.with_condition([], "A", "True", now=NOW, reason="Good")
    both = conditions.with_condition(first, "B", "False", now=NOW)
    later = plain.parse_time(at(60))
    assert later is not None

    kept = conditions.with_condition(both, "A", "True", now=later, reason="Better", message="still")
    moved = conditions.with_condition(kept, "A", "False", now=later)

    assert [each["type"] for each in kept] == ["B", "A"]
    assert (kept[1]["lastTransitionTime"], moved[1]["lastTransitionTime"]) == (at(0), at(60))
    assert conditions.holds(kept, "A")
    assert not conditions.holds(moved, "A")
    assert not conditions.holds(moved, "C")
    assert conditions.without(moved, "A") == [both[1]]


def test_pace() -> None:
    """A key that comes back a hundred times without time passing is racing; others and later ones are not."""
    pace = HotLoopDetector()

    assert [pace.is_racing("a", 1.0) for _ in range(HOT_LOOP)] == [False] * (HOT_LOOP - 1) + [True]
    assert not pace.is_racing("b", 1.0)
    assert not pace.is_racing("a", 1.5)
