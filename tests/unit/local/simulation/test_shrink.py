"""Scripts that are cut down to what matters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from karpenter_local.simulation.actions import AddPool
from karpenter_local.simulation.faults import CutWatches, Drift, SellOut
from karpenter_local.simulation.invariants.invariant import Violation
from karpenter_local.simulation.run import RunResult
from karpenter_local.simulation.scenario import Scenario, generate
from karpenter_local.simulation.shrink import shrink

if TYPE_CHECKING:
    from collections.abc import Callable


def result(*rules: str) -> RunResult:
    """Return a run that violated some invariants."""
    found = tuple(Violation(at=0.0, rule=rule, what="it happened") for rule in rules)
    return RunResult(seed=1, violations=found, digest="", writes=0, seconds=0.0, machines=0)


def fails_with(*needed: type) -> Callable[[Scenario], RunResult]:
    """Return runs in which a scenario fails if it has a step of each of these kinds."""

    def run_scenario(scenario: Scenario) -> RunResult:
        kinds = {type(step) for step in scenario.steps}
        return result("budgets") if set(needed) <= kinds else result("limits")

    return run_scenario


@pytest.mark.parametrize(
    ("needed", "left"),
    [
        pytest.param((), {AddPool}, id="nothing matters but the pools"),
        pytest.param((SellOut,), {AddPool, SellOut}, id="one fault matters"),
        pytest.param((Drift, CutWatches), {AddPool, Drift, CutWatches}, id="two faults matter together"),
    ],
)
def test_only_what_matters_is_left(needed: tuple[type, ...], left: set[type]) -> None:
    """Steps without which the same rule is violated are left out; pools are kept."""
    scenario = generate(5, hours=2, severity="many")
    assert set(needed) <= {type(step) for step in scenario.steps}

    shortest = shrink(scenario, "budgets", fails_with(*needed), attempts=300)

    assert {type(step) for step in shortest.steps} == left


def test_attempts_are_limited() -> None:
    """A scenario that cannot be cut down in time is left as short as it was found."""
    scenario = generate(5, hours=2, severity="many")
    runs: list[Scenario] = []

    def run_scenario(shorter: Scenario) -> RunResult:
        runs.append(shorter)
        return result("limits")

    assert shrink(scenario, "budgets", run_scenario, attempts=3) == scenario
    assert len(runs) == 3


def test_the_same_seed_writes_the_same_script() -> None:
    """A scenario depends on nothing but its seed, its length and its severity."""
    one, same, other = (generate(seed, hours=1, severity="some") for seed in (7, 7, 8))

    assert msgspec.json.encode(one) == msgspec.json.encode(same)
    assert one.steps != other.steps


def test_every_step_can_be_said() -> None:
    """Each step of a scenario is shown as a line."""
    said = {str(step) for seed in range(20) for step in generate(seed, hours=2, severity="many").steps}

    assert not [text for text in said if "(" in text.split(" ")[0] or "\n" in text]
