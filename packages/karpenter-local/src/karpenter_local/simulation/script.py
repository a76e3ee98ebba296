"""
A life to be lived, as a value: everything that users will do and everything that will go wrong.

The same seed, length and severity always give the same script. Nothing in it depends on what happens when it
is played, so that any part can be left out and the rest played again.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec

from karpenter_local.simulation.actions import Wish
from karpenter_local.simulation.aws.faults import aws_mishaps
from karpenter_local.simulation.aws.places import moved
from karpenter_local.simulation.fault_schedule import mishaps
from karpenter_local.simulation.faults import Mishap
from karpenter_local.simulation.workload import Gated, gated, wishes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from karpenter_local.simulation.fault_schedule import Severity

Step: TypeAlias = Wish | Mishap
Provider: TypeAlias = Literal["kwok", "aws"]
_GATES: Final = "feature-gates"


class Script(msgspec.Struct, frozen=True, kw_only=True):
    """What will happen, in order."""

    seed: int
    seconds: float
    """How long things happen; afterwards everything may come to rest."""

    machines: int = 1
    """About how many machines there are at the height."""

    provider: Provider = "kwok"
    """Which cloud is above the cluster."""

    steps: tuple[Step, ...]
    settings: dict[str, str] = {}
    """How the operator is set."""

    def set_to(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return how the operator is set where some settings are `given`; gates are given one by one."""
        gates = [each[_GATES] for each in (self.settings, given) if _GATES in each]
        return {**self.settings, **given, **({_GATES: ",".join(gates)} if gates else {})}

    def without(self, left_out: Iterable[Step]) -> Script:
        """Return the same life with some steps left out."""
        gone = {id(step) for step in left_out}
        return msgspec.structs.replace(self, steps=tuple(step for step in self.steps if id(step) not in gone))


def write(
    seed: int, *, hours: float, severity: Severity, machines: int = 3, provider: Provider = "kwok"
) -> Script:
    """Return the life that a seed stands for, in a cluster of about so many machines."""
    seconds = hours * 3600
    steps: list[Step] = [*wishes(_dice(seed, "wishes"), seconds, machines)]
    steps += mishaps(_dice(seed, "mishaps"), seconds, severity)
    behind = gated(_dice(seed, "gates"), seconds, severity) if provider == "kwok" else Gated()
    steps += behind.steps
    if provider == "aws":
        steps = [moved(step) for step in steps]
        steps += aws_mishaps(_dice(seed, "aws"), seconds, severity)
    return Script(
        seed=seed,
        seconds=seconds,
        machines=machines,
        provider=provider,
        steps=tuple(sorted(steps, key=lambda step: step.at)),
        settings=_settings(_dice(seed, "settings")) | _open(behind.gates),
    )


def _settings(chance: Random) -> dict[str, str]:
    """Return how an operator is set: mostly the quick ways, so that there is time for many lives."""
    return {
        "packing-policy": chance.choice(("greedy",) * 5 + ("price",)),
        "consolidation-strategy": chance.choice(("global", "global", "classic")),
        "steer-scale-down": chance.choice(("false", "true")),
    }


def _open(gates: tuple[str, ...]) -> dict[str, str]:
    """Return the setting that opens gates; nothing where all are as ever."""
    return {_GATES: ",".join(f"{name}=true" for name in gates)} if gates else {}


def _dice(seed: int, about: str) -> Random:
    return Random(f"{seed}/{about}")  # noqa: S311  a simulation's dice
