"""What holds machines against every reason."""

from __future__ import annotations

import msgspec
import pytest

from karpenter.api.node import Node
from karpenter.core.disruption.cost import price_of
from karpenter.core.disruption.events import kept_events
from karpenter.core.effects import Announce
from karpenter.core.model.catalog import EMPTY, Catalog, combine
from karpenter.core.state.statenode import state_nodes
from tests.unit.core.disruption.clusters import MARKET, NOW, cluster, decided, held, machine, pod, pool


def test_nodes_stay_while_it_is_not_known_what_their_pool_may_use() -> None:
    """A class that is not ready, or a cloud that does not answer, lets nothing of its pools go."""
    view = cluster(
        pool(),
        pool("other"),
        machine("idle"),
        machine("busy"),
        pod("web-1", "busy"),
        machine("of-other", pool="other"),
    )

    assert set(held(decided(view, market=EMPTY)).values()) == {"NoInstanceTypes"}
    verdict = decided(view, market=combine({"default": EMPTY, "other": MARKET}))
    assert [each.candidates for each in verdict.commands] == [("of-other",)]
    assert held(verdict) == {"idle": "NoInstanceTypes", "busy": "NoInstanceTypes"}


def test_what_cannot_be_bought_and_costs_nothing_has_no_price() -> None:
    """A machine of it is kept and said to be unpriced, however old: that it runs shows that it is sold."""
    unpriced = [
        msgspec.structs.replace(each, price=0.0, available=False) for each in MARKET.types[1].offerings
    ]
    medium = msgspec.structs.replace(MARKET.types[1], offerings=tuple(unpriced))
    market = Catalog(types=(MARKET.types[0], medium, *MARKET.types[2:]))
    view = cluster(pool(), machine("node-1", "medium"), pod("web-1", "node-1"))

    verdict = decided(view, market=market)

    assert (verdict.commands, held(verdict)) == ((), {"node-1": "Unpriced"})


@pytest.mark.parametrize(
    ("leaving", "code"),
    [
        pytest.param(False, "NoNode", id="a machine that has not joined yet"),
        pytest.param(True, "Deleting", id="a machine whose node is gone already"),
    ],
)
def test_a_claim_without_a_node_is_told_what_holds_it(leaving: bool, code: str) -> None:
    """A user who asks why it stays finds an Event; nothing has to be looked at again until it joins."""
    _, claim = machine("new")
    if leaving:
        claim = msgspec.structs.replace(
            claim, metadata=msgspec.structs.replace(claim.metadata, deletion_timestamp=NOW)
        )
    view = cluster(pool(), [claim])

    verdict = decided(view)
    effects = kept_events(verdict.kept, view)

    assert (verdict.commands, held(verdict)) == ((), {"new": code})
    assert all(each.code.is_lasting for each in verdict.kept)
    assert [(e.reason, e.about.kind) for e in effects if isinstance(e, Announce)] == [
        ("DisruptionBlocked", "NodeClaim")
    ]


@pytest.mark.parametrize(
    ("after", "code"),
    [
        pytest.param("72h", "WhenEmpty", id="what no waiting changes is said first"),
        pytest.param("Never", "ConsolidateAfter", id="a pool that never consolidates says that"),
    ],
)
def test_a_pool_that_only_lets_empty_machines_go_says_so_before_time_is_up(after: str, code: str) -> None:
    """That the node is not consolidatable yet would let people wait in vain."""
    view = cluster(
        pool(consolidate_after=after, consolidation_policy="WhenEmpty"), machine("m"), pod("web-1", "m")
    )

    assert held(decided(view)) == {"m": code}


def test_a_node_of_others_hides_no_candidate() -> None:
    """A node that no NodeClaim stands for is passed by, and what comes after it is looked at."""
    foreign = [each for each in machine("aaa") if isinstance(each, Node)]
    view = cluster(pool(), *foreign, machine("idle"))

    assert [each.candidates for each in decided(view).commands] == [("idle",)]


def test_empty_machines_save_what_they_cost() -> None:
    """A machine with four cores and one with eight cost $0.20 and $0.40 an hour; a third has no price."""
    view = cluster(pool(), machine("a"), machine("b", "large"), machine("c", zone="zone-9"))

    (command,) = decided(view).commands

    assert sorted(command.candidates) == ["a", "b", "c"]
    assert [command.hourly_before, command.saving] == pytest.approx([0.6, 0.6])


@pytest.mark.parametrize(
    ("price", "available", "hourly"),
    [
        pytest.param(0.2, True, 0.2, id="sold"),
        pytest.param(0.2, False, 0.2, id="sold out"),
        pytest.param(0.0, True, 0.0, id="sold for nothing"),
        pytest.param(0.0, False, None, id="not sold, and without a price"),
    ],
)
def test_a_machine_costs_what_its_offering_does(price: float, available: bool, hourly: float | None) -> None:
    """Sold out or not, what runs is paid for."""
    offerings = [
        msgspec.structs.replace(each, price=price, available=available) for each in MARKET.types[1].offerings
    ]
    medium = msgspec.structs.replace(MARKET.types[1], offerings=tuple(offerings))
    (node,) = state_nodes(cluster(pool(), machine("node-1", "medium")))

    assert price_of(node, Catalog(types=(medium,))) == hourly
