"""How many faults a scenario has, which ones, and when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from karpenter_local.simulation.faults import (
    BadCalls,
    BadCloud,
    BadLaunch,
    Crash,
    CutWatches,
    Drift,
    HoldWatches,
    InjectedFault,
    Isolate,
    LoseMachine,
    RepeatEvents,
    RestoreHistory,
    SecondLeader,
    SellOut,
    SilenceNode,
    WrongTime,
)
from karpenter_local.simulation.workload import ZONES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    from karpenter_local.simulation.network import CallFault

Severity: TypeAlias = Literal["none", "some", "many", "dense"]
FaultKind: TypeAlias = "Callable[[Random, float], InjectedFault]"
"""Makes a fault at a time of a run."""


_FAULT_SECONDS: Final[dict[str, float]] = {"some": 300.0, "many": 75.0, "dense": 30.0}
"""Seconds between two faults, on average."""

_WATCHED: Final = ("pods", "nodes", "nodeclaims", "nodepools")
_CALL_FAULTS: Final[tuple[CallFault, ...]] = (
    "conflict",
    "busy",
    "error",
    "lost",
    "unreachable",
    "silent",
    "deaf",
)


def draw_faults(
    chance: Random, seconds: float, severity: Severity, *, elects: bool = False
) -> list[InjectedFault]:
    """Return the faults of a run of so many seconds; only where a leader is elected can it be cut off."""
    return draw((*_ALL, *(_ELECTED if elects else _UNELECTED)), chance, seconds, severity)


def draw(
    kinds: Sequence[FaultKind], chance: Random, seconds: float, severity: Severity
) -> list[InjectedFault]:
    """Return faults of some kinds, one after the other, at random times of a run."""
    if severity == "none":
        return []
    found, at = [], 0.0
    while (at := at + chance.expovariate(1 / _FAULT_SECONDS[severity])) < seconds:
        found.append(chance.choice(kinds)(chance, at))
    return found


def _bad_calls(chance: Random, at: float) -> InjectedFault:
    kinds = tuple(chance.sample(_CALL_FAULTS, chance.randint(1, 3)))
    return BadCalls(
        at=at, seconds=chance.choice((5.0, 30.0, 90.0)), share=chance.choice((0.05, 0.2, 0.6)), kinds=kinds
    )


def _crash(chance: Random, at: float) -> InjectedFault:
    return Crash(
        at=at,
        calls=chance.randint(1, 12),
        carried_out=chance.random() < 0.5,  # noqa: PLR2004  one side or the other
        down=chance.choice((0.0, 5.0, 40.0)),
        disrupting=chance.random() < 0.5,  # noqa: PLR2004  in the middle of a command, or anywhere
    )


def _hold(chance: Random, at: float) -> InjectedFault:
    plurals = tuple(chance.sample(_WATCHED, chance.randint(1, 3)))
    return HoldWatches(at=at, plurals=plurals, seconds=chance.choice((2.0, 10.0, 40.0, 120.0)))


def _launch(chance: Random, at: float) -> InjectedFault:
    kind = chance.choice(("fail", "hang", "lose", "lose and hang", "slow", "never join"))
    return BadLaunch(at=at, kind=kind, count=chance.choice((1, 1, 3)))


def _lose(chance: Random, at: float) -> InjectedFault:
    return LoseMachine(at=at, pick=chance.random(), announced=chance.random() < 0.5)  # noqa: PLR2004


def _restore(chance: Random, at: float) -> InjectedFault:
    return RestoreHistory(at=at, lag=chance.choice((5.0, 20.0, 60.0)))


def _sell_out(chance: Random, at: float) -> InjectedFault:
    return SellOut(at=at, zone=chance.choice(ZONES), seconds=chance.choice((30.0, 300.0, 900.0)))


def _wrong_time(chance: Random, at: float) -> InjectedFault:
    ahead = chance.choice((-300.0, -30.0, -2.0, 5.0, 60.0, 3600.0))
    return WrongTime(at=at, ahead=ahead, seconds=chance.choice((10.0, 120.0)))


_ALL: Final[tuple[FaultKind, ...]] = (
    _bad_calls,
    _bad_calls,
    _crash,
    _crash,
    _hold,
    _launch,
    _launch,
    _lose,
    _sell_out,
    _wrong_time,
    lambda chance, at: BadCloud(at=at, seconds=chance.choice((10.0, 60.0)), share=0.5),
    lambda chance, at: CutWatches(at=at, forgotten=chance.random() < 0.5),  # noqa: PLR2004  sometimes
    lambda chance, at: CutWatches(at=at, forgotten=chance.random() < 0.5),  # noqa: PLR2004  likewise
    lambda chance, at: Drift(at=at, pick=chance.random()),
    lambda chance, at: SilenceNode(at=at, pick=chance.random(), seconds=chance.choice((20.0, 120.0, 600.0))),
    lambda chance, at: RepeatEvents(at=at, seconds=chance.choice((30.0, 300.0))),
)
_UNELECTED: Final[tuple[FaultKind, ...]] = (
    lambda chance, at: SecondLeader(at=at, seconds=chance.choice((2.0, 15.0, 60.0))),
    _restore,
)
_ELECTED: Final[tuple[FaultKind, ...]] = (
    lambda chance, at: Isolate(at=at, seconds=chance.choice((10.0, 45.0, 70.0))),
) * 4
