"""Leaving out of a question what cannot matter changes no answer."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from karpenter.api.labels import HOSTNAME, ZONE
from karpenter.api.meta import LabelSelector, Resource
from karpenter.api.pod import (
    Affinity,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from karpenter.core.disruption import simulate
from karpenter.core.disruption.candidates import find_candidates
from karpenter.core.disruption.command import UNDERUTILIZED, Command
from karpenter.core.disruption.simulate import RunningPods, Simulator
from karpenter.core.disruption.sweep import FreeResources, least_requests
from karpenter.core.scheduling.build.build import assemble
from karpenter.core.scheduling.build.policy import SchedulingPolicy
from karpenter.core.scheduling.problem import BoundPod, ExistingNode, Options, Problem
from karpenter.core.scheduling.solve import search, solve
from karpenter.core.state.pdb import PdbLimits
from karpenter.core.state.statenode import state_nodes
from tests.unit.core.disruption.clusters import MARKET, NOW, cluster, machine, pod, pool

if TYPE_CHECKING:
    import pytest

    from karpenter.core.scheduling.encode.encode import EncodedProblem
    from karpenter.core.state.cluster import ClusterView

APPS = ("red", "green", "blue")


def _company(kind: str, app: str) -> dict[str, Any]:
    """Return what of a pod's spec makes it look at others."""
    picks = LabelSelector(match_labels={"app": app})
    apart = PodAffinityTerm(topology_key=HOSTNAME, label_selector=picks)
    near = PodAffinityTerm(topology_key=ZONE, label_selector=picks)
    wished = WeightedPodAffinityTerm(weight=10, pod_affinity_term=apart)
    everyone = PodAffinityTerm(topology_key=HOSTNAME, label_selector=LabelSelector())
    spread = TopologySpreadConstraint(
        max_skew=1, topology_key=ZONE, when_unsatisfiable="DoNotSchedule", label_selector=picks
    )
    found: dict[str, dict[str, Any]] = {
        "alone": {},
        "apart": {
            "affinity": Affinity(
                pod_anti_affinity=PodAffinity(required_during_scheduling_ignored_during_execution=(apart,))
            )
        },
        "near": {
            "affinity": Affinity(
                pod_affinity=PodAffinity(required_during_scheduling_ignored_during_execution=(near,))
            )
        },
        "rather apart": {
            "affinity": Affinity(
                pod_anti_affinity=PodAffinity(preferred_during_scheduling_ignored_during_execution=(wished,))
            )
        },
        "apart from everyone": {
            "affinity": Affinity(
                pod_anti_affinity=PodAffinity(required_during_scheduling_ignored_during_execution=(everyone,))
            )
        },
        "spread": {"topology_spread_constraints": (spread,)},
    }
    return found[kind]


def _member(name: str, node: str, app: str, other: str, kind: str, *, cpu: str = "500m") -> Pod:
    base = pod(name, node, cpu=cpu, labels={"app": app})
    return msgspec.structs.replace(base, spec=msgspec.structs.replace(base.spec, **_company(kind, other)))


KINDS = st.sampled_from(("alone", "alone", "apart", "near", "rather apart", "apart from everyone", "spread"))
SIZES = st.sampled_from(("250m", "1", "2"))
PODS = st.tuples(st.integers(0, 4), st.sampled_from(APPS), st.sampled_from(APPS), KINDS, SIZES)


@given(
    found=st.lists(PODS, min_size=1, max_size=14),
    gone=st.sets(st.integers(0, 4), min_size=1, max_size=3),
    waits=st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_a_question_about_the_part_that_matters_has_the_answer_of_the_whole(
    found: list[tuple[int, str, str, str, str]], gone: set[int], waits: bool
) -> None:
    """Whatever runs in the cluster, pods go where the solver would put them with everything in view."""
    parts: list[Resource | list[Resource]] = [pool()]
    parts += [machine(f"n-{n}", "medium", zone=f"zone-{n % 2 + 1}") for n in range(5)]
    parts += [
        _member(f"p-{number}", f"n-{at}", app, other, kind, cpu=cpu)
        for number, (at, app, other, kind, cpu) in enumerate(found)
    ]
    if waits:
        parts.append(pod("waiting", cpu="1"))
    view = cluster(*parts)
    names = frozenset(f"n-{n}" for n in gone)

    outcome, expected = _asked(view, names), _oracle(view, names)

    assert (outcome.moves, [node.instance_types for node in outcome.plan.new_nodes]) == expected


def simulation(view: ClusterView, **more: Any) -> tuple[Simulator, list[Any]]:
    nodes, pdbs = state_nodes(view), PdbLimits(view)
    candidates = find_candidates(nodes, view, MARKET, pdbs, NOW).candidates
    simulator = Simulator(
        view,
        MARKET,
        nodes,
        pdbs,
        NOW,
        movable=candidates,
        quiet=frozenset(),
        options=Options(),
        policy=SchedulingPolicy(),
        **more,
    )
    return simulator, list(candidates)


def _asked(view: ClusterView, names: frozenset[str]) -> Any:
    simulator, candidates = simulation(view)
    return simulator.without([c for c in candidates if c.name in names])


def _oracle(view: ClusterView, names: frozenset[str]) -> tuple[dict[str, str], list[tuple[str, ...]]]:
    moving = [p for name in sorted(names) for p in view.pods_by_node.get(name, ())]
    pods = [p for p in view.pods.values() if not p.spec.node_name] + moving
    intake = assemble(
        view,
        MARKET,
        nodes=state_nodes(view),
        pods=pods,
        options=Options(packing="greedy", reserved="fallback"),
        policy=SchedulingPolicy(),
        moved=frozenset(p.key for p in moving),
        without=names,
    )
    plan = solve(intake.problem)
    keys = {p.key for p in moving}
    moves = {key: node for node, placed in plan.placed.items() for key in placed if key in keys}
    return moves, [node.instance_types for node in plan.new_nodes]


def test_company_is_found_by_labels_and_by_refusals() -> None:
    """A pod meets those that its selectors pick, and those that refuse it; no others."""
    running = [
        BoundPod(_member("red-1", "n-1", "red", "red", "alone"), "n-1"),
        BoundPod(_member("green-1", "n-1", "green", "red", "apart"), "n-1"),
        BoundPod(_member("blue-1", "n-2", "blue", "blue", "apart"), "n-2"),
        BoundPod(_member("gone-1", "n-2", "red", "red", "alone"), "n-2"),
    ]
    asking = _member("red-2", "", "red", "red", "spread")

    found = RunningPods(running, {}).of([asking], but=frozenset({"default/gone-1"}))

    assert [each.pod.metadata.name for each in found] == ["red-1", "green-1"]


def test_company_that_moved_is_found_where_it_went() -> None:
    """A command that comes before counts: its pods are where they will be."""
    running = [BoundPod(_member("red-1", "n-1", "red", "red", "alone"), "n-1")]
    asking = _member("red-2", "", "red", "red", "spread")

    (found,) = RunningPods(running, {}).of([asking], but=frozenset(), moved={"default/red-1": "n-9"})

    assert found.node == "n-9"


def test_spreads_by_default_pick_company_too() -> None:
    """A pod that states no spread follows the default one, and so meets whom that picks."""
    running = [BoundPod(_member("red-1", "n-1", "red", "red", "alone"), "n-1")]
    asking = _member("blue-1", "", "blue", "blue", "alone")
    spreads = _company("spread", "red")["topology_spread_constraints"]

    assert RunningPods(running, {}).of([asking], but=frozenset()) == ()
    assert RunningPods(running, {asking.key: spreads}).of([asking], but=frozenset()) == tuple(running)


def test_a_pod_that_selects_any_pod_meets_all_of_them() -> None:
    """A selector that names no label can mean everyone, and so can a refusal."""
    running = [
        BoundPod(_member("red-1", "n-1", "red", "red", "alone"), "n-1"),
        BoundPod(_member("green-1", "n-1", "green", "green", "apart from everyone"), "n-1"),
    ]
    picky = _member("blue-1", "", "blue", "blue", "apart from everyone")
    plain = _member("blue-2", "", "blue", "blue", "alone")
    company = RunningPods(running, {})

    assert company.of([picky], but=frozenset({"default/red-1"})) == (running[1],)
    assert company.of([plain], but=frozenset()) == (running[1],)


def test_only_machines_with_room_for_the_least_are_asked() -> None:
    """A machine that lacks any resource of the smallest demand, or is overdrawn, takes no pod."""
    free = [
        {"cpu": 500, "memory": 5, "pods": 1},
        {"cpu": 5000, "memory": -1, "pods": 1},
        {"cpu": 5000, "memory": 5, "pods": 1, "gpu": 1},
        {"cpu": 5000, "memory": 5, "pods": 1},
    ]
    rooms = FreeResources([ExistingNode(name=f"n-{n}", labels={}, free=each) for n, each in enumerate(free)])

    assert rooms.with_room({"cpu": 1000}, without=frozenset()) == [2, 3]
    assert rooms.with_room({"cpu": 1000, "gpu": 1}, without=frozenset()) == [2]
    assert rooms.with_room({}, without={"n-3", "unknown"}) == [0, 2]
    full = FreeResources([ExistingNode(name="n", labels={}, free={"cpu": 1, "memory": 0, "pods": 0})])
    assert full.with_room({"cpu": 1}, without=frozenset()) == [0]
    assert full.with_room({"cpu": 1, "memory": 1}, without=frozenset()) == []


def test_the_least_of_several_demands() -> None:
    """What one pod does not request, is not requested by all."""
    assert least_requests([{"cpu": 2, "gpu": 1}, {"cpu": 1}]) == {"cpu": 1}
    assert least_requests([]) == {}


def _searched(monkeypatch: pytest.MonkeyPatch) -> list[Problem]:
    found: list[Problem] = []

    def noted(problem: Problem, like: EncodedProblem | None) -> Any:
        found.append(problem)
        return search(problem, like)

    monkeypatch.setattr(simulate, "search", noted)
    return found


def test_a_question_is_packed_greedily_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Packing by price goes on from there; other machines, or another cluster, are another question."""
    parts = [machine(f"n-{n}", "medium") for n in range(3)]
    view = cluster(pool(), *parts, *(pod(f"p-{n}", f"n-{n}", cpu="3") for n in range(3)))
    simulator, (one, two, three) = simulation(view)
    searched = _searched(monkeypatch)

    greedy = simulator.without([one, two])
    again = simulator.without([two, one], by_price=True)
    assert len(searched) == 1
    assert {each.options.packing for each in searched} == {"greedy"}
    assert {each.options.effort for each in searched} == {2}
    assert sum(node.purchase.price for node in again.replacements) <= sum(
        node.purchase.price for node in greedy.replacements
    )

    simulator.without([three])
    assert len(searched) == 2
    later = simulator.after(Command(reason=UNDERUTILIZED, candidates=("n-2",), replacements=()))
    assert later is not None
    later.without([one, two])
    assert len(searched) == 3
    simulator.without([one, two])
    assert len(searched) == 3


def test_so_many_greedy_schedules_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thirty-two questions are; the next one takes the place of all."""
    view = cluster(pool(), *(machine(f"n-{n}", "small") for n in range(6)), pod("p", "n-0"))
    simulator, candidates = simulation(view)
    searched = _searched(monkeypatch)
    asked = [list(each) for size in (1, 2, 3) for each in combinations(candidates, size)][:33]

    for each in (*asked[:32], *asked[:32]):
        simulator.without(each)
    assert len(searched) == 32
    simulator.without(asked[32])
    simulator.without(asked[31])
    assert len(searched) == 34


def test_simulations_share_templates_with_the_whole_cluster() -> None:
    """Once that is encoded, which is done once; a NodePool with other limits has its own."""
    view = cluster(pool(), machine("n-0", "medium"), machine("n-1", "small"), pod("p-0", "n-0"))
    simulator, (one, _) = simulation(view)

    before, _ = simulator._schedule([one], frozenset({"default/p-0"}), frozenset())
    whole = simulator.encoded()
    assert simulator.encoded() is whole
    assert before.templates is not whole.templates
    after, _ = simulator._schedule([one], frozenset({"default/p-0"}), frozenset({"n-1"}))
    assert after.templates is whole.templates
    assert simulator.within(frozenset()).encoded() is whole


def test_pods_with_a_destination_do_not_wait_for_a_place() -> None:
    """Of two pods on a node that is being deleted, one was promised the room of another node."""
    view = cluster(pool(), machine("n-0"), machine("n-1", "small"), *(pod(f"p-{n}", "n-0") for n in range(2)))
    view = msgspec.structs.replace(view, marked=frozenset({"n-0"}))

    simulator, _ = simulation(view, destinations={"default/p-0": "n-1"})

    assert [each.key for each in simulator._cluster.waiting] == ["default/p-1"]
    assert [each.free["cpu"] for each in simulator._cluster.problem.nodes] == [1000]
