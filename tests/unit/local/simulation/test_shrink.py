"""Scripts that are cut down to what matters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from karpenter_local.simulation.actions import AddPool
from karpenter_local.simulation.faults import CutWatches, Drift, SellOut
from karpenter_local.simulation.invariants.rule import Violation
from karpenter_local.simulation.run import Outcome
from karpenter_local.simulation.script import write
from karpenter_local.simulation.shrink import shrink

if TYPE_CHECKING:
    from collections.abc import Callable

    from karpenter_local.simulation.script import Script


def outcome(*rules: str) -> Outcome:
    """Return a life that violated some rules."""
    found = tuple(Violation(at=0.0, rule=rule, what="it happened") for rule in rules)
    return Outcome(seed=1, violations=found, digest="", writes=0, seconds=0.0, machines=0)


def fails_with(*needed: type) -> Callable[[Script], Outcome]:
    """Return a world in which a script fails if it has a step of each of these kinds."""

    def play(script: Script) -> Outcome:
        kinds = {type(step) for step in script.steps}
        return outcome("budgets") if set(needed) <= kinds else outcome("limits")

    return play


@pytest.mark.parametrize(
    ("needed", "left"),
    [
        pytest.param((), {AddPool}, id="nothing matters but the pools"),
        pytest.param((SellOut,), {AddPool, SellOut}, id="one mishap matters"),
        pytest.param((Drift, CutWatches), {AddPool, Drift, CutWatches}, id="two mishaps matter together"),
    ],
)
def test_only_what_matters_is_left(needed: tuple[type, ...], left: set[type]) -> None:
    """Steps without which the same rule is violated are left out; pools are kept."""
    script = write(5, hours=2, severity="many")
    assert set(needed) <= {type(step) for step in script.steps}

    shortest = shrink(script, "budgets", fails_with(*needed), attempts=300)

    assert {type(step) for step in shortest.steps} == left


def test_attempts_are_limited() -> None:
    """A script that cannot be cut down in time is left as short as it was found."""
    script = write(5, hours=2, severity="many")
    lives: list[Script] = []

    def play(shorter: Script) -> Outcome:
        lives.append(shorter)
        return outcome("limits")

    assert shrink(script, "budgets", play, attempts=3) == script
    assert len(lives) == 3


def test_the_same_seed_writes_the_same_script() -> None:
    """A script depends on nothing but its seed, its length and its severity."""
    one, same, other = (write(seed, hours=1, severity="some") for seed in (7, 7, 8))

    assert msgspec.json.encode(one) == msgspec.json.encode(same)
    assert one.steps != other.steps


def test_every_step_can_be_said() -> None:
    """Each step of a script is a line of a story."""
    said = {str(step) for seed in range(20) for step in write(seed, hours=2, severity="many").steps}

    assert not [text for text in said if "(" in text.split(" ")[0] or "\n" in text]
