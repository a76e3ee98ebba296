"""Whole prices and commitments in a problem."""

from __future__ import annotations

import msgspec
import pytest

from karpenter.api.labels import ON_DEMAND
from karpenter.core.model.catalog import Catalog
from karpenter.core.model.pricing import Commitment, PricePolicy
from karpenter.core.scheduling.build.build import assemble
from karpenter.core.scheduling.build.policy import SchedulingPolicy
from karpenter.core.scheduling.problem import Options
from karpenter.core.state.statenode import state_nodes
from tests.unit.core.disruption.clusters import MARKET, cluster, kind, machine, pod, pool


def test_a_problem_has_whole_prices_and_what_is_left_of_commitments() -> None:
    """Pools get whole prices, wrong annotations are told, and commitments in use are used up."""
    own = Commitment(kind="ReservedInstance", name="ri", instance_type="large", count=3)
    policy = SchedulingPolicy(prices=PricePolicy(node=0.01, commitments=(own,)))
    wrong = msgspec.structs.replace(
        pool(),
        metadata=msgspec.structs.replace(pool().metadata, annotations={"karpenter.sh/node-price": "x"}),
    )
    view = cluster(wrong, machine("node-1", "large"))
    built = assemble(
        view, MARKET, nodes=state_nodes(view), pods=[pod("web-0")], options=Options(), policy=policy
    )
    prices = {kind.name: kind.offerings[0].price for kind in built.problem.pools[0].types}

    assert prices == pytest.approx({"small": 0.11, "medium": 0.21, "large": 0.01, "xlarge": 0.81}, abs=1e-6)
    assert built.commitments == ((own, 2.0),)
    assert built.left_out == (
        "NodePool default: annotation karpenter.sh/node-price is 'x': expected dollars per hour such as 0.01",
    )


@pytest.mark.parametrize(
    ("zone", "left"),
    [pytest.param("zone-1", 0.9, id="0.20 per hour"), pytest.param("zone-2", 0.85, id="0.30 per hour")],
)
def test_a_node_uses_a_commitment_at_the_price_of_its_zone(zone: str, left: float) -> None:
    """A Savings Plan that pays half of a price is used by half of what the node costs where it runs."""
    plan = Commitment(kind="SavingsPlan", hourly=1.0, rate=0.5)
    policy = SchedulingPolicy(prices=PricePolicy(commitments=(plan,)))
    prices = {"zone-1": 0.2, "zone-2": 0.3}
    medium = kind("medium", 4, 0.2)
    sold = tuple(
        msgspec.structs.replace(each, price=prices[each.zone]) if each.capacity_type == ON_DEMAND else each
        for each in medium.offerings
    )
    market = Catalog(types=(msgspec.structs.replace(medium, offerings=sold),))
    view = cluster(pool(), machine("node-1", "medium", zone=zone))

    built = assemble(view, market, nodes=state_nodes(view), pods=[], options=Options(), policy=policy)

    assert [each for each, _ in built.commitments] == [plan]
    assert [amount for _, amount in built.commitments] == pytest.approx([left])
