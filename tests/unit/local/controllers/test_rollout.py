"""The arithmetic of rolling updates."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from karpenter_local.controllers.rollout import (
    Replicas,
    RolloutLimits,
    Sizes,
    first_size,
    grow,
    limits,
    share,
    shrink,
)
from tests.unit.local.controllers.objects import NOW


def replicas(
    name: str, size: int, available: int | None = None, *, age: int = 0, most: int | None = None
) -> Replicas:
    """Return a replica set, all of whose pods are available unless told otherwise."""
    return Replicas(
        name=name,
        size=size,
        available=size if available is None else available,
        created=NOW - timedelta(seconds=age),
        most=most,
    )


@pytest.mark.parametrize(
    ("wanted", "strategy", "expected"),
    [
        pytest.param(10, {}, RolloutLimits(10, 3, 2), id="a quarter each: surge rounds up, unavailable down"),
        pytest.param(
            10,
            {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": "50%"}},
            RolloutLimits(10, 1, 5),
            id="as written",
        ),
        pytest.param(
            3,
            {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "25%"}},
            RolloutLimits(3, 0, 1),
            id="never a standstill",
        ),
        pytest.param(5, {"type": "Recreate"}, RolloutLimits(5, 0, 0), id="all at once"),
    ],
)
def test_limits(wanted: int, strategy: dict[str, Any], expected: RolloutLimits) -> None:
    """Shares of the wanted count become counts."""
    assert limits(wanted, strategy) == expected


@pytest.mark.parametrize(
    ("old", "expected"),
    [
        pytest.param([], 10, id="the first set is whole at once"),
        pytest.param([replicas("old", 10)], 3, id="beside a whole set, only the surge"),
        pytest.param([replicas("old", 20)], 0, id="never negative"),
    ],
)
def test_first_size(old: list[Replicas], expected: int) -> None:
    """A new set begins with what the limits leave beside the old ones."""
    assert first_size(RolloutLimits(10, 3, 2), old) == expected


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        pytest.param(replicas("new", 10), [], {}, id="it has its size"),
        pytest.param(replicas("new", 12), [], {"new": 10}, id="it is too large"),
        pytest.param(replicas("new", 3), [replicas("old", 10)], {}, id="no room"),
        pytest.param(replicas("new", 3), [replicas("old", 8)], {"new": 5}, id="some room"),
        pytest.param(replicas("new", 9), [replicas("old", 0)], {"new": 10}, id="no more than wanted"),
    ],
)
def test_grow(new: Replicas, old: list[Replicas], expected: Sizes) -> None:
    """The new set grows into the room that the limits leave."""
    assert grow(RolloutLimits(10, 3, 2), new, old) == expected


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        pytest.param(replicas("new", 10), [replicas("old", 0)], {}, id="nothing is left"),
        pytest.param(
            replicas("new", 3, 0),
            [replicas("old", 10)],
            {"old": 8},
            id="what may be unavailable goes at once",
        ),
        pytest.param(replicas("new", 5, 0), [replicas("old", 8)], {}, id="and then waits for new ones"),
        pytest.param(replicas("new", 5, 3), [replicas("old", 8)], {"old": 5}, id="as they become available"),
        pytest.param(
            replicas("new", 3, 0),
            [replicas("older", 4, 1, age=9), replicas("old", 6, age=1)],
            {"older": 2},
            id="what does not work goes first, and may be all that goes",
        ),
        pytest.param(
            replicas("new", 10, 10),
            [replicas("young", 2, age=1), replicas("old", 1, age=9)],
            {"old": 0, "young": 0},
            id="at the end everything goes",
        ),
    ],
)
def test_shrink(new: Replicas, old: list[Replicas], expected: Sizes) -> None:
    """Old sets shrink only as far as enough pods stay available."""
    assert shrink(RolloutLimits(10, 3, 2), new, old) == expected


@pytest.mark.parametrize(
    ("bounds", "new", "old", "expected"),
    [
        pytest.param(
            RolloutLimits(5, 2, 1),
            replicas("new", 10),
            [replicas("old", 0)],
            {"new": 5},
            id="one set takes it all",
        ),
        pytest.param(RolloutLimits(5, 2, 1), replicas("new", 5), [], {}, id="nothing to do"),
        pytest.param(
            RolloutLimits(5, 2, 1), None, [replicas("old", 3)], {"old": 5}, id="before there is a new one"
        ),
        pytest.param(RolloutLimits(5, 2, 1), None, [], {}, id="no set at all"),
        pytest.param(
            RolloutLimits(5, 2, 1),
            replicas("new", 5),
            [replicas("old", 3)],
            {"old": 0},
            id="the new one is enough",
        ),
        pytest.param(
            RolloutLimits(20, 5, 5),
            replicas("new", 5, 0, most=13),
            [replicas("old", 8, age=9, most=13)],
            {"old": 15, "new": 10},
            id="in the middle of a rollout both grow in proportion",
        ),
        pytest.param(
            RolloutLimits(5, 2, 1),
            replicas("new", 5, 0, most=13),
            [replicas("old", 8, age=9, most=13)],
            {"old": 4, "new": 3},
            id="or shrink",
        ),
        pytest.param(
            RolloutLimits(0, 0, 0),
            replicas("new", 5, 0),
            [replicas("old", 8)],
            {"old": 0, "new": 0},
            id="down to nothing",
        ),
    ],
)
def test_share(bounds: RolloutLimits, new: Replicas | None, old: list[Replicas], expected: Sizes) -> None:
    """A change of the wanted count is shared between the sets that stand."""
    assert share(bounds, new, old, rolling=True) == expected


def test_share_without_rolling() -> None:
    """Where pods are not to overlap, a change in the middle of a rollout waits for its end."""
    assert share(RolloutLimits(5, 0, 0), replicas("new", 5, 0), [replicas("old", 8)], rolling=False) == {}


@settings(max_examples=100, deadline=None)
@given(
    wanted=st.integers(0, 20),
    before=st.integers(0, 20),
    surge=st.integers(0, 5),
    unavailable=st.integers(0, 5),
)
def test_every_rollout_ends(wanted: int, before: int, surge: int, unavailable: int) -> None:
    """Step by step a rollout comes to its end, and never breaks its limits on the way."""
    bounds = limits(wanted, {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}})
    old = replicas("old", before)
    new = replicas("new", first_size(bounds, [old]), 0)
    most = max(before, bounds.wanted + bounds.surge)
    for _ in range(100):
        sizes = grow(bounds, new, [old]) or shrink(bounds, new, [old])
        if not sizes and new.available == new.size:
            break
        least = min(bounds.least_available, old.available + new.available)
        new = replicas("new", sizes.get("new", new.size), min(new.available, sizes.get("new", new.size)))
        old = replicas("old", sizes.get("old", old.size))
        assert new.size + old.size <= most
        assert new.available + old.available >= least
        new = replicas("new", new.size)  # and in the meantime, the new pods become available

    assert (new.size, old.size) == (wanted, 0)
