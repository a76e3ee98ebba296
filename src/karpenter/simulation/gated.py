"""
What works only behind a gate, in some lives: static pools, buffers, overlays, and the repair of broken nodes.

Overlays here change every price alike, so that what is cheaper stays cheaper whatever the cloud believes. One
node breaks at most: where more are broken than a fifth of a pool, nobody repairs anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.simulation.mishaps import BreakNode, Mishap
from karpenter.simulation.wishes import (
    AddBuffer,
    AddOverlay,
    AddPool,
    ResizeBuffer,
    ResizePool,
    Wish,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from karpenter.simulation.misfortune import Severity

STATIC: Final = "static"
"""The pool that always has so many machines."""

_SHARE: Final = 0.4
"""Of all lives, how many have a gate open."""


class Gated(msgspec.Struct, frozen=True):
    """The gates of a life that are open, and what happens behind them."""

    gates: tuple[str, ...] = ()
    steps: tuple[Wish | Mishap, ...] = ()


def gated(chance: Random, seconds: float, severity: Severity) -> Gated:
    """Return what a life has behind gates; mostly nothing."""
    if chance.random() >= _SHARE:
        return Gated()
    names = sorted(chance.sample(sorted(_BEHIND), chance.choice((1, 1, 2))))
    steps = [step for name in names for step in _BEHIND[name](chance, seconds)]
    if severity == "none":
        steps = [step for step in steps if not isinstance(step, Mishap)]
    return Gated(gates=tuple(names), steps=tuple(steps))


def _static(chance: Random, seconds: float) -> list[Wish | Mishap]:
    replicas = chance.randint(0, 2)
    made = AddPool(
        at=0.0,
        name=STATIC,
        replicas=replicas,
        node_limit=chance.choice((0, replicas + 1)),
        budgets=chance.choice((("100%",), ("1",))),
        expire_after=chance.choice(("Never", "Never", "20m")),
    )
    found: list[Wish | Mishap] = [made]
    for _ in range(chance.randint(0, 2)):
        at = chance.uniform(seconds * 0.2, seconds)
        found.append(ResizePool(at=at, pool=STATIC, replicas=chance.randint(0, 3)))
    return found


def _buffer(chance: Random, seconds: float) -> list[Wish | Mishap]:
    at = chance.uniform(0.0, seconds * 0.3)
    milli = chance.choice((250, 500, 1000))
    found: list[Wish | Mishap] = [AddBuffer(at=at, name="spare", replicas=chance.randint(1, 4), milli=milli)]
    if chance.random() < 0.5:  # noqa: PLR2004  some are changed
        at = chance.uniform(seconds * 0.4, seconds)
        found.append(ResizeBuffer(at=at, name="spare", replicas=chance.randint(0, 4)))
    return found


def _overlay(chance: Random, seconds: float) -> list[Wish | Mishap]:
    found: list[Wish | Mishap] = []
    for number in range(chance.choice((1, 1, 2))):
        percent, weight = chance.choice((-50, -10, 30)), chance.choice((1, 1 + number))
        at = chance.uniform(0.0, seconds * 0.7)
        found.append(AddOverlay(at=at, name=f"prices-{number}", percent=percent, weight=weight))
    return found


def _repair(chance: Random, seconds: float) -> list[Wish | Mishap]:
    return [BreakNode(at=chance.uniform(min(40.0, seconds / 2), seconds), pick=chance.random())]


_BEHIND: Final[dict[str, Callable[[Random, float], list[Wish | Mishap]]]] = {
    "CapacityBuffer": _buffer,
    "NodeOverlay": _overlay,
    "NodeRepair": _repair,
    "StaticCapacity": _static,
}
