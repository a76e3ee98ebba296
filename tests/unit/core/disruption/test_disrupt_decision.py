"""What a decision says besides its commands: numbers, prices, what it remembers, and when to look again."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from karpenter.api.meta import Condition
from karpenter.api.nodepool import Budget
from karpenter.core.disruption.disrupt import RELOOK, DisruptionDecision, disrupt
from karpenter.core.disruption.memory import DisruptionMemory
from karpenter.core.disruption.payback import Payback
from karpenter.core.model.catalog import Catalog
from tests.unit.core.disruption.clusters import MARKET, NOW, cluster, facts, held, kind, machine, pod, pool

if TYPE_CHECKING:
    from karpenter.core.state.cluster import ClusterView

WASTEFUL: list[Any] = [machine("n1", "xlarge"), pod("a-0", "n1")]
FULL: list[Any] = [machine("n2", "small"), pod("b-0", "n2", cpu="2")]
EMPTY_ONE = machine("n3", "small")
DRIFTED = Condition(type="Drifted", status="True", reason="ImageDrift", last_transition_time=NOW)


def decide(view: ClusterView, memory: DisruptionMemory | None = None, **more: Any) -> DisruptionDecision:
    """Return the decision about a cluster that has carried out four commands."""
    return disrupt(
        view,
        MARKET,
        memory or DisruptionMemory(commands=4),
        now=NOW,
        context=facts(more),
    )


@pytest.mark.parametrize(
    ("parts", "reasons", "waits"),
    [
        pytest.param([*WASTEFUL], ["Underutilized"], True, id="a saving is looked at twice"),
        pytest.param([EMPTY_ONE], ["Empty"], True, id="so is an empty node"),
        pytest.param(
            [machine("n1", conditions=[DRIFTED]), pod("a-0", "n1")], ["Drifted"], False, id="drift is not"
        ),
        pytest.param([*FULL], [], False, id="nothing goes"),
    ],
)
def test_commands_are_numbered_and_validated(parts: list[Any], reasons: list[str], waits: bool) -> None:
    """Numbers go on from the last command; all but drift wait for a second look."""
    found = decide(cluster(pool(), *parts))

    assert [each.reason for each in found.commands] == reasons
    assert [each.number for each in found.commands] == [5, 6, 7][: len(reasons)]
    assert found.memory.commands == 4 + len(reasons)
    assert (found.validate_after > 0) is waits


def test_empty_nodes_come_before_drift_and_drift_before_savings() -> None:
    """Only the first reason that has commands is carried out; the others wait, and are priced."""
    tried: list[str] = []
    drifting: list[Any] = [machine("n4", "medium", conditions=[DRIFTED]), pod("d-0", "n4", cpu="3")]

    first = decide(
        cluster(pool(), *WASTEFUL, *FULL, EMPTY_ONE, *drifting), tried=tried.append, strategy="global"
    )
    second = decide(cluster(pool(), *WASTEFUL, *FULL, *drifting), tried=tried.append, strategy="global")
    third = decide(cluster(pool(), *WASTEFUL, *FULL), tried=tried.append, strategy="global")

    assert [each.candidates for each in (*first.commands, *second.commands, *third.commands)] == [
        ("n3",),
        ("n4",),
        ("n1",),
    ]
    assert tried == ["Empty", "Empty", "Drifted", "Empty", "Drifted", "Underutilized"]
    assert set(held(first).values()) == {"Waiting"}
    assert {each.node: each.hourly for each in first.kept} == pytest.approx({"n1": 0.8, "n2": 0.1, "n4": 0.2})
    assert first.kept[0].message == "it is looked at again after what goes now (Empty)"


@pytest.mark.parametrize(
    ("change", "until"),
    [
        pytest.param({}, RELOOK, id="after five minutes in any case"),
        pytest.param(
            {"budgets": (Budget(nodes="1", schedule="2 12 * * *", duration="1h"),)},
            timedelta(minutes=2),
            id="when the window of a budget opens before",
        ),
        pytest.param(
            {"budgets": (Budget(nodes="1", schedule="9 12 * * *", duration="1h"),)},
            RELOOK,
            id="not after that",
        ),
    ],
)
def test_a_decision_that_found_nothing_is_not_made_again(change: dict[str, Any], until: timedelta) -> None:
    """While nothing changes there is nothing to find before the next moment that matters."""
    found = decide(cluster(pool(**change), *FULL), fingerprint="same").memory

    assert (found.fruitless, found.fruitless_until) == ("same", NOW + until)
    assert decide(cluster(pool(), *FULL, *WASTEFUL), fingerprint="same").memory.fruitless is None


def test_what_was_simulated_is_remembered_as_explained() -> None:
    """The next decision simulates others first; what needs no simulation is always told."""
    view = cluster(
        pool(),
        pool("never", consolidate_after="Never"),
        *FULL,
        machine("n5", pool="never"),
        pod("e-0", "n5", cpu="4"),
    )

    found = decide(view)

    assert held(found) == {"n2": "NoSaving", "n5": "ConsolidateAfter"}
    assert found.memory.explained == {"n2": NOW}
    assert {each.node: each.hourly for each in found.kept} == pytest.approx({"n2": 0.1, "n5": 0.2})


@pytest.mark.parametrize(
    ("explain", "told"),
    [pytest.param(1, 1, id="one"), pytest.param(2, 2, id="two"), pytest.param(9, 3, id="all")],
)
def test_so_many_nodes_are_explained(explain: int, told: int) -> None:
    """The others are said to be kept for want of a saving."""
    parts = [
        part for at in range(3) for part in (machine(f"n{at}", "small"), pod(f"a-{at}", f"n{at}", cpu="2"))
    ]

    found = decide(cluster(pool(), *parts), explain=explain)

    assert len(found.memory.explained) == told
    assert sum(each.message != "no saving was found" for each in found.kept) == told


@pytest.mark.parametrize(
    ("price", "code"),
    [
        pytest.param(0.69, None, id="less than it saves"),
        pytest.param(0.71, "NoPayback", id="more than it saves"),
    ],
)
@pytest.mark.parametrize("strategy", ["classic", "global"])
def test_a_saving_must_pay_for_what_it_moves(price: float, code: str | None, strategy: str) -> None:
    """An xlarge node for a small one saves $0.70 an hour; both run for two minutes, which is $0.0033."""
    payback = Payback(eviction_price=price, within=timedelta(hours=1))

    found = decide(cluster(pool(), *WASTEFUL), payback=payback, strategy=strategy)

    assert held(found) == ({} if code is None else {"n1": code})
    if code is not None:
        assert found.kept[0].message == "saving $0.7000 an hour does not pay soon enough for moving ($0.7133)"


def test_a_saving_that_does_not_pay_keeps_no_other_from_being_found() -> None:
    """One node holds three pods, which cost more to move than it saves; the other holds one."""
    payback = Payback(eviction_price=0.69, within=timedelta(hours=1))
    dear: list[Any] = [machine("n2", "xlarge"), *(pod(f"b-{at}", "n2", cpu="600m") for at in range(3))]

    found = decide(cluster(pool(), *WASTEFUL, *dear), payback=payback, strategy="global")

    assert [each.candidates for each in found.commands] == [("n1",)]


def test_nodes_that_are_held_have_prices() -> None:
    """What keeps a node says nothing about what it costs; what is not known costs nothing."""
    view = cluster(pool(), machine("n1"), machine("n2", zone="zone-9"), pod("a-0", "n1"), pod("a-1", "n2"))

    found = decide(view, nominated=frozenset({"n1", "n2"}))

    assert held(found) == {"n1": "Nominated", "n2": "Nominated"}
    assert {each.node: each.hourly for each in found.kept} == pytest.approx({"n1": 0.2, "n2": 0.0})


def test_the_classic_strategy_joins_two_nodes() -> None:
    """Two large nodes, each too full for both pods, become one of a cheaper type."""
    sold = Catalog(types=(kind("large", 8, 0.4), kind("wide", 10, 0.45)))
    view = cluster(
        pool(),
        *(part for at in (1, 2) for part in (machine(f"n{at}", "large"), pod(f"a-{at}", f"n{at}", cpu="5"))),
    )

    (command,) = disrupt(
        view, sold, DisruptionMemory(), now=NOW, context=facts({"strategy": "classic"})
    ).commands

    assert sorted(command.candidates) == ["n1", "n2"]
    assert [each.purchase.instance_type for each in command.replacements] == ["wide"]
    assert command.saving == pytest.approx(0.35)


def test_every_leaving_node_uses_up_the_budget_of_its_pool() -> None:
    """Of five nodes three leave; a fourth may only go where the budget is more than that."""
    leaving = [
        [
            node,
            msgspec.structs.replace(
                claim, metadata=msgspec.structs.replace(claim.metadata, deletion_timestamp=NOW)
            ),
        ]
        for node, claim in (machine(f"out-{at}") for at in range(3))
    ]
    for allowed, goes in (("3", 0), ("4", 1), ("5", 2)):
        view = cluster(pool(budgets=(Budget(nodes=allowed),)), *leaving, machine("n1"), machine("n2"))
        assert sum(len(each.candidates) for each in decide(view).commands) == goes


@pytest.mark.parametrize(("count", "goes"), [(5, 1), (6, 2), (10, 2), (11, 3)])
def test_a_share_is_of_the_nodes_of_the_pool(count: int, goes: int) -> None:
    """A fifth of the nodes may go at once, rounded up."""
    view = cluster(pool(budgets=(Budget(nodes="20%"),)), *(machine(f"n{at:02}") for at in range(count)))

    assert sum(len(each.candidates) for each in decide(view).commands) == goes


def test_pods_of_a_drifted_node_may_go_where_it_is_too_early_to_consolidate() -> None:
    """Quiet nodes are spared by savings only: a drifted node is not replaced while another has room."""
    minute = timedelta(minutes=1)
    view = cluster(
        pool(consolidate_after="10m"),
        machine("n1", conditions=[DRIFTED], last_event=NOW - 60 * minute),
        machine("n2", last_event=NOW - minute),
        pod("a-0", "n1"),
        pod("b-0", "n2"),
    )

    (command,) = decide(view).commands

    assert (command.reason, command.candidates, command.replacements) == ("Drifted", ("n1",), ())
    assert command.moves == {"default/a-0": "n2"}


def test_with_the_global_strategy_pods_go_to_the_fullest_node() -> None:
    """A pod of an emptied node goes where three run and not where one does, whatever the names are."""
    few, many = [pod("b-0", "n2")], [pod(f"c-{at}", "n3") for at in range(3)]
    view = cluster(pool(), machine("n1"), machine("n2"), machine("n3"), pod("a-0", "n1"), *few, *many)

    command = next(each for each in decide(view, strategy="global").commands if each.candidates == ("n1",))

    assert command.moves == {"default/a-0": "n3"}
