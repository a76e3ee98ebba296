"""Laws of disruption budgets."""

from __future__ import annotations

from datetime import UTC, datetime
from math import ceil

from hypothesis import given
from hypothesis import strategies as st

from karpenter.api.nodepool import Budget as Wire
from karpenter.core.disruption.budgets import DisruptionBudget, headroom, read_budgets

NOW = datetime(2026, 1, 5, 10, tzinfo=UTC)
REASONS = ("Empty", "Drifted", "Underutilized")
budgets = st.lists(
    st.builds(
        Wire,
        nodes=st.one_of(
            st.integers(0, 100).map("{}%".format), st.integers(0, 200).map(str), st.just("broken")
        ),
        reasons=st.lists(st.sampled_from(REASONS), unique=True).map(tuple),
    ),
    max_size=5,
)


@given(budgets, st.sampled_from(REASONS), st.integers(0, 300), st.integers(0, 300))
def test_headroom_is_within_every_budget(wires: list[Wire], reason: str, size: int, disrupting: int) -> None:
    """What may start is never negative, and with what is under way stays within every budget that applies."""
    read = read_budgets(wires)
    room = headroom(read, reason=reason, pool_size=size, disrupting=disrupting, now=NOW)

    assert room >= 0
    assert room == 0 or all(
        room + disrupting <= each.ceiling(size) for each in read if each.covers(reason, NOW)
    )


@given(budgets, budgets, st.sampled_from(REASONS), st.integers(0, 300))
def test_more_budgets_never_give_more_room(one: list[Wire], two: list[Wire], reason: str, size: int) -> None:
    """Adding a budget can only tighten, except that a count may exceed the pool."""
    alone, both = (
        headroom(read_budgets(wires), reason=reason, pool_size=size, disrupting=0, now=NOW)
        for wires in (one, one + two)
    )

    assert both <= max(alone, 200)
    assert min(both, size) <= min(alone, size)


@given(st.integers(0, 100), st.integers(0, 10**6))
def test_shares_round_up(percent: int, size: int) -> None:
    """A share of the pool is rounded up to whole nodes."""
    assert DisruptionBudget(percent=percent).ceiling(size) == ceil(percent * size / 100)


@given(
    st.text(max_size=12),
    st.one_of(st.none(), st.text(max_size=12), st.just("@daily")),
    st.one_of(st.none(), st.text(max_size=12), st.just("8h")),
    st.lists(st.text(max_size=8), max_size=2).map(tuple),
)
def test_garbage_allows_nothing(
    nodes: str, schedule: str | None, duration: str | None, reasons: tuple[str, ...]
) -> None:
    """Whatever stands in a budget, it is understood, or it blocks and says why in one sentence."""
    (budget,) = read_budgets([Wire(nodes=nodes, schedule=schedule, duration=duration, reasons=reasons)])

    assert not budget.problem or (budget.ceiling(100), "\n" in budget.problem) == (0, False)
