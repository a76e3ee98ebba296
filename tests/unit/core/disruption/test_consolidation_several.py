"""One machine that becomes several: bought the cheaper way only, spot for spot only with enough choice."""

from __future__ import annotations

import pytest

from karpenter.api.labels import CAPACITY_TYPE
from karpenter.core.model.catalog import Catalog
from tests.unit.core.disruption.clusters import cluster, decided, held, kind, machine, pod, pool

PODS = [pod(f"web-{number}", "node-1", cpu="1500m") for number in range(2)]


def market(smalls: int, *, sold: tuple[str, ...]) -> Catalog:
    """Return a market of one huge type, and of small ones of which two are far cheaper."""
    small = (kind(f"small-{number}", 2, 0.1 + number / 1000) for number in range(smalls))
    return Catalog(types=(*small, kind("huge", 64, 6.4, sold=sold)))


def test_several_are_bought_as_spot_where_on_demand_would_do_as_well() -> None:
    """Spot was found cheaper; had the provider the choice, it might launch what was never compared."""
    view = cluster(pool(ways=("spot", "on-demand")), machine("node-1", "huge"), *PODS)

    (command,) = decided(view, market=market(1, sold=("on-demand",)), strategy="global").commands

    assert len(command.replacements) == 2
    for node in command.replacements:
        (bought,) = (each for each in node.requirements if each.key == CAPACITY_TYPE)
        assert bought.values == {"spot"}


@pytest.mark.parametrize(
    ("smalls", "types"),
    [
        pytest.param(14, None, id="too few to choose from"),
        pytest.param(15, 15, id="just enough"),
        pytest.param(20, 15, id="only the cheapest are named"),
    ],
)
def test_one_spot_machine_becomes_several_only_with_a_choice_of_types(smalls: int, types: int | None) -> None:
    """The rule for one replacement holds for each of several: fifteen cheaper types, or it would go on."""
    view = cluster(pool(ways=("spot",)), machine("node-1", "huge", bought="spot"), *PODS)

    verdict = decided(view, market=market(smalls, sold=("spot",)), spot_to_spot=True, strategy="global")

    if types is None:
        assert held(verdict) == {"node-1": "NoSaving"}
    else:
        (command,) = verdict.commands
        assert [len(node.instance_types) for node in command.replacements] == [types, types]


@pytest.mark.parametrize(
    ("price", "bought"),
    [
        pytest.param(3.0, ["small", "small"], id="two small ones are cheaper"),
        pytest.param(0.15, ["big"], id="the one is cheaper"),
    ],
)
def test_one_machine_is_not_taken_before_several_were_asked_for(price: float, bought: list[str]) -> None:
    """What is cheaper than the machine that goes may still be dearer than two others."""
    sold = Catalog(types=(kind("small", 2, 0.1), kind("big", 32, price), kind("huge", 64, 6.4)))

    (command,) = decided(
        cluster(pool(), machine("node-1", "huge"), *PODS), market=sold, strategy="global"
    ).commands

    assert [node.purchase.instance_type for node in command.replacements] == bought


def test_machines_without_a_price_are_no_saving() -> None:
    """Nothing says that what costs nothing is cheaper: its price is not known."""
    free = Catalog(types=(kind("free", 2, 0.0), *market(0, sold=("on-demand",)).types))
    verdict = decided(cluster(pool(), machine("node-1", "huge"), *PODS), market=free)

    assert verdict.commands == ()
    assert held(verdict) == {"node-1": "NoSaving"}
