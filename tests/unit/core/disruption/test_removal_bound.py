"""What the going of machines can save at most: it is never less than what a simulation finds."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from karpenter.api.nodepool import Budget
from karpenter.api.pod import PodCondition, PodStatus
from karpenter.core.disruption.command import Command
from karpenter.core.disruption.consolidation import Consolidation
from karpenter.core.disruption.sweep import ClusterSweep, RemovalBound
from tests.unit.core.disruption.clusters import SIZES, cluster, decided, machine, pod, pool
from tests.unit.core.disruption.test_simulate import simulation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karpenter.api.meta import Resource
    from karpenter.core.disruption.candidates import Candidate
    from karpenter.core.disruption.disrupt import DisruptionDecision
    from karpenter.core.state.cluster import ClusterView

FEW = range(20)
MANY = range(20, 500)
UNSCHEDULED = PodStatus(
    conditions=(PodCondition(type="PodScheduled", status="False", reason="Unschedulable"),)
)


def random_cluster(seed: int) -> ClusterView:
    """Return a cluster of a few machines, each filled to some part, and sometimes with pods that wait."""
    chance = Random(seed)  # noqa: S311  the same for everyone
    policy = chance.choice(["WhenEmptyOrUnderutilized"] * 3 + ["Balanced"])
    budget = Budget(nodes=chance.choice(["100%", "100%", "50%", "1"]))
    ways = chance.choice([("on-demand",), ("on-demand", "spot")])
    parts: list[Any] = [pool(ways=ways, consolidation_policy=policy, budgets=(budget,))]
    for number in range(chance.randint(1, 9)):
        size, name = chance.choice(list(SIZES)), f"node-{number}"
        bought = chance.choice(ways)
        parts.append(machine(name, size, zone=chance.choice(["zone-1", "zone-2"]), bought=bought))
        left, at = SIZES[size] * chance.choice([200, 500, 900, 1000]), 0
        while left >= 250:
            cpu = min(left, chance.choice([250, 500, 1000, 1900, 3500]))
            parts.append(pod(f"web{number}-{at}", name, cpu=f"{cpu}m"))
            left, at = left - cpu, at + 1
    late = (pod(f"late-{number}", cpu="700m") for number in range(chance.choice([0, 0, 0, 3])))
    parts.extend(msgspec.structs.replace(each, status=UNSCHEDULED) for each in late)
    flat: list[Resource | list[Resource]] = parts
    return cluster(*flat)


def saved(found: DisruptionDecision) -> float:
    """Return what all commands of a decision save."""
    return sum(command.saving for command in found.commands)


@pytest.mark.parametrize(
    "seeds", [pytest.param(FEW, id="few"), pytest.param(MANY, id="many", marks=pytest.mark.long)]
)
def test_a_bound_costs_no_savings(seeds: range, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the bound as much is saved as without any, but for the order in which sets are packed by price."""
    found = {seed: decided(random_cluster(seed), strategy="global") for seed in seeds}
    asked = [0]

    def unbounded(self: RemovalBound, candidates: Sequence[Candidate]) -> float:
        del self, candidates
        asked[0] += 1
        return 0.0

    monkeypatch.setattr(RemovalBound, "least_launched", unbounded)
    exact = {seed: decided(random_cluster(seed), strategy="global") for seed in seeds}

    assert sum(map(saved, found.values())) >= 0.99 * sum(map(saved, exact.values()))
    assert {seed: each.rejected for seed, each in found.items()} == {
        seed: each.rejected for seed, each in exact.items()
    }
    assert asked[0]


def test_no_simulation_saves_more_than_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every answer saves at most what the bound allows, before and after it is known what is launched."""
    bounds: list[RemovalBound] = []
    launched: dict[tuple[str, ...], frozenset[str]] = {}
    begin, answer, checked = RemovalBound.__init__, Consolidation._answer, [0]

    def begun(self: RemovalBound, sweep: ClusterSweep) -> None:
        begin(self, sweep)
        bounds.append(self)
        launched.clear()

    def compared(self: Consolidation, candidates: Sequence[Candidate], *, by_price: bool) -> Any:
        found = answer(self, candidates, by_price=by_price)
        names = tuple(candidate.name for candidate in candidates)
        if not by_price:
            launched[names] = found.pods
        if bounds and isinstance(found.found, Command):
            paid = sum(candidate.price or 0.0 for candidate in candidates)
            assert found.found.saving <= paid - bounds[-1].least_launched(candidates) + 1e-9
            if names in launched:
                least = bounds[-1].least_paid(bounds[-1].classes_of(launched[names]))
                assert found.found.saving <= paid - least + 1e-9
                checked[0] += by_price
        return found

    monkeypatch.setattr(RemovalBound, "__init__", begun)
    monkeypatch.setattr(Consolidation, "_answer", compared)
    for seed in FEW:
        bounds.clear()
        decided(random_cluster(seed), strategy="global")

    assert checked[0]


def test_where_nothing_is_sold_to_pods_the_bound_is_what_is_paid_now() -> None:
    """Nothing can be launched for pods that want a label which no instance type has."""
    picky = [pod(f"web-{at}", f"node-{at}") for at in (1, 2)]
    specs = [
        msgspec.structs.replace(each.spec, node_selector={"example.com/special": "yes"}) for each in picky
    ]
    picky = [msgspec.structs.replace(each, spec=spec) for each, spec in zip(picky, specs, strict=True)]
    view = cluster(pool(), *(machine(f"node-{at}", "small") for at in (1, 2)), *picky)
    simulator, candidates = simulation(view)
    bound = RemovalBound(ClusterSweep(simulator.encoded(), candidates))

    assert bound.least_launched(candidates) == 0.0
    assert not decided(view).commands


def test_a_machine_whose_pods_need_no_place_may_save_its_whole_price() -> None:
    """The bound of a machine that a sweep does not know, or that holds no pod that could move."""
    view = cluster(pool(), machine("node-1", "small"), pod("web-0", "node-1"))
    simulator, candidates = simulation(view)
    bound = RemovalBound(ClusterSweep(simulator.encoded(), []))

    assert bound.least_launched(candidates) == 0.0
    assert bound.least_paid(bound.classes_of(["default/of-another-cluster"])) == 0.0
