"""Where pods go that go back to a NodePool of higher weight: which machines, and what that is worth."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from karpenter.api.labels import PREFERRED_POOL_PRICE
from karpenter.api.nodepool import Budget
from karpenter.core.disruption.command import UNDERUTILIZED, Command
from karpenter.core.disruption.payback import Payback
from karpenter.core.model.catalog import Catalog
from tests.unit.core.disruption.clusters import MARKET, decided, held, kind, machine, pod, simulated
from tests.unit.core.disruption.test_preferred import ON, fallen_back, market, only_command, told, weighed

EVERYWHERE = Catalog(types=MARKET.types, by_pool=dict.fromkeys(("best", "better", "spare"), MARKET.types))


@pytest.mark.parametrize(
    ("strategy", "bought"), [("global", [("small",), ("small",)]), ("classic", [])], ids=["global", "classic"]
)
def test_the_default_strategy_looks_for_the_cheapest_machines(
    strategy: str, bought: list[tuple[str, ...]]
) -> None:
    """Two small machines are within the share where the fewest would not be."""
    sold = market((kind("small", 2, 0.105), kind("large", 8, 0.5)))
    halves = [pod("web-1", "node-1", cpu="2"), pod("web-2", "node-1", cpu="2")]
    found = decided(fallen_back(*halves), market=sold, strategy=strategy, **ON)

    assert [node.instance_types for each in found.commands for node in each.replacements] == bought
    if not bought:
        assert told(found).startswith("going back to NodePool best costs $0.5000 an hour; this costs $0.2000")


@pytest.mark.parametrize(
    ("eviction", "code"), [(0.21, ""), (0.23, "NoPayback")], ids=["worth it", "not worth it"]
)
def test_free_room_counts_with_the_least_share(eviction: float, code: str) -> None:
    """Where nothing is bought, going back is worth the least of the shares of the NodePools."""
    better = weighed("better", 20, {PREFERRED_POOL_PRICE: "0.3"})
    view = fallen_back(better, machine("best-1", "large", pool="best"), pod("api-1", "best-1", cpu="4500m"))
    settings = {**ON, "payback": Payback(eviction_price=eviction, within=timedelta(hours=1))}
    found = decided(view, market=EVERYWHERE, **settings)

    assert held(found).get("node-1", "") == code
    if not code:
        command = only_command(found)
        assert (command.moves, command.replacements) == ({"default/web-1": "best-1"}, ())
        assert command.preference == pytest.approx(0.02)
        assert command.hourly_after == 0
        assert command.destinations == "best or better"


def test_a_budget_holds_its_own_pool_only() -> None:
    """Nodes of a NodePool whose budget is used up do not keep those of others from going back."""
    shut = weighed("better", 5, budgets=(Budget(nodes="0"),))
    first = machine("a-first", "medium", pool="better")
    view = fallen_back(shut, first, pod("api-1", "a-first", cpu="3"))
    found = decided(view, market=EVERYWHERE, **ON)

    assert only_command(found).candidates == ("node-1",)
    assert held(found) == {"a-first": "Budget"}


def test_machines_of_several_pools_are_named_together() -> None:
    """A command says in which NodePools it buys."""
    command = only_command(decided(fallen_back(), **ON))
    (bought,) = command.replacements
    other = msgspec.structs.replace(bought, pool="better")
    both = msgspec.structs.replace(command, replacements=(bought, other, bought))

    assert both.destinations == "best and better"
    assert msgspec.structs.replace(both, preferred=()).destinations == ""


@pytest.mark.parametrize(
    ("preference", "earns"), [(0.125, True), (0.0625, False)], ids=["just", "too little"]
)
def test_a_saving_and_the_preference_pay_together(preference: float, earns: bool) -> None:
    """What just pays for the eviction of one pod is worth it."""
    _, candidates = simulated(fallen_back())
    command = Command(
        reason=UNDERUTILIZED, candidates=("node-1",), hourly_before=0.125, preference=preference
    )

    assert Payback(eviction_price=0.25).earns(command, [candidates["node-1"]]) is earns
