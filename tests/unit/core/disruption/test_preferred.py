"""Pods that fell back to a NodePool of lower weight go back, within budgets, price and payback."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from karpenter.api.cluster import PodDisruptionBudget, PodDisruptionBudgetSpec
from karpenter.api.labels import (
    CAPACITY_TYPE,
    DO_NOT_DISRUPT,
    INSTANCE_TYPE,
    ON_DEMAND,
    ON_DEMAND_FLOOR,
    PREFERRED_POOL_PRICE,
    SPOT,
)
from karpenter.api.meta import LabelSelector, ObjectMeta, Resource
from karpenter.api.node import Taint
from karpenter.api.nodepool import Budget, NodePool, PoolRequirement
from karpenter.api.price_annotations import annotated_preference
from karpenter.cloud.offerings import mark_unavailable
from karpenter.core.disruption import preferred
from karpenter.core.disruption.churn import RETURN_HOLD, PastCommand
from karpenter.core.disruption.command import UNDERUTILIZED, Command
from karpenter.core.disruption.disrupt import RELOOK, SAMPLE, DisruptionDecision, disrupt
from karpenter.core.disruption.memory import DisruptionMemory, FinishedCommand, observe
from karpenter.core.disruption.outcomes import RestPeriod
from karpenter.core.disruption.payback import Payback
from karpenter.core.disruption.validation import InvalidCommand, ValidCommand, validate
from karpenter.core.model.catalog import Catalog, InstanceType, OfferingName
from karpenter.core.model.pricing import Commitment, PricePolicy
from karpenter.core.scheduling.build.policy import SchedulingPolicy
from tests.unit.core.disruption.clusters import (
    LONG_AGO,
    MARKET,
    NOW,
    cluster,
    decided,
    facts,
    held,
    kind,
    machine,
    pod,
    pool,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from karpenter.core.state.cluster import ClusterView

MINUTE = timedelta(minutes=1)
BOTH = (ON_DEMAND, SPOT)
ON: dict[str, Any] = {"preferred_price": 0.1, "return_after": timedelta()}


def weighed(name: str, weight: int | None, notes: Mapping[str, str] | None = None, **more: Any) -> NodePool:
    """Return a NodePool with a weight and annotations."""
    made = pool(name, **more)
    return msgspec.structs.replace(
        made,
        metadata=ObjectMeta(name=name, annotations=dict(notes or {})),
        spec=msgspec.structs.replace(made.spec, weight=weight),
    )


def fallen_back(*parts: Resource | list[Resource], **more: Any) -> ClusterView:
    """Return a cluster with two NodePools; one node of that of lower weight is full."""
    return cluster(
        weighed("best", 10, **more.get("best", {})),
        weighed("spare", more.get("weight"), **more.get("spare", {})),
        machine("node-1", "medium", pool="spare", bought=more.get("bought", ON_DEMAND)),
        pod("web-1", "node-1", cpu="3"),
        *parts,
    )


def sold_out(kinds: tuple[InstanceType, ...], ways: tuple[str, ...] = BOTH) -> tuple[InstanceType, ...]:
    """Return instance types of which none is to be had, as a cloud marks them after a failed launch."""
    names = frozenset(
        OfferingName.of(each, offering)
        for each in kinds
        for offering in each.offerings
        if offering.capacity_type in ways
    )
    return mark_unavailable(Catalog(types=kinds), names).types


def market(best: tuple[InstanceType, ...] = MARKET.types) -> Catalog:
    """Return a catalog in which the NodePool of higher weight may use other types, or at other prices."""
    return Catalog(types=MARKET.types, by_pool={"best": best, "spare": MARKET.types})


def priced(medium: float, **more: float) -> Catalog:
    """Return a catalog in which the preferred NodePool sells machines of four cores for this."""
    others = tuple(kind(name, 4, price) for name, price in more.items())
    return market((kind("medium", 4, medium), *others))


def only_command(found: DisruptionDecision) -> Command:
    (command,) = found.commands
    return command


def told(found: DisruptionDecision, node: str = "node-1") -> str:
    """Return what keeps a node, as a sentence."""
    return next(each.message for each in found.kept if each.node == node)


@pytest.mark.parametrize("strategy", ["global", "classic"])
def test_pods_stay_where_they_are_by_default(strategy: str) -> None:
    """Nothing goes back to a NodePool of higher weight for the same price, as with Karpenter."""
    found = decided(fallen_back(), strategy=strategy)

    assert held(found) == {"node-1": "NoSaving"}
    assert found.memory.returnable == {}


@pytest.mark.parametrize("strategy", ["global", "classic"])
def test_pods_go_back_to_the_preferred_pool(strategy: str) -> None:
    """With a price for the preference a node is replaced by one of the NodePool of higher weight."""
    command = only_command(decided(fallen_back(), strategy=strategy, **ON))

    assert command.reason == UNDERUTILIZED
    assert command.consolidation_type == "single"
    assert [node.pool for node in command.replacements] == ["best"]
    assert (command.candidates, command.preferred, command.destinations) == (("node-1",), ("best",), "best")
    assert (command.hourly_before, command.hourly_after) == pytest.approx((0.2, 0.2))
    assert command.preference == pytest.approx(0.02)
    assert (command.pods_moved, command.moves) == (1, {})


@pytest.mark.parametrize(
    ("own", "other", "goes"),
    [
        pytest.param(None, 1, True, id="no weight counts as 0"),
        pytest.param(9, 10, True, id="a lower weight"),
        pytest.param(10, 10, False, id="the same weight"),
        pytest.param(11, 10, False, id="a higher weight"),
        pytest.param(None, None, False, id="no weights"),
    ],
)
def test_weights_say_which_pool_is_preferred(own: int | None, other: int | None, goes: bool) -> None:
    """Pods go back to a NodePool of higher weight only."""
    view = cluster(
        weighed("best", other),
        weighed("spare", own),
        machine("node-1", "medium", pool="spare"),
        pod("web-1", "node-1", cpu="3"),
    )

    assert bool(decided(view, **ON).commands) is goes


def test_going_back_must_have_been_possible_for_minutes() -> None:
    """A node goes once its pods could go back for five minutes; until then it says when that will be."""
    first = decided(fallen_back(), preferred_price=0.1)

    assert held(first) == {"node-1": "ReturnPending"}
    assert told(first) == "its pods can go back to NodePool best, and do so at 12:05:00 UTC if that stays so"
    assert first.memory.returnable == {"node-1": NOW}
    assert first.memory.fruitless_until == NOW + SAMPLE
    assert _after(first.memory, 5 * MINUTE - timedelta(seconds=1)).commands == ()
    assert _after(first.memory, 5 * MINUTE).commands
    assert first.effects == ()


def _after(memory: DisruptionMemory, passed: timedelta, sold: Catalog = MARKET) -> DisruptionDecision:
    context = facts({"preferred_price": 0.1})
    return disrupt(fallen_back(), sold, memory, now=NOW + passed, context=context)


def test_stock_that_goes_again_starts_the_wait_anew() -> None:
    """A node whose pods cannot go back in between waits for the whole time again."""
    first = decided(fallen_back(), preferred_price=0.1)
    gone = _after(first.memory, 4 * MINUTE, market(sold_out(MARKET.types)))
    back = _after(gone.memory, 6 * MINUTE)

    assert held(gone) == {"node-1": "CannotReturn"}
    assert gone.memory.returnable == {}
    assert gone.memory.fruitless_until == NOW + 4 * MINUTE + RELOOK
    assert back.memory.returnable == {"node-1": NOW + 6 * MINUTE}
    assert not back.commands


def test_what_is_known_of_stock_stays_while_something_else_goes() -> None:
    """A decision in which another reason finds something does not start the wait anew."""
    first = decided(fallen_back(), preferred_price=0.1)
    view = fallen_back(machine("node-2", "small", pool="spare"))
    found = disrupt(view, MARKET, first.memory, now=NOW + MINUTE, context=facts({"preferred_price": 0.1}))

    assert [each.reason for each in found.commands] == ["Empty"]
    assert found.memory.returnable == first.memory.returnable


@pytest.mark.parametrize("ways", [BOTH, (ON_DEMAND,)], ids=["all is sold out", "on-demand is sold out"])
def test_a_pool_without_stock_keeps_pods_where_they_are(ways: tuple[str, ...]) -> None:
    """While the preferred NodePool is sold out a node stays, and says why."""
    found = decided(fallen_back(), market=market(sold_out(MARKET.types, ways)), **ON)

    assert held(found) == {"node-1": "CannotReturn"}
    assert told(found).startswith(
        "its pods cannot go back to NodePool best: pod default/web-1 would have no place there: "
    )
    assert [each.reason for each in _announced(found)] == ["Unconsolidatable"] * 2


def _announced(found: DisruptionDecision) -> list[Any]:
    return [effect for effect in found.effects if type(effect).__name__ == "Announce"]


def test_a_pool_at_its_limits_keeps_pods_where_they_are() -> None:
    """Limits of the preferred NodePool hold."""
    full = weighed("best", 10)
    full = msgspec.structs.replace(full, spec=msgspec.structs.replace(full.spec, limits={"cpu": "2"}))
    found = decided(fallen_back(full), **ON)

    assert held(found) == {"node-1": "CannotReturn"}


def test_a_pool_that_does_not_suit_pods_is_no_obstacle() -> None:
    """Where pods could never run in the NodePool of higher weight, the usual reason is told."""
    tainted = weighed("best", 10)
    inner = msgspec.structs.replace(
        tainted.spec.template.spec, taints=(Taint(key="gpu", effect="NoSchedule"),)
    )
    template = msgspec.structs.replace(tainted.spec.template, spec=inner)
    tainted = msgspec.structs.replace(tainted, spec=msgspec.structs.replace(tainted.spec, template=template))
    found = decided(fallen_back(tainted), **ON)

    assert held(found) == {"node-1": "NoSaving"}
    assert "cheapest is medium" in told(found)


@pytest.mark.parametrize(
    ("price", "goes"),
    [
        pytest.param(0.2, True, id="the same price"),
        pytest.param(0.215, True, id="within the share"),
        pytest.param(0.221, False, id="just beyond the share"),
        pytest.param(0.25, False, id="beyond the share"),
    ],
)
def test_the_price_may_rise_by_less_than_the_share(price: float, goes: bool) -> None:
    """What going back is worth is also the most that it may cost."""
    found = decided(fallen_back(), market=priced(price), payback=Payback(within=timedelta()), **ON)

    assert bool(found.commands) is goes
    if goes:
        assert only_command(found).saving == pytest.approx(0.2 - price)
    else:
        assert told(found) == (
            f"going back to NodePool best costs ${price:.4f} an hour; this costs $0.2000, and less than 10%"
            " more is allowed"
        )


def test_types_that_cost_too_much_are_not_named() -> None:
    """Whatever instance type is launched in the end is within the share."""
    command = only_command(decided(fallen_back(), market=priced(0.2, dear=0.21, dearest=0.3), **ON))

    assert command.replacements[0].instance_types == ("medium", "dear")


def test_spot_is_bought_alone_where_it_is_sold() -> None:
    """A node on spot goes back to spot without the gate for spot to spot; on-demand is no way out."""
    view = fallen_back(best={"ways": BOTH}, spare={"ways": BOTH}, bought=SPOT)
    (bought,) = only_command(decided(view, **ON)).replacements

    assert bought.requirements[CAPACITY_TYPE].values == frozenset({SPOT})
    assert bought.purchase.price == pytest.approx(0.08)


def test_variety_is_kept() -> None:
    """A NodePool that demands a choice of instance types is not gone back to without it."""

    def choosy(least: int) -> NodePool:
        made = weighed("best", 10)
        wanted = PoolRequirement(key=INSTANCE_TYPE, operator="Exists", min_values=least)
        template = made.spec.template
        inner = msgspec.structs.replace(template.spec, requirements=(*template.spec.requirements, wanted))
        template = msgspec.structs.replace(template, spec=inner)
        return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, template=template))

    sold = priced(0.2, dear=0.21, dearest=0.3)

    assert decided(fallen_back(choosy(2)), market=sold, **ON).commands
    assert held(decided(fallen_back(choosy(3)), market=sold, **ON)) == {"node-1": "CannotReturn"}


def test_several_machines_stay_within_the_share_together() -> None:
    """Where the preferred NodePool has small machines only, several take the place of one."""
    sold = market((kind("small", 2, 0.101), kind("dear", 2, 0.108), kind("dearest", 2, 0.115)))
    halves = [pod("web-1", "node-1", cpu="2"), pod("web-2", "node-1", cpu="2")]
    command = only_command(decided(fallen_back(*halves), market=sold, **ON))

    assert [node.instance_types for node in command.replacements] == [("small", "dear")] * 2
    assert command.hourly_after == pytest.approx(0.202)
    assert command.pods_moved == 2


def test_rooms_of_the_preferred_pool_are_used_and_no_others() -> None:
    """Pods go to free room in the preferred NodePool first, and never to that of another one."""
    view = fallen_back(
        machine("best-1", "large", pool="best"),
        pod("api-1", "best-1", cpu="6900m"),
        machine("spare-2", "large", pool="spare"),
        pod("db-1", "spare-2", cpu="6900m"),
        pod("web-2", "node-1", cpu="1"),
    )
    command, other = decided(view, **ON).commands

    assert (command.candidates, other.candidates) == (("node-1",), ("spare-2",))
    assert command.moves == {"default/web-2": "best-1"}
    assert [node.pods for node in command.replacements] == [("default/web-1",)]
    assert command.preferred == ("best",)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        pytest.param({"budgets": (Budget(nodes="0"),)}, "Budget", id="a budget of none"),
        pytest.param(
            {"budgets": (Budget(nodes="0", reasons=(UNDERUTILIZED,)),)}, "Budget", id="a budget for savings"
        ),
        pytest.param({"consolidate_after": "Never"}, "ConsolidateAfter", id="consolidateAfter Never"),
        pytest.param({"consolidation_policy": "WhenEmpty"}, "WhenEmpty", id="WhenEmpty"),
    ],
)
def test_the_pool_of_the_node_has_its_say(change: dict[str, Any], code: str) -> None:
    """Budgets and policies of the NodePool that pods leave hold, as for any saving."""
    found = decided(fallen_back(spare=change), **ON)

    assert held(found) == {"node-1": code}


def test_budgets_of_other_reasons_do_not_hold_it() -> None:
    """A budget for drift says nothing about going back."""
    assert decided(fallen_back(spare={"budgets": (Budget(nodes="0", reasons=("Drifted",)),)}), **ON).commands


def test_pods_and_nodes_have_their_say() -> None:
    """A PodDisruptionBudget and do-not-disrupt hold a node."""
    guard = PodDisruptionBudget(
        metadata=ObjectMeta(name="web", namespace="default"),
        spec=PodDisruptionBudgetSpec(
            selector=LabelSelector(match_labels={"app": "web"}), max_unavailable="0"
        ),
    )
    guarded = fallen_back(pod("web-9", "node-1", cpu="500m", labels={"app": "web"}), guard)
    kept = fallen_back(pod("web-9", "node-1", cpu="500m", annotations={DO_NOT_DISRUPT: "true"}))

    assert held(decided(guarded, **ON)) == {"node-1": "PodDisruptionBudget"}
    assert held(decided(kept, **ON)) == {"node-1": "PodDoNotDisrupt"}


def many(count: int, **more: Any) -> ClusterView:
    """Return so many full nodes of a NodePool of lower weight."""
    nodes = [machine(f"node-{number}", "medium", pool="spare") for number in range(count)]
    pods = [pod(f"web{number}-0", f"node-{number}", cpu="4") for number in range(count)]
    return cluster(weighed("best", 10), weighed("spare", None, **more), *nodes, *pods)


def test_as_many_go_at_once_as_budgets_allow() -> None:
    """Each node is a command of its own."""
    found = decided(many(4, budgets=(Budget(nodes="3"),)), **ON)

    assert [each.candidates for each in found.commands] == [("node-0",), ("node-1",), ("node-2",)]
    assert held(found) == {"node-3": "Waiting"}


def test_each_command_counts_those_before_it() -> None:
    """The limit of the preferred NodePool is used up by the first node."""
    best = weighed("best", 10)
    best = msgspec.structs.replace(best, spec=msgspec.structs.replace(best.spec, limits={"nodes": "1"}))
    view = msgspec.structs.replace(many(2), pools={**many(2).pools, "best": best})
    found = decided(view, **ON)

    assert [each.candidates for each in found.commands] == [("node-0",)]
    assert held(found) == {"node-1": "CannotReturn"}


def test_nothing_more_is_asked_where_the_cluster_after_a_command_is_not_known() -> None:
    """While pods wait one node goes at a time."""
    view = many(3)
    waits = pod("late-0", cpu="99")
    view = msgspec.structs.replace(view, pods={**view.pods, waits.key: waits})
    found = decided(view, **ON)

    assert len(found.commands) == 1
    assert found.memory.asked == "node-0"


def test_a_decision_asks_so_many_nodes_and_the_next_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes that are known to be able to go come first, then the others in turn."""
    monkeypatch.setattr(preferred, "MOST_ASKED", 2)
    view, memory, seen = many(5), DisruptionMemory(), []
    context = facts({"preferred_price": 0.1})
    out = market(sold_out(MARKET.types))
    for _ in range(4):
        found = disrupt(view, out, memory, now=NOW, context=context)
        memory = found.memory
        seen.append(sorted(name for name, code in held(found).items() if code == "CannotReturn"))

    assert seen == [["node-0", "node-1"], ["node-2", "node-3"], ["node-0", "node-4"], ["node-1", "node-2"]]

    known = DisruptionMemory(returnable={"node-3": NOW - MINUTE}, asked="node-1")
    found = disrupt(view, MARKET, known, now=NOW, context=context)

    assert found.memory.returnable == {"node-3": NOW - MINUTE, "node-2": NOW}


def test_the_search_ends_when_its_time_is_up() -> None:
    """What was found by then counts."""
    found = decided(many(2), stop=lambda: True, **ON)

    assert not found.commands
    assert found.memory.asked == ""


def test_all_nodes_were_asked() -> None:
    """A decision that has asked all starts from the beginning the next time."""
    known = DisruptionMemory(asked="node-0")
    found = disrupt(many(2), MARKET, known, now=NOW, context=facts({"preferred_price": 0.1}))

    assert found.memory.asked == ""
    assert found.memory.returnable == {"node-0": NOW, "node-1": NOW}


def test_nodes_that_are_gone_are_forgotten() -> None:
    """Only nodes that could go back now are remembered."""
    known = DisruptionMemory(returnable={"gone": NOW - MINUTE, "node-1": NOW - MINUTE})
    found = disrupt(many(2), MARKET, known, now=NOW, context=facts({"preferred_price": 0.1}))

    assert found.memory.returnable == {"node-0": NOW, "node-1": NOW - MINUTE}


@pytest.mark.parametrize(
    ("eviction", "goes"),
    [pytest.param(0.012, True, id="worth it"), pytest.param(0.014, False, id="not worth it")],
)
def test_going_back_pays_for_evictions(eviction: float, goes: bool) -> None:
    """What going back is worth in an hour must pay for the evictions, and for two machines at once."""
    found = decided(fallen_back(), payback=Payback(eviction_price=eviction), **ON)

    assert bool(found.commands) is goes
    if not goes:
        assert held(found) == {"node-1": "NoPayback"}
        assert told(found) == (
            "going back to NodePool best is worth $0.0200 an hour, which does not pay soon enough for moving"
            " ($0.0207)"
        )


def returned(when: datetime, workload: str = "web", claims: tuple[str, ...] = ("old",)) -> PastCommand:
    """Return a command by which pods of a workload went back."""
    return PastCommand(
        when=when,
        removed=frozenset(),
        added=frozenset(),
        workloads=frozenset({f"default/ReplicaSet/{workload}"}),
        returned=frozenset(claims),
    )


@pytest.mark.parametrize(
    ("past", "goes"),
    [
        pytest.param(returned(LONG_AGO), True, id="when the node was bought"),
        pytest.param(returned(LONG_AGO - MINUTE), False, id="before the node was bought"),
        pytest.param(returned(LONG_AGO - MINUTE, "api"), True, id="of other workloads"),
        pytest.param(returned(LONG_AGO - MINUTE, claims=()), True, id="a command for another reason"),
        pytest.param(returned(LONG_AGO + MINUTE), True, id="after the node was bought"),
    ],
)
def test_pods_that_fell_back_again_stay(past: PastCommand, goes: bool) -> None:
    """Pods go back once for each time that they fell back, and not again within hours."""
    now = LONG_AGO - MINUTE + RETURN_HOLD - timedelta(seconds=1)
    context = facts(ON)
    view = fallen_back()
    found = disrupt(view, MARKET, DisruptionMemory(past=(past,)), now=now, context=context)

    assert bool(found.commands) is goes
    if not goes:
        assert held(found) == {"node-1": "WouldUndo"}
        assert told(found) == (
            "its pods went back at 11:59 UTC and fell back again; they stay until 15:59 UTC"
        )
        later = disrupt(
            view, MARKET, DisruptionMemory(past=(past,)), now=now + timedelta(seconds=1), context=context
        )
        assert later.commands


def test_the_last_time_counts() -> None:
    """Of several times that pods went back the last says until when they stay."""
    past = (returned(LONG_AGO - MINUTE), returned(LONG_AGO - 3 * MINUTE))
    found = disrupt(
        fallen_back(), MARKET, DisruptionMemory(past=past), now=LONG_AGO + MINUTE, context=facts(ON)
    )

    assert "went back at 11:59" in told(found)


def test_going_back_undoes_no_saving() -> None:
    """Pods that a saving moved to a cheaper NodePool within the hour stay there."""
    here, there = ("medium", "zone-1", ON_DEMAND), ("medium", "zone-1", ON_DEMAND)
    past = PastCommand(
        when=NOW - MINUTE,
        removed=frozenset({there}),
        added=frozenset({here}),
        workloads=frozenset({"default/ReplicaSet/web"}),
    )
    found = decided(fallen_back(), past=(past,), **ON)

    assert held(found) == {"node-1": "WouldUndo"}
    assert told(found) == "going back would undo a command that was carried out a short while ago"
    earlier = msgspec.structs.replace(past, when=NOW - 61 * MINUTE)
    assert decided(fallen_back(), past=(earlier,), **ON).commands


def test_a_failed_replacement_holds_the_node() -> None:
    """A node whose replacement did not become ready rests."""
    found = decided(fallen_back(), failed=("node-1",), **ON)

    assert held(found) == {"node-1": "Resting"}


def test_floors_hold() -> None:
    """The last node on demand of a NodePool does not go back to spot elsewhere."""
    floor = {"notes": {ON_DEMAND_FLOOR: "1"}}
    sold = market(tuple(kind(name, 4, 0.5) for name in ("medium",)))
    view = fallen_back(
        machine("node-2", "medium", pool="spare", bought=SPOT),
        pod("api-1", "node-2", cpu="4"),
        best={"ways": (SPOT,)},
        spare={**floor, "ways": BOTH},
    )
    found = decided(view, market=sold, **ON)

    assert held(found)["node-1"] == "OnDemandFloor"


def test_paid_capacity_is_not_left() -> None:
    """A node that a commitment pays for stays."""
    own = Commitment(kind="ReservedInstance", name="ri", instance_type="medium", count=1)
    policy = SchedulingPolicy(prices=PricePolicy(commitments=(own,)))

    assert held(decided(fallen_back(), policy=policy, **ON)) == {"node-1": "CannotReturn"}


@pytest.mark.parametrize(
    ("note", "setting", "goes"),
    [
        pytest.param("0.1", 0.0, True, id="the annotation turns it on"),
        pytest.param("0", 0.1, False, id="the annotation turns it off"),
        pytest.param("", 0.1, True, id="an empty one says nothing"),
        pytest.param("much", 0.1, True, id="a wrong one says nothing"),
        pytest.param("much", 0.0, False, id="a wrong one turns nothing on"),
    ],
)
def test_a_pool_may_say_what_it_is_worth(note: str, setting: float, goes: bool) -> None:
    """The annotation of the NodePool that pods go back to wins over the setting."""
    view = fallen_back(best={"notes": {PREFERRED_POOL_PRICE: note}})

    assert bool(decided(view, **{**ON, "preferred_price": setting}).commands) is goes


def test_the_annotation_is_of_the_pool_that_pods_go_back_to() -> None:
    """An annotation of the NodePool that pods leave says nothing."""
    view = fallen_back(spare={"notes": {PREFERRED_POOL_PRICE: "0.5"}})

    assert not decided(view, return_after=timedelta()).commands


def test_the_share_is_that_of_the_pool_where_machines_are_bought() -> None:
    """Of several preferred NodePools the one that is used says what going back is worth."""
    better = weighed("better", 20, {PREFERRED_POOL_PRICE: "0.3"})
    view = fallen_back(better)
    sold = {"best": MARKET.types, "spare": MARKET.types, "better": MARKET.types}
    command = only_command(decided(view, market=Catalog(types=MARKET.types, by_pool=sold), **ON))

    assert command.replacements[0].pool == "better"
    assert command.preference == pytest.approx(0.06)
    assert command.preferred == ("best", "better")

    sold["better"] = sold_out(MARKET.types)
    command = only_command(decided(view, market=Catalog(types=MARKET.types, by_pool=sold), **ON))
    assert command.destinations == "best"
    assert command.preference == pytest.approx(0.02)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", (0.25, ""), id="absent"),
        pytest.param("0.1", (0.1, ""), id="a share"),
        pytest.param(
            "10%",
            (0.25, "annotation karpenter.sh/preferred-pool-price is '10%': expected a share such as 0.1"),
            id="no share",
        ),
    ],
)
def test_annotations_are_shares(text: str, expected: tuple[float, str]) -> None:
    """What cannot be read is said, and the setting holds."""
    assert annotated_preference({PREFERRED_POOL_PRICE: text}, 0.25) == expected


def again(command: Command, view: ClusterView, sold: Catalog = MARKET, **more: Any) -> Any:
    """Look at a command a second time."""
    return validate(command, view, sold, DisruptionMemory(), now=NOW, context=facts({**ON, **more}))


@pytest.mark.parametrize("strategy", ["global", "classic"])
def test_the_second_look_holds_while_nothing_changes(strategy: str) -> None:
    """A command that was decided a moment ago is valid, and is remembered as going back, not as a saving."""
    view = fallen_back()
    found = again(only_command(decided(view, strategy=strategy, **ON)), view, strategy=strategy)

    assert isinstance(found, ValidCommand)
    assert found.memory.savings == ()
    assert [each.returned for each in found.memory.past] == [frozenset({"node-1"})]


def test_the_second_look_asks_for_stock_and_budgets() -> None:
    """A command does not hold once the preferred NodePool is sold out, or a budget has closed."""
    command = only_command(decided(fallen_back(), **ON))
    gone = again(command, fallen_back(), market(sold_out(MARKET.types)))
    shut = again(command, fallen_back(spare={"budgets": (Budget(nodes="0"),)}))

    assert isinstance(gone, InvalidCommand)
    assert isinstance(shut, InvalidCommand)
    assert (gone.why, shut.why) == ("scheduling", "budget")
    assert "pod default/web-1 would have no other place now" in gone.message


def test_a_saving_is_remembered_as_one() -> None:
    """Only going back counts as such."""
    view = cluster(pool(), machine("node-1", "large"), pod("web-0", "node-1"))
    found = again(only_command(decided(view)), view)

    assert isinstance(found, ValidCommand)
    assert [each.pool for each in found.memory.savings] == ["default"]
    assert [each.returned for each in found.memory.past] == [frozenset()]


def test_going_back_is_remembered_longer_than_other_commands() -> None:
    """A command is forgotten after an hour, but hours later it is still known that pods went back."""
    view = fallen_back()
    found = again(only_command(decided(view, **ON)), view)
    assert isinstance(found, ValidCommand)
    (past,) = found.memory.past
    other = msgspec.structs.replace(past, returned=frozenset())
    memory = DisruptionMemory(past=(past, other))

    def kept(after: timedelta, kept_for: timedelta = 60 * MINUTE) -> list[bool]:
        later = memory.after(found.command, found.candidates, NOW + after, kept_for=kept_for).past[:-1]
        return [bool(each.returned) for each in later]

    assert kept(59 * MINUTE) == [True, False]
    assert kept(60 * MINUTE) == [True]
    assert kept(RETURN_HOLD) == []
    assert kept(RETURN_HOLD, 2 * RETURN_HOLD) == [True, False]


def test_a_return_that_failed_was_none() -> None:
    """A command whose replacement was not launched does not hold nodes that are bought later."""
    went = returned(NOW, claims=("node-1", "node-2"))
    memory = DisruptionMemory(past=(went, returned(NOW, claims=("node-3",))))
    finished = [FinishedCommand(failed=frozenset({"node-1"}))]
    found = observe(fallen_back(), memory, now=NOW, finished=finished).memory

    assert [each.returned for each in found.past] == [frozenset({"node-2"}), frozenset({"node-3"})]
    assert found.past[1] is memory.past[1]
    assert found.failed["node-1"].__class__ is RestPeriod


def test_users_are_told_where_pods_go_back_to() -> None:
    """The Event of the node names the NodePool."""
    (message,) = {effect.message for effect in _announced(decided(fallen_back(), **ON))}
    about = "Underutilized/0001: replace: nodepools=[spare]: [node-1] -> [1 replacement(s)] (savings: $0.00)"

    assert message == f"{about}, back to NodePool best"
