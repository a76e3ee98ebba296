"""Consolidation compares whole prices, keeps paid capacity and floors, and finds its way back to spot."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from karpenter.api.labels import CAPACITY_TYPE, INSTANCE_TYPE, NODE_PRICE, ON_DEMAND, ON_DEMAND_FLOOR, SPOT
from karpenter.api.meta import ObjectMeta, Resource
from karpenter.api.nodepool import NodePool, PoolRequirement
from karpenter.core.disruption.cost import price_of
from karpenter.core.disruption.prices import types_for_variety
from karpenter.core.model.catalog import Catalog, VolumePrice
from karpenter.core.model.pricing import Commitment, NodeVolume, PricePolicy
from karpenter.core.scheduling.build.offered import overlaid_catalog
from karpenter.core.scheduling.build.policy import SchedulingPolicy
from karpenter.core.state.cluster import NodeClass
from karpenter.core.state.statenode import state_nodes
from tests.unit.core.disruption.clusters import (
    CLASS,
    MARKET,
    NOW,
    cluster,
    decided,
    held,
    kind,
    machine,
    pod,
    pool,
)

BOTH = (ON_DEMAND, SPOT)


def annotated(notes: dict[str, str], **more: Any) -> NodePool:
    return msgspec.structs.replace(pool(**more), metadata=ObjectMeta(name="default", annotations=notes))


def committed(**more: Any) -> SchedulingPolicy:
    """Return a policy with Reserved Instances of one type."""
    own = Commitment(kind="ReservedInstance", name="ri", instance_type="large", **more)
    return SchedulingPolicy(prices=PricePolicy(commitments=(own,)))


def test_on_demand_goes_back_to_spot() -> None:
    """A machine that was bought on demand while spot was sold out is replaced once spot is sold again."""
    view = cluster(pool(ways=BOTH), machine("node-1", "small"), pod("web-0", "node-1"))
    (command,) = decided(view).commands

    assert [node.purchase.capacity_type for node in command.replacements] == [SPOT]
    assert command.saving == pytest.approx(0.06)


@pytest.mark.parametrize(("floor", "kept"), [("1", True), ("50%", True), ("0", False), ("0%", False)])
def test_a_floor_keeps_machines_on_demand(floor: str, kept: bool) -> None:
    """The last machine that a NodePool keeps on demand is not replaced by spot."""
    notes = {ON_DEMAND_FLOOR: floor}
    view = cluster(annotated(notes, ways=BOTH), machine("node-1", "small"), pod("web-0", "node-1", cpu="2"))
    found = decided(view)

    assert bool(found.commands) is not kept
    assert held(found) == ({"node-1": "NoSaving"} if kept else {})


def test_pods_do_not_leave_the_last_machine_on_demand() -> None:
    """A machine on demand stays though its pod has room on spot; without a floor it goes."""
    rest: list[Resource | list[Resource]] = [
        machine("node-1", "small"),
        machine("node-2", "large", bought=SPOT),
        pod("web-0", "node-1"),
        pod("web-1", "node-2", cpu="6"),
    ]
    found = decided(cluster(annotated({ON_DEMAND_FLOOR: "1"}, ways=BOTH), *rest))

    assert not found.commands
    assert held(found)["node-1"] == "OnDemandFloor"
    assert decided(cluster(pool(ways=BOTH), *rest)).commands


def test_floors_hold_over_several_machines() -> None:
    """Of three machines on demand whose pods have room elsewhere, as many stay as the floor says."""
    machines = [machine(f"node-{number}", "small") for number in range(3)]
    pods = [pod(f"web-{number}", f"node-{number}") for number in range(3)]
    roomy: list[Resource | list[Resource]] = [
        machine("node-9", "xlarge", bought=SPOT),
        pod("big-0", "node-9", cpu="11"),
    ]
    for floor, most in (("0", 2), ("2", 1), ("3", 0)):
        own = annotated({ON_DEMAND_FLOOR: floor}, ways=BOTH)
        view = cluster(own, *machines, *roomy, *pods, machine("stray", pool="gone"))
        found = decided(view, strategy="global")
        bought = [n.purchase.capacity_type for each in found.commands for n in each.replacements]
        gone = [name for each in found.commands for name in each.candidates]
        assert len(gone) - bought.count(ON_DEMAND) == most


def test_pods_stay_on_paid_capacity() -> None:
    """A machine that a commitment pays for is not replaced by a cheaper one; after its end it is."""
    view = cluster(pool(), machine("node-1", "large"), pod("web-0", "node-1"))

    assert held(decided(view, policy=committed(count=1))) == {"node-1": "NoSaving"}
    assert decided(view, policy=committed(count=1, until=NOW - timedelta(days=1))).commands
    assert decided(view).commands


def test_pods_move_onto_paid_capacity() -> None:
    """What is left of a commitment costs nothing more, so a machine that it does not pay for is replaced."""
    view = cluster(pool(), machine("node-1", "xlarge"), pod("web-0", "node-1", cpu="7"))
    (command,) = decided(view, policy=committed(count=1)).commands

    assert command.replacements[0].purchase.instance_type == "large"
    assert command.hourly_after == pytest.approx(0, abs=1e-5)


FAMILY = Catalog(types=(kind("m5.large", 2, 0.1), kind("m5.xlarge", 4, 0.2), kind("c5.xlarge", 4, 0.17)))


def flexible(instance_type: str, **more: Any) -> SchedulingPolicy:
    """Return a policy with Reserved Instances that pay for every size of their family."""
    own = Commitment(kind="ReservedInstance", name="ri", instance_type=instance_type, **more)
    return SchedulingPolicy(prices=PricePolicy(commitments=(own,)))


def test_pods_move_onto_another_size_of_a_paid_family() -> None:
    """Two m5.large are 8 units, as many as an m5.xlarge uses; one is 4, and a zonal one is for its size."""
    view = cluster(pool(), machine("node-1", "c5.xlarge"), pod("web-0", "node-1", cpu="3"))
    (command,) = decided(view, market=FAMILY, policy=flexible("m5.large", count=2)).commands

    assert command.replacements[0].purchase.instance_type == "m5.xlarge"
    assert command.saving == pytest.approx(0.17, abs=1e-5)
    for too_little in (flexible("m5.large", count=1), flexible("m5.large", count=2, zone="zone-1")):
        assert not decided(view, market=FAMILY, policy=too_little).commands


@pytest.mark.parametrize(
    ("count", "bought", "after"),
    [
        pytest.param(4, {"m5.xlarge/on-demand": 2}, 0.0, id="16 units pay for both"),
        pytest.param(
            2, {"m5.xlarge/on-demand": 1, "c5.xlarge/spot": 1}, 0.068, id="8 pay for one, spot is next"
        ),
        pytest.param(1, {"c5.xlarge/spot": 2}, 0.136, id="4 pay for none"),
    ],
)
def test_pods_move_onto_paid_capacity_rather_than_spot(
    count: int, bought: dict[str, int], after: float
) -> None:
    """What is paid for is cheaper than spot, for as many machines as it pays for."""
    view = cluster(
        pool(ways=BOTH),
        machine("node-1", "r5.2xlarge"),
        *(pod(f"web-{number}", "node-1", cpu="3") for number in range(2)),
    )
    market = Catalog(types=(*FAMILY.types, kind("r5.2xlarge", 8, 0.9)))
    (command,) = decided(
        view, market=market, policy=flexible("m5.large", count=count), strategy="global"
    ).commands

    found = Counter(f"{n.purchase.instance_type}/{n.purchase.capacity_type}" for n in command.replacements)
    assert found == bought
    assert command.hourly_after == pytest.approx(after, abs=1e-5)


def test_pods_stay_on_another_size_of_a_paid_family() -> None:
    """An m5.xlarge that two m5.large pay for is not replaced by a c5.xlarge, which is 3 cents cheaper."""
    view = cluster(pool(), machine("node-1", "m5.xlarge"), pod("web-0", "node-1", cpu="3"))

    assert held(decided(view, market=FAMILY, policy=flexible("m5.large", count=2))) == {"node-1": "NoSaving"}
    (command,) = decided(view, market=FAMILY, policy=flexible("m5.large", count=1)).commands
    assert command.saving == pytest.approx(0.03)


def test_commitments_pay_for_so_many_machines() -> None:
    """The first machines by name are paid for, the others cost what their offering does."""
    view = cluster(
        pool(), *(machine(f"node-{number}", "large") for number in range(3)), machine("odd", "tiny")
    )
    priced = overlaid_catalog(view, MARKET, committed(count=2))
    prices = [price_of(node, priced) for node in state_nodes(view)]

    assert prices[:3] == pytest.approx([0, 0, 0.4], abs=1e-6)
    assert prices[3] is None


def test_volumes_count_for_machines_that_run() -> None:
    """What the node class adds is part of the price of a machine, paid or not."""
    ref = CLASS
    volumes = (NodeVolume(type="gp3", gib=73),)
    node_class = NodeClass(group=ref.group, kind=ref.kind, name=ref.name, volumes=volumes, public_ipv4=True)
    view = msgspec.structs.replace(
        cluster(pool(), machine("node-1", "large"), machine("node-2", "small")),
        node_classes={(ref.group, ref.kind, ref.name): node_class},
    )
    market = msgspec.structs.replace(
        MARKET, volume_prices={"gp3": VolumePrice(gib=0.08)}, public_ipv4_price=0.005
    )
    priced = overlaid_catalog(view, market, committed(count=1))

    assert [price_of(node, priced) for node in state_nodes(view)] == pytest.approx([0.013, 0.113], abs=1e-6)


def test_prices_of_a_pool_decide_about_its_machines() -> None:
    """With a price per node two small machines cost more than one that holds both."""
    machines = [machine("node-1", "small"), machine("node-2", "small")]
    pods = [pod("web-0", "node-1", cpu="2"), pod("web-1", "node-2", cpu="2")]
    dear = annotated({NODE_PRICE: "0.05"})

    assert not decided(cluster(pool(), *machines, *pods)).commands
    assert decided(cluster(dear, *machines, *pods)).commands
    assert CAPACITY_TYPE in state_nodes(cluster(*machines))[0].labels


@pytest.mark.parametrize("least", [1, 2, 3])
def test_the_fewest_types_that_keep_the_choice_a_pool_asks_for(least: int) -> None:
    """A NodePool that wants so many instance types keeps just as many of the cheapest."""
    found = pool()
    wish = PoolRequirement(key=INSTANCE_TYPE, operator="Exists", min_values=least)
    template = msgspec.structs.replace(
        found.spec.template, spec=msgspec.structs.replace(found.spec.template.spec, requirements=(wish,))
    )
    choosy = msgspec.structs.replace(found, spec=msgspec.structs.replace(found.spec, template=template))
    (command,) = decided(cluster(choosy, machine("node-1", "xlarge"), pod("web-0", "node-1"))).commands

    assert [types_for_variety(node) for node in command.replacements] == [least]
