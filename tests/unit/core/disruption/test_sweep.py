"""Looking at every machine at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from karpenter.api.labels import DO_NOT_DISRUPT, HOSTNAME, INSTANCE_TYPE, ZONE
from karpenter.api.meta import LabelSelector
from karpenter.api.nodepool import Budget, PoolRequirement
from karpenter.api.pod import Affinity, Pod, PodAffinity, PodAffinityTerm, TopologySpreadConstraint
from karpenter.core.model.catalog import Catalog
from tests.unit.core.disruption.clusters import cluster, decided, held, kind, machine, pod, pool

if TYPE_CHECKING:
    from karpenter.core.state.cluster import ClusterView


def _spaced(name: str, node: str, app: str, *, key: str, cpu: str = "1", **spec: Any) -> Pod:
    """Return a pod that keeps away from pods of its own kind, by anti-affinity over a key."""
    selector = LabelSelector(match_labels={"app": app})
    term = PodAffinityTerm(topology_key=key, label_selector=selector)
    apart = Affinity(
        pod_anti_affinity=PodAffinity(required_during_scheduling_ignored_during_execution=(term,))
    )
    found = pod(name, node, cpu=cpu, labels={"app": app})
    return msgspec.structs.replace(found, spec=msgspec.structs.replace(found.spec, affinity=apart, **spec))


def _in_zone(found: Pod, zone: str) -> Pod:
    return msgspec.structs.replace(
        found, spec=msgspec.structs.replace(found.spec, node_selector={ZONE: zone})
    )


def _fleet(count: int, *, cpu: str = "500m", budget: str = "100%") -> ClusterView:
    return cluster(
        pool(budgets=(Budget(nodes=budget),)),
        *(machine(f"node-{n:02}", zone=f"zone-{n % 2 + 1}") for n in range(count)),
        *(pod(f"web-{n}", f"node-{n:02}", cpu=cpu) for n in range(count)),
    )


def test_a_slack_fleet_is_packed_together() -> None:
    """Sixty machines with one small pod each: most of them go at once, and no pod is left behind."""
    (command,) = decided(_fleet(60), explain=0).commands

    assert len(command.candidates) > 40
    assert set(command.moves.values()).isdisjoint(command.candidates)
    assert command.pods_moved == len(command.candidates)


def test_a_budget_limits_what_goes() -> None:
    """No more machines go than the budget allows."""
    (command,) = decided(_fleet(60, budget="10%"), explain=0).commands

    assert len(command.candidates) == 6


def test_more_is_saved_than_in_the_classic_order() -> None:
    """Looking at all machines saves at least as much as a prefix of one ranking."""
    view = _fleet(50, cpu="900m")

    mine = decided(view, explain=0).commands[0].saving
    classic = decided(view, explain=0, strategy="classic").commands[0].saving

    assert mine >= classic


def test_pods_that_keep_apart_stay_apart() -> None:
    """Two pods that refuse each other's company never land on one machine."""
    view = cluster(
        pool(),
        machine("node-1", "small"),
        machine("node-2", "small"),
        machine("node-3", "small"),
        _spaced("web-0", "node-1", "web", key=HOSTNAME),
        _spaced("web-1", "node-2", "web", key=HOSTNAME),
        pod("other-0", "node-3"),
    )

    (command,) = decided(view).commands

    assert command.candidates == ("node-3",) or command.moves.get("default/web-0") == "node-3"
    assert len(set(command.moves.values())) == len(command.moves)


def test_pods_that_must_be_apart_need_a_machine_each() -> None:
    """Two pods on one machine that would not share a new one hold it."""
    view = cluster(
        pool(),
        machine("node-1", "small"),
        _spaced("web-0", "node-1", "web", key=HOSTNAME, cpu="500m"),
        _spaced("web-1", "node-1", "web", key=HOSTNAME, cpu="500m"),
    )

    assert decided(view).commands == ()


def test_pods_that_are_spread_stay_in_their_zone() -> None:
    """A pod that counts for a spread over zones moves within its zone."""
    selector = LabelSelector(match_labels={"app": "web"})
    spread = TopologySpreadConstraint(
        max_skew=1, topology_key=ZONE, when_unsatisfiable="DoNotSchedule", label_selector=selector
    )
    pods = []
    for number in range(4):
        found = pod(f"web-{number}", f"node-{number}", cpu="900m", labels={"app": "web"})
        spec = msgspec.structs.replace(found.spec, topology_spread_constraints=(spread,))
        pods.append(msgspec.structs.replace(found, spec=spec))
    view = cluster(
        pool(), *(machine(f"node-{n}", "small", zone=f"zone-{n % 2 + 1}") for n in range(4)), *pods
    )

    (command,) = decided(view).commands

    zones = {f"node-{n}": n % 2 for n in range(4)}
    homes = {f"default/web-{n}": n % 2 for n in range(4)}
    assert command.moves
    assert all(zones[node] == homes[name] for name, node in command.moves.items())


def test_a_key_that_a_node_lacks_is_no_domain() -> None:
    """Anti-affinity over a label that no node has does not break the sweep."""
    view = cluster(
        pool(), machine("node-1", "xlarge"), _spaced("web-0", "node-1", "web", key="example.com/rack")
    )

    assert decided(view).commands == ()


def test_pods_that_wait_keep_their_machines() -> None:
    """New machines that waiting pods need anyway are not charged to a saving."""
    view = cluster(
        pool(), machine("node-1", "xlarge"), pod("web-0", "node-1"), pod("waiting-0", cpu="15500m")
    )

    (command,) = decided(view).commands

    assert [node.purchase.instance_type for node in command.replacements] == ["small"]


def test_what_the_search_did_not_reach_is_said_so() -> None:
    """A saving that a stopped search did not find is not promised to the machine."""
    view = cluster(pool(), machine("node-1", "xlarge"), pod("web-0", "node-1"))

    assert held(decided(view, stop=lambda: True)) == {"node-1": "NoSaving"}


def test_several_replacements_keep_the_least_choice_of_types() -> None:
    """Where minValues cannot be kept for one of several new machines, nothing is done."""
    market = Catalog(types=(kind("small", 2, 0.1), kind("huge", 64, 6.4)))
    base = pool()
    many = PoolRequirement(key=INSTANCE_TYPE, operator="Exists", min_values=2)
    template = msgspec.structs.replace(
        base.spec.template.spec, requirements=(many, *base.spec.template.spec.requirements)
    )
    spec = msgspec.structs.replace(
        base.spec, template=msgspec.structs.replace(base.spec.template, spec=template)
    )
    view = cluster(
        msgspec.structs.replace(base, spec=spec),
        machine("node-1", "huge"),
        pod("web-0", "node-1", cpu="1500m"),
        pod("web-1", "node-1", cpu="1500m"),
    )

    assert decided(view, market=market).commands == ()


def test_what_no_longer_fits_stays() -> None:
    """Once the room is used up, machines whose pods would need a new one stay."""
    view = cluster(
        pool(),
        *(machine(f"node-{n:02}", "small") for n in range(48)),
        *(pod(f"web-{n}", f"node-{n:02}", cpu="900m") for n in range(48)),
    )

    (command,) = decided(view, explain=0).commands

    assert len(command.candidates) == 24


def test_a_pod_passes_by_machines_that_refuse_its_company() -> None:
    """The fullest machines are asked first, but a pod goes on to the first that takes it."""
    view = cluster(
        pool(),
        *(machine(f"node-{n:02}", "small") for n in range(40)),
        *(_spaced(f"web-{n}", f"node-{n:02}", "web", key=HOSTNAME, cpu="900m") for n in range(39)),
        pod("other-0", "node-39", cpu="100m"),
    )

    (command,) = decided(view, explain=0).commands

    assert len(command.candidates) == 1


def test_a_pool_that_cannot_hold_the_rest_is_passed_over() -> None:
    """The price of a new machine is asked of the first pool that has one large enough."""
    first = pool("first")
    template = msgspec.structs.replace(
        first.spec.template.spec,
        requirements=(PoolRequirement(key=INSTANCE_TYPE, operator="In", values=("small",)),),
    )
    spec = msgspec.structs.replace(
        first.spec, weight=10, template=msgspec.structs.replace(first.spec.template, spec=template)
    )
    view = cluster(
        msgspec.structs.replace(first, spec=spec),
        pool(),
        machine("node-1", "xlarge"),
        pod("web-0", "node-1", cpu="3"),
    )

    (command,) = decided(view).commands

    assert command.replacements[0].pool == "default"


def test_a_machine_that_lost_its_room_waits_for_better_ones() -> None:
    """When another has taken the free room, a machine is worth less and comes after those worth more."""
    guard = pod("guard-0", "node-c", annotations={DO_NOT_DISRUPT: "true"})
    view = cluster(
        pool(),
        machine("node-a", "large", zone="zone-2"),
        machine("node-b", "xlarge"),
        machine("node-c", "small", zone="zone-2"),
        machine("node-d", "large"),
        _in_zone(pod("a-0", "node-a", cpu="900m"), "zone-2"),
        pod("b-0", "node-b", cpu="900m"),
        guard,
        _in_zone(pod("d-0", "node-d", cpu="1900m"), "zone-1"),
    )

    commands = decided(view, explain=0).commands

    gone = [name for command in commands for name in command.candidates]
    assert sorted(gone) == ["node-a", "node-b", "node-d"]


@pytest.mark.parametrize("count", [3, 45])
def test_the_same_cluster_gets_the_same_answer(count: int) -> None:
    """The search is deterministic."""
    view = _fleet(count)

    assert decided(view).commands[0].candidates == decided(view).commands[0].candidates


def test_where_two_machines_together_are_too_much_the_better_one_goes() -> None:
    """The policy Balanced refuses both, since one moves many pods for little; without that one it pays."""
    view = cluster(
        pool(consolidation_policy="Balanced"),
        machine("cheap-to-empty", "medium"),
        pod("web-0", "cheap-to-empty", cpu="100m"),
        machine("crowded", "small"),
        *(pod(f"crowd-{number}", "crowded", cpu="10m") for number in range(30)),
        machine("roomy", "xlarge"),
        pod("base-0", "roomy", cpu="12"),
    )

    (command,) = decided(view).commands

    assert command.candidates == ("cheap-to-empty",)
    assert command.replacements == ()
