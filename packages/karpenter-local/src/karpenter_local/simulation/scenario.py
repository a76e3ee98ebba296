"""
A scenario, as a value: everything that users will do and every fault that will be injected.

The same seed, length and severity always give the same scenario. Nothing in it depends on what happens when
it is run, so that any part can be left out and the rest run again.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec

from karpenter_local.simulation.actions import Action, AddDaemon, AddPool
from karpenter_local.simulation.aws.faults import draw_aws_faults, move_to_aws
from karpenter_local.simulation.coincidences import draw_coincidences
from karpenter_local.simulation.fault_schedule import Severity, draw_faults
from karpenter_local.simulation.faults import InjectedFault
from karpenter_local.simulation.workload import GatedSteps, draw_actions, draw_gated

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


Step: TypeAlias = Action | InjectedFault
Provider: TypeAlias = Literal["kwok", "aws"]
_GATES: Final = "feature-gates"
_COINCIDENCES: Final = 5
"""Coincidences of a short run."""

_BARE_SHARE: Final = 0.5
"""The share of short runs in which nothing else happens."""

_ELECTING_SHARE: Final = 0.25
"""The share of runs with two operators of which one leads."""


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """The steps of a run, in order, and the settings of its operators."""

    seed: int
    seconds: float
    """How long things happen; afterwards the cluster may settle."""

    machines: int = 1
    """About how many machines there are at the height."""

    provider: Provider = "kwok"

    replicas: int = 1
    """How many operators there are; several compete for a Lease."""

    steps: tuple[Step, ...]
    settings: dict[str, str] = {}

    def settings_with(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return the operator's settings where some are `given`; feature gates are given one by one."""
        gates = [each[_GATES] for each in (self.settings, given) if _GATES in each]
        return {**self.settings, **given, **({_GATES: ",".join(gates)} if gates else {})}

    def without(self, left_out: Iterable[Step]) -> Scenario:
        """Return the same scenario with some steps left out."""
        gone = {id(step) for step in left_out}
        return msgspec.structs.replace(self, steps=tuple(step for step in self.steps if id(step) not in gone))


def generate(
    seed: int, *, hours: float, severity: Severity, machines: int = 3, provider: Provider = "kwok"
) -> Scenario:
    """Return the scenario that a seed stands for, in a cluster of about so many machines."""
    seconds = hours * 3600
    replicas = 2 if severity != "none" and _random(seed, "replicas").random() < _ELECTING_SHARE else 1
    steps: list[Step] = [*draw_actions(_random(seed, "wishes"), seconds, machines)]
    steps += draw_faults(_random(seed, "mishaps"), seconds, severity, elects=replicas > 1)
    behind = draw_gated(_random(seed, "gates"), seconds, severity) if provider == "kwok" else GatedSteps()
    steps += behind.steps
    if provider == "aws":
        steps = [move_to_aws(step) for step in steps]
        steps += draw_aws_faults(_random(seed, "aws"), seconds, severity)
    made = Scenario(
        seed=seed,
        seconds=seconds,
        machines=machines,
        provider=provider,
        replicas=replicas,
        steps=tuple(sorted(steps, key=lambda step: step.at)),
        settings=_settings(_random(seed, "settings")) | _enable(behind.gates),
    )
    return _coincide(made, _random(seed, "bare")) if severity == "dense" else made


def _coincide(scenario: Scenario, chance: Random) -> Scenario:
    """
    Return a scenario with some of the coincidences that chance alone brings too seldom.

    In some scenarios nothing else happens: what they bring about is then not disturbed.
    """
    steps: list[Step] = list(scenario.steps)
    if chance.random() < _BARE_SHARE:
        steps = [step for step in steps if isinstance(step, AddPool | AddDaemon)]
    found = draw_coincidences(scenario.seed, _COINCIDENCES, scenario.seconds)
    # A scenario has one static pool, and one broken node, at most.
    used = {each.partition("=")[0] for each in scenario.settings.get(_GATES, "").split(",") if each}
    kept = []
    for each in found:
        if used.isdisjoint(each.gates):
            kept.append(each)
            used |= set(each.gates)
    steps += [step for each in kept for step in each.steps]
    if scenario.provider == "aws":
        steps = [move_to_aws(step) for step in steps]
    return msgspec.structs.replace(
        scenario,
        steps=tuple(sorted(steps, key=lambda step: step.at)),
        settings=scenario.settings_with(_enable(tuple(gate for each in kept for gate in each.gates))),
    )


def _settings(chance: Random) -> dict[str, str]:
    """Return the settings of an operator: mostly the quick ways, so that there is time for many runs."""
    return {
        "packing-policy": chance.choice(("greedy",) * 5 + ("price",)),
        "consolidation-strategy": chance.choice(("global", "global", "classic")),
        "steer-scale-down": chance.choice(("false", "true")),
        "nominate-pods": chance.choice(("auto", "auto", "auto", "false")),
    }


def _enable(gates: tuple[str, ...]) -> dict[str, str]:
    """Return the setting that enables feature gates; nothing where none is."""
    return {_GATES: ",".join(f"{name}=true" for name in gates)} if gates else {}


def _random(seed: int, about: str) -> Random:
    """Return the chance of one part. The names of the parts belong to what a seed stands for."""
    return Random(f"{seed}/{about}")  # noqa: S311  chance, not secrets
