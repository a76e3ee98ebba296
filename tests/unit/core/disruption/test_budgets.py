"""How many nodes may be disrupted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from karpenter.api.meta import Condition
from karpenter.api.nodepool import Budget as Wire
from karpenter.core.disruption.budgets import (
    BudgetError,
    DisruptionBudget,
    Headroom,
    budget_usage,
    headroom,
    parse_budget,
    read_budgets,
    tightest_budget,
)
from karpenter.core.disruption.candidates import find_candidates
from karpenter.core.state.pdb import PdbLimits
from karpenter.core.state.statenode import state_nodes
from tests.unit.core.disruption.clusters import LONG_AGO, MARKET, NOW, cluster, decided, machine, pool

MORNING = datetime(2026, 1, 5, 10, tzinfo=UTC)
EVENING = MORNING.replace(hour=17)
OFFICE_HOURS = Wire(nodes="0", schedule="0 9 * * *", duration="8h")


@pytest.mark.parametrize(
    ("budgets", "disrupting", "expected"),
    [
        pytest.param([], 0, 19, id="no budget allows the whole pool"),
        pytest.param([], 5, 14, id="less what is under way"),
        pytest.param([Wire()], 0, 2, id="ten percent by default, rounded up"),
        pytest.param([Wire(nodes="20%")], 3, 1, id="shares round up, less what is under way"),
        pytest.param([Wire(nodes="0")], 0, 0, id="zero blocks"),
        pytest.param([Wire(nodes="0%")], 0, 0, id="zero percent blocks"),
        pytest.param([Wire(nodes="100%")], 0, 19, id="everything"),
        pytest.param([Wire(nodes="50")], 0, 50, id="a count may exceed the pool"),
        pytest.param([Wire(nodes="5"), Wire(nodes="3")], 0, 3, id="tightest wins"),
        pytest.param([Wire(nodes="3")], 5, 0, id="never negative"),
        pytest.param([Wire(nodes="3", reasons=("Empty",))], 0, 19, id="another reason is not limited"),
        pytest.param([Wire(nodes="3", reasons=("Empty", "Drifted"))], 0, 3, id="the reason is"),
        pytest.param([Wire(), OFFICE_HOURS], 0, 0, id="a window that is open"),
        pytest.param([Wire(), Wire(nodes="many")], 0, 0, id="a budget that is not understood blocks"),
        pytest.param([Wire(nodes="many", reasons=("Empty",))], 0, 0, id="for every reason"),
    ],
)
def test_headroom(budgets: list[Wire], disrupting: int, expected: int) -> None:
    """Headroom is the tightest open ceiling, less what is already under way."""
    actual = headroom(
        read_budgets(budgets), reason="Drifted", pool_size=19, disrupting=disrupting, now=MORNING
    )

    assert actual == expected


@pytest.mark.parametrize(
    ("share", "size", "expected"),
    [(10, 100, 10), (10, 101, 11), (10, 1, 1), (10, 0, 0), (100, 101, 101), (0, 101, 0)],
)
def test_shares_round_up(share: int, size: int, expected: int) -> None:
    """A tenth of a hundred and one nodes are eleven."""
    assert DisruptionBudget(percent=share).ceiling(size) == expected


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        pytest.param(MORNING, 0, id="closed during the day"),
        pytest.param(EVENING - timedelta(seconds=1), 0, id="to the last second"),
        pytest.param(EVENING, 2, id="open again on the hour"),
    ],
)
def test_windows(now: datetime, expected: int) -> None:
    """A budget with a window applies only while it is open."""
    budgets = read_budgets([Wire(), OFFICE_HOURS])

    assert headroom(budgets, reason="Empty", pool_size=19, disrupting=0, now=now) == expected


def test_reasons_divide_the_ways_to_disrupt() -> None:
    """Budgets with reasons hold back only those."""
    budgets = read_budgets(
        [Wire(nodes="100%", reasons=("Empty", "Drifted")), Wire(nodes="0", reasons=("Underutilized",))]
    )
    reasons = ("Empty", "Drifted", "Underutilized")

    assert [
        headroom(budgets, reason=reason, pool_size=4, disrupting=0, now=MORNING) for reason in reasons
    ] == [4, 4, 0]


def test_the_budget_that_decides_can_be_named() -> None:
    """The tightest open budget is known, and of equals the first."""
    budgets = read_budgets([Wire(nodes="5"), Wire(nodes="2"), Wire(nodes="20%"), OFFICE_HOURS])

    assert tightest_budget(budgets, reason="Empty", pool_size=10, now=EVENING) == DisruptionBudget(nodes=2)


def test_no_open_budget_holds_nothing_back() -> None:
    """Where no budget is open every node may go."""
    assert tightest_budget(
        read_budgets([OFFICE_HOURS]), reason="Empty", pool_size=10, now=EVENING
    ) == DisruptionBudget(percent=100)


@pytest.mark.parametrize(
    ("wire", "sentence"),
    [
        pytest.param(
            Wire(nodes="101%"),
            "nodes '101%': expected a count such as 5, or a share from 0% to 100%",
            id="share",
        ),
        pytest.param(Wire(nodes="-1"), "nodes '-1': expected a count", id="negative"),
        pytest.param(Wire(nodes=""), "nodes '': expected a count", id="nothing"),
        pytest.param(Wire(nodes="9" * 5000), "nodes '9+'...: expected a count", id="endless"),
        pytest.param(Wire(duration="8h"), "a duration without a schedule", id="no schedule"),
        pytest.param(Wire(schedule="@daily"), "a schedule without a duration", id="no duration"),
        pytest.param(
            Wire(schedule="0 0 30 2 1-", duration="8h"), "day of week '1-' is not understood", id="cron"
        ),
    ],
)
def test_refused(wire: Wire, sentence: str) -> None:
    """A budget that cannot be understood is refused with one sentence."""
    with pytest.raises(BudgetError, match=f"^{sentence}"):
        parse_budget(wire)


def test_a_budget_that_is_not_understood_says_why() -> None:
    """Reading never fails; the problem stays with the budget, and names its place."""
    problems = [budget.problem for budget in read_budgets([Wire(), Wire(nodes="x")])]

    assert problems == ["", "budgets[1]: nodes 'x': expected a count such as 5, or a share from 0% to 100%"]


@pytest.mark.parametrize(
    ("budget", "text"),
    [
        pytest.param(Wire(), "10%", id="a share"),
        pytest.param(Wire(nodes="5"), "5 nodes", id="a count"),
        pytest.param(
            Wire(nodes="0", schedule="@daily", duration="8h", reasons=("Empty", "Drifted")),
            "0 nodes for Drifted, Empty during 8h0m0s from @daily",
            id="with reasons and window",
        ),
        pytest.param(
            Wire(nodes="x"),
            "0 nodes (budgets[0]: nodes 'x': expected a count such as 5, or a share from 0% to 100%)",
            id="not understood",
        ),
    ],
)
def test_text(budget: Wire, text: str) -> None:
    """A budget says itself."""
    assert str(read_budgets([budget])[0]) == text


def test_a_machine_whose_instance_is_gone_uses_up_no_budget() -> None:
    """Its claim waits for its finalizer only; the next may go, and the share is of those that are there."""
    ending = Condition(type="InstanceTerminating", status="True", last_transition_time=LONG_AGO)
    node, claim = machine("gone", conditions=(ending,))
    leaving = msgspec.structs.replace(claim.metadata, deletion_timestamp=NOW)
    gone = [node, msgspec.structs.replace(claim, metadata=leaving)]
    view = cluster(pool(budgets=(Wire(nodes="1"),)), gone, machine("idle"))

    assert budget_usage(state_nodes(view)) == ({"default": 1}, {})
    assert [each.candidates for each in decided(view).commands] == [("idle",)]


@pytest.mark.parametrize(
    ("budgets", "words"),
    [
        pytest.param((Wire(nodes="0"),), "(0 nodes)", id="the tightest budget is named"),
        pytest.param((), "(100%)", id="without one, all nodes may go"),
    ],
)
def test_a_budget_says_which_it_is(budgets: tuple[Wire, ...], words: str) -> None:
    """The obstacle of a node names the budget that holds it."""
    view = cluster(pool(budgets=budgets), machine("idle"))
    nodes = state_nodes(view)
    (found,) = find_candidates(nodes, view, MARKET, PdbLimits(view), NOW).candidates

    assert Headroom.at(view, "Empty", NOW).obstacle(found) == (
        f"the disruption budget of NodePool default {words} allows no more for Empty"
    )


def test_what_is_left_after_some_nodes_is_another_value() -> None:
    """Searches ask one headroom again and again; what one of them would use up is not gone for the others."""
    view = cluster(pool(budgets=(Wire(nodes="1"),)), machine("one"), machine("two"))
    one, two = find_candidates(state_nodes(view), view, MARKET, PdbLimits(view), NOW).candidates
    whole = Headroom.at(view, "Empty", NOW)

    assert not whole.after([one]).allows(two)
    assert whole.allows(two)
    assert whole == Headroom.at(view, "Empty", NOW)
