"""Whether the going of some machines pays, asked directly; small costs $0.10 an hour, spot 40 % of that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from karpenter.api.labels import CAPACITY_TYPE, ZONE
from karpenter.core.disruption.balanced import PoolTotals
from karpenter.core.disruption.codes import DisruptionCode
from karpenter.core.disruption.command import Command, Obstacle
from karpenter.core.disruption.consolidation import Consolidation, RefusedMove, consolidation_obstacle
from karpenter.core.disruption.simulate import SimulationResult, Simulator
from karpenter.core.model.catalog import Catalog
from karpenter_local.testing.builders import RESERVATION, instance_type, offering
from tests.unit.core.disruption.clusters import MARKET, cluster, kind, machine, pod, pool, simulated

if TYPE_CHECKING:
    from karpenter.api.nodepool import NodePool
    from karpenter.api.pod import Pod
    from karpenter.core.state.cluster import ClusterView

BOTH = ("on-demand", "spot")


def _asked(
    view: ClusterView,
    *names: str,
    market: Catalog = MARKET,
    spot_to_spot: bool = True,
    most: int = 9,
    totals: PoolTotals | None = None,
) -> Command | RefusedMove:
    """Return what is decided about machines by their names, or all."""
    simulator, candidates = simulated(view, market)
    consolidation = Consolidation(
        simulator,
        {name: totals or PoolTotals(1.0, 1.0) for name in view.pools},
        spot_to_spot=spot_to_spot,
        most_replacements=most,
    )
    return consolidation.decide([candidates[name] for name in names or candidates])


def _outcome(found: Command | RefusedMove) -> tuple[list[tuple[str, ...]], float] | str:
    """Return the types of every replacement and what is saved, or why nothing is done."""
    if isinstance(found, RefusedMove):
        return found.message
    return [node.instance_types for node in found.replacements], round(found.saving, 6)


def _elsewhere(name: str, node: str) -> Pod:
    """Return a pod that runs in a zone which its node selector does not allow."""
    found = pod(name, node)
    return msgspec.structs.replace(
        found, spec=msgspec.structs.replace(found.spec, node_selector={ZONE: "zone-9"})
    )


@pytest.mark.parametrize(
    ("count", "others"),
    [
        pytest.param(1, "", id="one pod"),
        pytest.param(2, " (and 1 more)", id="two pods"),
        pytest.param(3, " (and 2 more)", id="three pods"),
    ],
)
def test_pods_without_another_place_are_counted(count: int, others: str) -> None:
    """The first pod is named with its reason, and how many more there are."""
    view = cluster(pool(), machine("n1"), *(_elsewhere(f"a-{at}", "n1") for at in range(count)))

    found = _asked(view)

    assert isinstance(found, RefusedMove)
    assert found.code == "CannotMove"
    assert found.message.startswith(f"pod default/a-0 would have no other place{others}: NodePool default: ")


TWO: list[Any] = [machine("n1", "huge"), *(pod(f"a-{at}", "n1", cpu="1500m") for at in range(2))]
SMALL_OR_HUGE = Catalog(types=(kind("small", 2, 0.1), kind("huge", 64, 6.4)))


@pytest.mark.parametrize(
    ("most", "expected"),
    [
        pytest.param(2, ([("small",), ("small",)], 6.2), id="as many as are needed"),
        pytest.param(
            1, "no cheaper machine would do: the cheapest is huge for $6.4000 an hour, and this", id="one"
        ),
    ],
)
def test_how_many_replacements_are_allowed(most: int, expected: Any) -> None:
    """A huge machine for two pods of 1.5 cores is replaced by two small ones, where that is allowed."""
    found = _outcome(_asked(cluster(pool(), *TWO), market=SMALL_OR_HUGE, most=most))

    assert found == expected or (isinstance(found, str) and found.startswith(expected))


def test_more_replacements_than_allowed_are_counted() -> None:
    """Where only small machines are sold, two pods of 1.5 cores need two of them."""
    sold = msgspec.structs.replace(Catalog(types=(kind("small", 2, 0.1),)), node_prices={"n1": 6.4})

    assert _outcome(_asked(cluster(pool(), *TWO), market=sold, most=1)) == "its pods would need 2 new nodes"
    assert _outcome(_asked(cluster(pool(), *TWO), market=sold, most=2)) == ([("small",), ("small",)], 6.2)


@pytest.mark.parametrize(
    ("price", "expected"),
    [
        pytest.param(0.21, ([("small",), ("small",)], 0.01), id="a cent is saved"),
        pytest.param(
            0.2, "new nodes would cost $0.2000 an hour, no less than $0.2000", id="nothing is saved"
        ),
        pytest.param(0.19, "new nodes would cost $0.2000 an hour, no less than $0.1900", id="it costs more"),
    ],
)
def test_several_replacements_together_cost_less(price: float, expected: Any) -> None:
    """Two small machines for $0.20 replace what costs more than that."""
    sold = msgspec.structs.replace(Catalog(types=(kind("small", 2, 0.1),)), node_prices={"n1": price})

    assert _outcome(_asked(cluster(pool(), *TWO), market=sold)) == expected


def test_the_refusal_of_the_fewest_machines_is_told() -> None:
    """Neither one huge machine nor two small ones cost less: the sentence is about the one."""
    sold = msgspec.structs.replace(SMALL_OR_HUGE, node_prices={"n1": 0.15})

    assert _outcome(_asked(cluster(pool(), *TWO), market=sold)) == (
        "no cheaper machine would do: the cheapest is huge for $6.4000 an hour, and this costs $0.1500"
    )


ONE: list[Any] = [machine("n1", "medium"), pod("a-0", "n1")]
PAIR: list[Any] = [*ONE, pod("a-1", "n1")]
DEAR = Catalog(types=(kind("small", 2, 0.1), kind("other", 2, 0.15), kind("medium", 4, 0.2)))


@pytest.mark.parametrize(
    ("price", "expected"),
    [
        pytest.param(0.2, ([("small", "other")], 0.1), id="every type that costs less stays"),
        pytest.param(0.15, ([("small",)], 0.05), id="a type that costs the same goes"),
        pytest.param(
            0.1,
            "no cheaper machine would do: the cheapest is small for $0.1000 an hour, and this costs $0.1000",
            id="the cheapest costs the same",
        ),
    ],
)
def test_a_replacement_costs_less_whatever_is_launched(price: float, expected: Any) -> None:
    """Of a replacement only types are named that cost less than what goes."""
    sold = msgspec.structs.replace(DEAR, node_prices={"n1": price})

    assert _outcome(_asked(cluster(pool(), *ONE), market=sold)) == expected


def _bought(found: Command | RefusedMove) -> list[tuple[str, ...]]:
    assert isinstance(found, Command)
    return [tuple(sorted(node.requirements[CAPACITY_TYPE].values)) for node in found.replacements]


@pytest.mark.parametrize(
    ("ways", "bought"),
    [
        pytest.param(BOTH, [("spot",)], id="spot, where both would do"),
        pytest.param(("on-demand",), [("on-demand",)], id="on demand, where only that is allowed"),
    ],
)
def test_how_a_replacement_of_an_on_demand_machine_is_bought(ways: tuple[str, ...], bought: Any) -> None:
    """The price of spot was compared, so only spot may be launched."""
    assert _bought(_asked(cluster(pool(ways=ways), *ONE), spot_to_spot=False)) == bought


def test_reserved_capacity_is_not_given_up_for_spot() -> None:
    """A replacement that holds a reservation is launched as that: it is paid for already."""
    ways = [offering("zone-1", "reserved", 0.0, reservation="r-1", left=1), offering("zone-1", "spot", 0.04)]
    sold = Catalog(
        types=(instance_type("small", cpu=2, sold=ways), kind("medium", 4, 0.2)),
        well_known=frozenset({RESERVATION}),
    )
    view = cluster(pool(ways=("reserved", "spot")), *ONE)

    assert _bought(_asked(view, market=sold)) == [("reserved",)]


@pytest.mark.parametrize(
    ("second", "spot_to_spot", "goes"),
    [
        pytest.param("spot", True, True, id="all are spot, and the gate is open"),
        pytest.param("spot", False, False, id="all are spot, and the gate is closed"),
        pytest.param("on-demand", False, True, id="one is on demand: the gate does not matter"),
    ],
)
def test_the_gate_is_for_spot_machines_only(second: str, spot_to_spot: bool, goes: bool) -> None:
    """Two machines with a pod of 1.5 cores each become one; the gate is asked when all of them are spot."""
    view = cluster(
        pool(ways=("spot",)),
        machine("n1", "large", bought="spot"),
        machine("n2", "large", bought=second),
        *(pod(f"a-{at}", f"n{at}", cpu="3900m") for at in (1, 2)),
    )
    sold = Catalog(types=(kind("large", 8, 0.4), kind("cheap", 16, 0.3)))

    found = _asked(view, spot_to_spot=spot_to_spot, market=sold)

    assert isinstance(found, Command) is goes
    if isinstance(found, RefusedMove):
        assert found.code == "SpotToSpotDisabled"


def _spots(count: int) -> Catalog:
    """Return a market of so many small types, each a little dearer than the one before, and a huge one."""
    some = (kind(f"s{at:02}", 2, 0.1 + at / 1000, sold=("spot",)) for at in range(count))
    return Catalog(types=(*some, kind("huge", 64, 6.4, sold=("spot",))))


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        pytest.param(14, "only 14 spot types are cheaper, and 15 are needed", id="too few"),
        pytest.param(15, 15, id="just enough"),
        pytest.param(18, 15, id="only the cheapest are named"),
    ],
)
def test_one_spot_machine_needs_a_choice_of_cheaper_types(types: int, expected: Any) -> None:
    """Fifteen cheaper types are needed to replace one spot machine, and no more are named."""
    view = cluster(pool(ways=("spot",)), machine("n1", "huge", bought="spot"), pod("a-0", "n1"))

    found = _outcome(_asked(view, market=_spots(types)))

    assert found == expected or (not isinstance(found, str) and len(found[0][0]) == expected)


def test_several_spot_machines_need_no_choice_of_types() -> None:
    """Two huge machines become one of the one type that is cheaper than either."""
    view = cluster(
        pool(ways=("spot",)),
        *(machine(f"n{at}", "huge", bought="spot") for at in (1, 2)),
        *(pod(f"a-{at}", f"n{at}", cpu="900m") for at in (1, 2)),
    )
    simulator, candidates = simulated(view, _spots(1))
    ours = Consolidation(simulator, {}, spot_to_spot=True, most_replacements=1)

    found = ours.decide(list(candidates.values()))

    assert _outcome(found) == ([("s00",)], round(2 * 6.4 * 0.4 - 0.04, 6))


def test_machines_are_not_replaced_by_what_one_of_them_is() -> None:
    """A type as dear as a machine of that type which goes is left out: keeping that machine is as good."""
    view = cluster(
        pool(),
        machine("n1", "large"),
        machine("n2", "medium"),
        pod("a-0", "n1", cpu="1500m"),
        pod("b-0", "n2", cpu="1500m"),
    )
    without = Catalog(types=(kind("medium", 4, 0.2), kind("large", 8, 0.4)))
    cheaper = Catalog(types=(*without.types, kind("new", 4, 0.15)))
    dearer = Catalog(types=(*without.types, kind("new", 4, 0.25)))
    good = "the cheapest replacement is one of the machines that would go"

    assert _outcome(_asked(view, market=without, most=1)) == good
    assert _outcome(_asked(view, market=cheaper, most=1)) == ([("new",)], 0.45)
    assert _outcome(_asked(view, market=dearer, most=1)) == good


def _balanced() -> NodePool:
    return pool(consolidation_policy="Balanced")


@pytest.mark.parametrize(
    ("totals", "goes"),
    [
        pytest.param(PoolTotals(0.2, 4.0), True, id="half of the price for half of the disruption scores 1"),
        pytest.param(PoolTotals(0.4, 4.0), True, id="a quarter for half scores 0.5, which is enough"),
        pytest.param(PoolTotals(0.5, 4.0), False, id="a fifth for half scores 0.4"),
    ],
)
def test_a_balanced_pool_weighs_what_a_move_saves(totals: PoolTotals, goes: bool) -> None:
    """A medium machine with one pod, which costs 2 to disrupt, becomes a small one, which saves $0.10."""
    found = _asked(cluster(_balanced(), *ONE), totals=totals)

    assert isinstance(found, Command) is goes
    if isinstance(found, Command):
        (score,) = found.scores
        assert (score.saving, score.disruption) == pytest.approx((0.1 / totals.price, 0.5))
    else:
        assert found.code == "NotBalanced"


def test_of_moves_that_scored_too_little_the_best_is_kept() -> None:
    """Whichever was asked about first: the going of the large one saves $0.40, of the medium one $0.20."""
    view = cluster(
        _balanced(),
        machine("n1", "medium"),
        machine("n2", "large"),
        *(pod(f"a-{at}", f"n{at}", cpu="1500m") for at in (1, 2)),
    )
    simulator, candidates = simulated(view, Catalog(types=(*MARKET.types[:3],)))

    for order in (("n1", "n2"), ("n2", "n1")):
        ours = Consolidation(
            simulator, {"default": PoolTotals(100.0, 1.0)}, spot_to_spot=False, most_replacements=9
        )
        for name in order:
            found = ours.decide([candidates[name]])
            assert isinstance(found, RefusedMove)
            assert found.code == "NotBalanced"
        assert ours.rejected["default"].saving == pytest.approx(0.004)


def _full(count: int) -> list[Any]:
    return [
        *(machine(f"n{at:02}", "small") for at in range(count)),
        *(pod(f"a-{at}", f"n{at:02}", cpu="2") for at in range(count)),
    ]


@pytest.mark.parametrize(
    ("parts", "how", "asked"),
    [
        pytest.param(PAIR, {}, [False, True], id="a machine is launched: others may be cheaper"),
        pytest.param(PAIR, {"most": 1}, [False], id="only one may be launched"),
        pytest.param(ONE, {}, [False], id="a machine is launched for one pod"),
        pytest.param([*ONE, machine("n2", "small")], {}, [False], id="nothing is launched"),
        pytest.param([machine("n1"), _elsewhere("a-0", "n1")], {}, [False], id="a pod has no other place"),
        pytest.param(_full(24), {}, [False, True], id="24 machines"),
        pytest.param(_full(25), {}, [False], id="more machines than are packed anew"),
    ],
)
def test_when_machines_are_packed_by_price(
    parts: list[Any], how: dict[str, Any], asked: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Packing by price takes longer, so it is asked for only where it may find more."""
    found: list[bool] = []
    without = Simulator.without

    def noted(self: Simulator, candidates: Any, *, by_price: bool = False) -> SimulationResult:
        found.append(by_price)
        return without(self, candidates, by_price=by_price)

    monkeypatch.setattr(Simulator, "without", noted)
    simulator, candidates = simulated(cluster(pool(), *parts))
    going = [each for each in candidates.values() if each.pods]
    ours = Consolidation(simulator, {}, spot_to_spot=False, most_replacements=how.get("most", 9))

    ours.decide(going)
    ours.decide(going)

    assert found == asked


@pytest.mark.parametrize(
    ("parts", "code"),
    [
        pytest.param([pool(), machine("n1"), pod("a-0", "n1")], None, id="nothing"),
        pytest.param([pool(), machine("n1", zone=""), pod("a-0", "n1")], "Unpriced", id="no zone"),
        pytest.param([pool(), machine("n1", bought=""), pod("a-0", "n1")], "Unpriced", id="no capacity type"),
        pytest.param([pool(), machine("n1", zone="zone-9"), pod("a-0", "n1")], "Unpriced", id="no price"),
        pytest.param(
            [pool(consolidate_after="Never"), machine("n1")], "ConsolidateAfter", id="consolidateAfter Never"
        ),
        pytest.param(
            [pool(consolidation_policy="WhenEmpty"), machine("n1"), pod("a-0", "n1")],
            "WhenEmpty",
            id="not empty",
        ),
        pytest.param([pool(consolidation_policy="WhenEmpty"), machine("n1")], None, id="WhenEmpty and empty"),
    ],
)
def test_what_keeps_a_node_from_consolidation(parts: list[Any], code: str | None) -> None:
    """The first obstacle is named by its code."""
    _, candidates = simulated(cluster(*parts))

    found = consolidation_obstacle(candidates["n1"], frozenset())

    assert (found[0] if found is not None else None) == code


def test_a_pool_that_rests_keeps_its_nodes() -> None:
    """Other NodePools do not."""
    _, candidates = simulated(cluster(pool(), *ONE))

    resting = consolidation_obstacle(candidates["n1"], {"default"})

    assert resting is not None
    assert resting[0] == "Resting"
    assert consolidation_obstacle(candidates["n1"], {"other"}) is None


@pytest.mark.parametrize(
    ("dear", "expected"),
    [
        pytest.param(1.0, [], id="whatever is bought saves too little"),
        pytest.param(0.45, ["medium"], id="what is bought saves enough"),
    ],
)
def test_a_command_that_is_refused_in_the_end_is_none(dear: float, expected: list[str]) -> None:
    """An xlarge machine for $0.80 becomes a medium one, which saves $0.60."""
    view = cluster(
        pool(),
        machine("n1", "xlarge"),
        *(pod(f"a-{at}", "n1", cpu="900m") for at in range(2)),
        pod("b-0", "n1", cpu="700m"),
    )
    simulator, candidates = simulated(view)
    obstacle = (DisruptionCode.NO_PAYBACK, "too little")

    def refused(command: Command, _going: object) -> Obstacle | None:
        return obstacle if command.saving < dear else None

    consolidation = Consolidation(simulator, {}, spot_to_spot=False, most_replacements=9, refused=refused)
    found = consolidation.decide(list(candidates.values()))

    if expected:
        assert isinstance(found, Command)
        assert [node.purchase.instance_type for node in found.replacements] == expected
    else:
        assert found == RefusedMove(*obstacle)
