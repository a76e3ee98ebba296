import pytest

from karpenter_local.apiserver.managed.sets import (
    Set,
    difference,
    intersection,
    ordered,
    paths,
    union,
    without,
)

LABELS: Set = {"f:metadata": {"f:labels": {".": {}, "f:app": {}}}}


def test_a_path_is_a_member_when_it_ends_or_says_so() -> None:
    """People read a set as the list of its members."""
    found = {"f:spec": {"f:ports": {'k:{"port":80}': {".": {}, "f:name": {}}}, "f:set": {'v:"x"': {}}}}

    assert paths(found) == [".spec.ports[port=80]", ".spec.ports[port=80].name", '.spec.set[="x"]']


def test_union_keeps_a_member_above_its_children() -> None:
    """A field and what is beneath it can both be owned."""
    assert union({"f:a": {}}, {"f:a": {"f:b": {}}}) == {"f:a": {".": {}, "f:b": {}}}


def test_difference_leaves_what_is_beneath() -> None:
    """Giving up a map does not give up its entries."""
    assert difference(LABELS, {"f:metadata": {"f:labels": {}}}) == {"f:metadata": {"f:labels": {"f:app": {}}}}


def test_without_takes_everything_beneath() -> None:
    """What a write cannot touch is gone with all its fields."""
    assert without(LABELS, {"f:metadata": {}}) == {}


def test_intersection_is_what_both_have() -> None:
    """A conflict is where two sets meet."""
    other: Set = {"f:metadata": {"f:labels": {"f:app": {}, "f:tier": {}}}}

    assert intersection(LABELS, other) == {"f:metadata": {"f:labels": {"f:app": {}}}}


def test_equal_sets_are_written_alike() -> None:
    """Order is not a change."""
    assert list(ordered({"f:b": {}, ".": {}, "f:a": {}})) == [".", "f:a", "f:b"]


@pytest.mark.parametrize(
    ("right", "kept"),
    [
        pytest.param({"f:status": {"f:phase": {}}}, True, id="nothing in common"),
        pytest.param({"f:spec": {}}, True, id="the node itself, which is no member"),
        pytest.param({"f:spec": {"f:a": {}}}, False, id="a member"),
    ],
)
def test_a_difference_that_takes_nothing_is_the_set_itself(right: Set, kept: bool) -> None:
    """What has not changed need not be put in order again."""
    left: Set = {"f:metadata": {".": {}, "f:labels": {}}, "f:spec": {"f:a": {}, "f:b": {}}}

    assert (difference(left, right) is left) == kept


@pytest.mark.parametrize(
    ("right", "kept"),
    [
        pytest.param({"f:spec": {"f:a": {}}}, True, id="all of it was there"),
        pytest.param({"f:metadata": {".": {}}}, True, id="a node that was a member"),
        pytest.param({"f:spec": {".": {}, "f:a": {}}}, False, id="a node that was no member"),
        pytest.param({"f:status": {}}, False, id="something new"),
    ],
)
def test_a_union_that_adds_nothing_is_the_set_itself(right: Set, kept: bool) -> None:
    """What has not changed need not be put in order again."""
    left: Set = {"f:metadata": {".": {}, "f:labels": {}}, "f:spec": {"f:a": {}, "f:b": {}}}

    assert (union(left, right) is left) == kept
