"""One pass of disruption: which machines go, and what holds the others."""

from __future__ import annotations

import msgspec
import pytest

from karpenter.api.capacitybuffer import CapacityBuffer, CapacityBufferSpec, PodTemplateReference
from karpenter.api.labels import INITIALIZED, INSTANCE_TYPE, NODES, POD_DELETION_COST
from karpenter.api.meta import Condition, ObjectMeta, Resource
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodepool import NodePool, PoolRequirement
from karpenter.api.pod import PodCondition, PodStatus, PodTemplate, PodTemplateSpec
from karpenter.core.disruption.balanced import PoolTotals, balance
from karpenter.core.disruption.cost import eviction_cost, price_of
from karpenter.core.disruption.disrupt import UNEXPLAINED
from karpenter.core.model.catalog import Catalog
from karpenter.core.scheduling.build.policy import SchedulingPolicy
from karpenter.core.state.statenode import state_nodes
from tests.unit.core.disruption.clusters import MARKET, NOW, cluster, decided, held, kind, machine, pod, pool


@pytest.mark.parametrize(
    ("cost", "priority", "expected"),
    [
        pytest.param(None, None, 1.0, id="an ordinary pod"),
        pytest.param("2147483647", None, 10.0, id="the dearest pod"),
        pytest.param("-2147483647", None, -10.0, id="the cheapest pod"),
        pytest.param(None, 2000001000, 10.0, id="a node-critical pod"),
        pytest.param("soon", None, 1.0, id="a cost that is no number is ignored"),
    ],
)
def test_eviction_cost(cost: str | None, priority: int | None, expected: float) -> None:
    """Deletion cost and priority make a pod dearer to evict, within bounds."""
    found = pod("web-0", annotations={POD_DELETION_COST: cost} if cost else {})
    found = msgspec.structs.replace(found, spec=msgspec.structs.replace(found.spec, priority=priority))

    assert eviction_cost(found) == expected


def test_a_machine_without_price_is_kept() -> None:
    """A node without a known price is never consolidated."""
    view = cluster(pool(), machine("node-1", "xlarge", zone="zone-9"), pod("web-0", "node-1"))
    (node,) = state_nodes(view)

    assert price_of(node, MARKET) is None
    assert decided(view, static_capacity=True).commands == ()


def test_a_machine_without_capacity_type_has_no_price_to_compare() -> None:
    """A node that does not say how it was bought is kept."""
    view = cluster(pool(ways=()), machine("node-1", "xlarge", bought=""), pod("web-0", "node-1"))

    assert held(decided(view)) == {"node-1": "Unpriced"}


def test_spot_machines_merge_into_one_spot_machine() -> None:
    """Several spot machines become one, with the gate, whatever the number of cheaper types."""
    view = cluster(
        pool(ways=("spot",)),
        *(machine(f"node-{n}", "large", bought="spot") for n in range(2)),
        *(pod(f"web-{n}", f"node-{n}", cpu="1500m") for n in range(2)),
    )

    (command,) = decided(view, spot_to_spot=True).commands

    assert set(command.candidates) == {"node-0", "node-1"} or command.decision == "delete"
    assert command.saving > 0


def test_spot_is_not_replaced_by_spot_without_the_gate() -> None:
    """The gate SpotToSpotConsolidation is closed by default."""
    view = cluster(pool(ways=("spot",)), machine("node-1", "xlarge", bought="spot"), pod("web-0", "node-1"))

    assert held(decided(view)) == {"node-1": "SpotToSpotDisabled"}


def test_one_spot_machine_needs_fifteen_cheaper_types() -> None:
    """With few cheaper types a replaced spot machine would soon be replaced again."""
    view = cluster(pool(ways=("spot",)), machine("node-1", "xlarge", bought="spot"), pod("web-0", "node-1"))

    assert held(decided(view, spot_to_spot=True)) == {"node-1": "NoSaving"}


def test_no_spot_type_is_cheaper_than_the_cheapest() -> None:
    """A small spot machine stays: nothing is cheaper."""
    view = cluster(pool(ways=("spot",)), machine("node-1", "small", bought="spot"), pod("web-0", "node-1"))

    assert held(decided(view, spot_to_spot=True)) == {"node-1": "NoSaving"}


def test_one_machine_becomes_two() -> None:
    """A machine may be replaced by several when that is cheaper."""
    market = Catalog(types=(kind("small", 2, 0.1), kind("huge", 64, 6.4)))
    view = cluster(
        pool(),
        machine("node-1", "huge"),
        pod("web-0", "node-1", cpu="1500m"),
        pod("web-1", "node-1", cpu="1500m"),
    )

    (command,) = decided(view, market=market, strategy="global").commands

    assert len(command.replacements) == 2
    assert {name for node in command.replacements for name in node.instance_types} == {"small"}


def test_the_classic_strategy_replaces_by_one_machine_at_most() -> None:
    """With the classic order a machine whose pods need two new ones stays."""
    market = Catalog(types=(kind("small", 2, 0.1), kind("huge", 64, 6.4)))
    view = cluster(
        pool(),
        machine("node-1", "huge"),
        pod("web-0", "node-1", cpu="1500m"),
        pod("web-1", "node-1", cpu="1500m"),
    )

    assert decided(view, market=market, strategy="classic").commands == ()


@pytest.mark.parametrize("strategy", ["global", "classic"])
def test_a_search_that_is_stopped_finds_nothing(strategy: str) -> None:
    """The search can be stopped at any time; what was not found is not invented."""
    view = cluster(pool(), machine("node-1", "xlarge"), pod("web-0", "node-1"))

    assert decided(view, strategy=strategy, stop=lambda: True, explain=0).commands == ()


def test_machines_that_stay_are_explained_up_to_a_number() -> None:
    """For large clusters it is not worked out for every machine what it would cost elsewhere."""
    view = cluster(pool(), machine("node-1", "small"), pod("web-0", "node-1"))

    (kept,) = decided(view, explain=0).kept

    assert (kept.code, kept.message) == ("NoSaving", UNEXPLAINED)


def test_what_was_explained_lately_is_not_again() -> None:
    """A machine of which it is known why it stays does not count among those that are explained."""
    view = cluster(
        pool(),
        *(machine(f"node-{at}", "small") for at in (1, 2)),
        *(pod(f"a-{at}", f"node-{at}", cpu="2") for at in (1, 2)),
    )

    first, second = decided(view, explain=1, explained=frozenset({"node-1"}), stop=lambda: True).kept

    assert first.message == UNEXPLAINED
    assert second.message != UNEXPLAINED


@pytest.mark.parametrize(
    ("waiting", "explained"),
    [pytest.param(19, 2, id="few pods wait"), pytest.param(40, 1, id="many pods wait")],
)
def test_fewer_machines_are_explained_while_pods_wait(waiting: int, explained: int) -> None:
    """Each explanation is a simulation with all pods that wait, and the provisioner waits for its end."""
    unscheduled = PodStatus(
        conditions=(PodCondition(type="PodScheduled", status="False", reason="Unschedulable"),)
    )
    view = cluster(
        pool(),
        *(machine(f"node-{at}", "small") for at in (1, 2)),
        *(pod(f"a-{at}", f"node-{at}", cpu="2") for at in (1, 2)),
        *(msgspec.structs.replace(pod(f"b-{at}"), status=unscheduled) for at in range(waiting)),
    )

    kept = decided(view, explain=2, stop=lambda: True).kept

    assert sum(each.message != UNEXPLAINED for each in kept) == explained


def test_an_empty_machine_that_holds_room_for_a_buffer_stays() -> None:
    """Room that a CapacityBuffer holds is not empty."""
    view = cluster(pool(), machine("node-1", "small"))

    assert held(decided(view, buffered=frozenset({"node-1"}))) == {"node-1": "CapacityBuffer"}


def test_a_machine_whose_claim_was_made_for_a_buffer_stays() -> None:
    """A claim is known to hold room before its node has joined, and keeps it under the name of the node."""
    node, claim = machine("node-1", "small")
    renamed = msgspec.structs.replace(
        claim, metadata=msgspec.structs.replace(claim.metadata, name="default-abcde")
    )
    view = cluster(pool(), node, renamed)

    assert held(decided(view, buffered=frozenset({"default-abcde"}))) == {"node-1": "CapacityBuffer"}
    assert decided(view).commands[0].candidates == ("node-1",)


def starting(name: str, size: str = "medium") -> list[Resource]:
    """Return a machine whose node is not initialized yet."""
    node, claim = machine(name, size)
    labels = {key: value for key, value in node.metadata.labels.items() if key != INITIALIZED}
    assert isinstance(claim, NodeClaim)
    conditions = tuple(each for each in claim.status.conditions if each.type != "Initialized")
    return [
        msgspec.structs.replace(node, metadata=msgspec.structs.replace(node.metadata, labels=labels)),
        msgspec.structs.replace(
            claim,
            metadata=msgspec.structs.replace(claim.metadata, labels=labels),
            status=msgspec.structs.replace(claim.status, conditions=conditions),
        ),
    ]


def test_nothing_is_replaced_for_pods_that_a_starting_machine_would_take() -> None:
    """A replacement that never becomes ready gets no second one beside it."""
    alone = cluster(pool(), machine("node-1", "xlarge"), pod("web-0", "node-1"))
    beside = cluster(pool(), machine("node-1", "xlarge"), pod("web-0", "node-1"), starting("node-2", "small"))

    assert len(decided(alone).commands) == 1
    assert decided(beside).commands == ()
    (kept, _) = decided(beside).kept
    assert "node-2, where it would run, is not initialized yet" in kept.message


def test_pods_that_fit_on_initialized_machines_do_not_wait_for_starting_ones() -> None:
    """Where no replacement is needed, a starting machine is no reason to keep another."""
    view = cluster(
        pool(),
        machine("node-1"),
        machine("node-3"),
        pod("web-0", "node-1"),
        pod("web-1", "node-3", cpu="100m"),
        starting("node-2", "small"),
    )

    (command,) = decided(view).commands
    assert command.replacements == ()
    assert "node-2" not in command.moves.values()


def test_a_machine_whose_replacement_failed_is_left_alone_for_a_while() -> None:
    """It is neither consolidated nor replaced for drift until its rest is over; it says when that is."""
    drifted = Condition(type="Drifted", status="True", reason="NodePoolDrifted", last_transition_time=NOW)
    wasteful = cluster(pool(), machine("node-1", "xlarge"), pod("web-0", "node-1"))
    outdated = cluster(pool(), machine("node-1", conditions=[drifted]), pod("web-0", "node-1"))

    for view in (wasteful, outdated):
        assert len(decided(view).commands) == 1
        decision = decided(view, failed=frozenset({"node-1"}))
        assert held(decision) == {"node-1": "Resting"}
        assert "did not become ready; it is tried again at" in decision.kept[0].message


def test_buffers_take_part_in_simulations() -> None:
    """A machine is not removed when its room is needed for a buffer and nothing cheaper would do."""
    template = PodTemplate(
        metadata=ObjectMeta(name="spare", namespace="default"),
        template=PodTemplateSpec(spec=pod("spare-0", cpu="1500m").spec),
    )
    buffer = CapacityBuffer(
        metadata=ObjectMeta(name="spare", namespace="default"),
        spec=CapacityBufferSpec(pod_template_ref=PodTemplateReference(name="spare"), replicas=1),
    )
    view = cluster(
        pool(),
        template,
        buffer,
        machine("node-1", "small"),
        machine("node-2", "small"),
        pod("web-0", "node-1", cpu="600m"),
    )

    verdict = decided(view, policy=SchedulingPolicy(buffers=True), buffered=frozenset({"node-2"}))

    assert verdict.commands == ()


def test_a_pod_that_could_not_be_placed_anywhere_holds_its_machine() -> None:
    """A pod whose selector only we may set is turned away before any node is looked at."""
    stuck = pod("web-0", "node-1")
    stuck = msgspec.structs.replace(
        stuck, spec=msgspec.structs.replace(stuck.spec, node_selector={"kubernetes.io/hostname": "node-1"})
    )
    view = cluster(pool(), machine("node-1", "xlarge"), stuck)

    assert held(decided(view)) == {"node-1": "CannotMove"}


def _static(replicas: int, *, requirement: str = "on-demand", limit: int | None = None) -> NodePool:
    base = pool()
    template = msgspec.structs.replace(
        base.spec.template.spec,
        requirements=(
            PoolRequirement(key="karpenter.sh/capacity-type", operator="In", values=(requirement,)),
        ),
    )
    spec = msgspec.structs.replace(
        base.spec,
        replicas=replicas,
        limits={NODES: limit} if limit is not None else {},
        template=msgspec.structs.replace(base.spec.template, spec=template),
    )
    return msgspec.structs.replace(base, spec=spec)


def test_a_static_pool_exchanges_one_for_one() -> None:
    """A drifted machine of a static pool is replaced by another before it goes."""
    (command,) = decided(
        cluster(_static(1, requirement="spot"), machine("node-1")), static_capacity=True
    ).commands

    assert (command.reason, command.candidates, len(command.replacements)) == ("Drifted", ("node-1",), 1)


@pytest.mark.parametrize(
    ("limit", "code"),
    [pytest.param(3, None, id="room for one more"), pytest.param(2, "NodeLimit", id="no room")],
)
def test_a_static_pool_needs_room_for_what_replaces(limit: int, code: str | None) -> None:
    """Both nodes run for a while, so the limit must leave one more than there are."""
    view = cluster(_static(2, requirement="spot", limit=limit), machine("node-1"), machine("node-2"))

    verdict = decided(view, static_capacity=True)

    assert len(verdict.commands) == (0 if code else 1)
    assert code is None or set(held(verdict).values()) == {code}


def test_a_static_pool_that_can_buy_nothing_exchanges_nothing() -> None:
    """Without a type to launch a drifted machine stays, and says so."""
    verdict = decided(
        cluster(_static(1, requirement="spot"), machine("node-1")),
        market=Catalog(types=(kind("medium", 4, 0.2, sold=("on-demand",)),)),
        static_capacity=True,
    )

    assert (verdict.commands, held(verdict)) == ((), {"node-1": "NoInstanceTypes"})


@pytest.mark.parametrize(
    ("saving", "cost", "totals", "expected"),
    [
        pytest.param(7.26, 3.0, PoolTotals(58.08, 80.0), 3.33, id="much saved for little"),
        pytest.param(2.42, 8.0, PoolTotals(58.08, 80.0), 0.42, id="little saved for much"),
        pytest.param(-1.0, 1.0, PoolTotals(10.0, 10.0), 0.0, id="less than nothing saved"),
        pytest.param(0.0, 0.0, PoolTotals(10.0, 10.0), 0.0, id="nothing saved, and nothing moved"),
        pytest.param(1.0, 0.0, PoolTotals(10.0, 10.0), float("inf"), id="nothing moved"),
        pytest.param(1.0, 1.0, PoolTotals(10.0, 10.0), 1.0, id="a tenth saved for a tenth"),
        pytest.param(1.0, 1.0, PoolTotals(1.0, 1.0), 1.0, id="all saved for all"),
        pytest.param(1.0, 1.0, PoolTotals(0.0, 10.0), 0.0, id="a pool without price"),
        pytest.param(1.0, 1.0, PoolTotals(10.0, 0.0), 0.0, id="a pool without anything to move"),
    ],
)
def test_balance(saving: float, cost: float, totals: PoolTotals, expected: float) -> None:
    """A move scores the share it saves per share it disrupts."""
    assert balance(saving, cost, totals) == pytest.approx(expected, abs=0.005)


def test_a_replacement_keeps_the_least_choice_of_types() -> None:
    """With minValues a replacement must leave enough types that are cheaper."""
    base = pool()
    many = PoolRequirement(key=INSTANCE_TYPE, operator="Exists", min_values=4)
    template = msgspec.structs.replace(
        base.spec.template.spec, requirements=(many, *base.spec.template.spec.requirements)
    )
    spec = msgspec.structs.replace(
        base.spec, template=msgspec.structs.replace(base.spec.template, spec=template)
    )
    view = cluster(
        msgspec.structs.replace(base, spec=spec),
        machine("node-1", "xlarge"),
        pod("web-0", "node-1", cpu="500m"),
    )

    assert decided(view, explain=0).commands == ()
