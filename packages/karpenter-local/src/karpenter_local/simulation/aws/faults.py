"""
What goes wrong on AWS beyond what goes wrong in every cloud: each at a moment, each sayable in a line.

How much goes wrong on AWS in a made-up life, and when: beside what goes wrong in every cloud.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karpenter_local.simulation.aws.places import ZONES
from karpenter_local.simulation.fault_schedule import drawn
from karpenter_local.simulation.faults import Mishap

if TYPE_CHECKING:
    from random import Random

    from karpenter_local.simulation.aws.network import Trouble
    from karpenter_local.simulation.fault_schedule import Kind, Severity


class BadAws(Mishap, frozen=True):
    """Some of the calls to AWS go wrong for a while."""

    seconds: float
    share: float
    kinds: tuple[Trouble, ...]

    def __str__(self) -> str:
        """Return the mishap as a line."""
        return f"{self.share:.0%} of calls to AWS go wrong for {self.seconds:.0f} s ({', '.join(self.kinds)})"


class HideInstances(Mishap, frozen=True):
    """For a while EC2 does not show what it has just launched."""

    lag: float
    seconds: float

    def __str__(self) -> str:
        """Return the mishap as a line."""
        return f"EC2 shows instances {self.lag:.0f} s after their launch, for {self.seconds:.0f} s"


class RunShort(Mishap, frozen=True):
    """A fleet gets a part of what it asks for: some offerings are short for a while."""

    code: str
    """How fleets are told; nothing means that so many can be had, and no more."""

    left: int
    zone: str
    capacity_type: str
    seconds: float

    def __str__(self) -> str:
        """Return the mishap as a line."""
        what = " ".join(filter(None, (self.capacity_type, self.zone))) or "everything"
        how = self.code or f"{self.left} left"
        return f"EC2 is short of {what} for {self.seconds:.0f} s ({how})"


class BadPost(Mishap, frozen=True):
    """For a while mail of the interruption queue is late, comes twice, and in another order."""

    seconds: float

    def __str__(self) -> str:
        """Return the mishap as a line."""
        return f"the queue tells things late, twice and in another order for {self.seconds:.0f} s"


class Rubbish(Mishap, frozen=True):
    """Messages that nobody can read come into the queue."""

    texts: tuple[str, ...]

    def __str__(self) -> str:
        """Return the mishap as a line."""
        return f"{len(self.texts)} messages come that nobody can read"


class Ail(Mishap, frozen=True):
    """EC2 says that something is wrong with a machine: a check fails, or its hardware will be retired."""

    pick: float
    """Which of all, from 0 to 1."""

    what: str
    """instance, system, the code of an event, or retire or rebalance: what the queue tells."""

    def __str__(self) -> str:
        """Return the mishap as a line."""
        return f"machine number {self.pick:.2f} is not well: {self.what}"


_TROUBLES: Final[tuple[Trouble, ...]] = (
    "throttled",
    "throttled",
    "error",
    "failing",
    "unreachable",
    "lost",
    "silent",
    "deaf",
)
_CODES: Final = (
    "",
    "",
    "InsufficientInstanceCapacity",
    "UnfulfillableCapacity",
    "MaxSpotInstanceCountExceeded",
    "VcpuLimitExceeded",
    "InsufficientFreeAddressesInSubnet",
)
_WARNING: Final = '"version":"0","source":"aws.ec2","detail-type":"EC2 Spot Instance Interruption Warning"'
_CHANGE: Final = '"version":"0","source":"aws.ec2","detail-type":"EC2 Instance State-change Notification"'
_RUBBISH: Final = (
    "{",
    "null",
    "[]",
    "not for us",
    '{"version":"0"}',
    f"{{{_WARNING}}}",
    f'{{{_WARNING},"detail":{{}}}}',
    f'{{{_WARNING},"detail":{{"instance-id":["i-1"],"instance-action":7}}}}',
    f'{{{_CHANGE},"time":"soon","detail":{{"instance-id":"i-0123456789abcdef0","state":"stopped"}}}}',
    '{"version":"0","source":"aws.health","detail-type":"AWS Health Event","detail":{"service":"EC2"}}',
)
_AILMENTS: Final = ("instance", "system", "instance-retirement", "retire", "retire", "rebalance")


def aws_mishaps(chance: Random, seconds: float, severity: Severity) -> list[Mishap]:
    """Return what goes wrong on AWS in a life of so many seconds."""
    return drawn(_ALL, chance, seconds, severity)


def _bad_aws(chance: Random, at: float) -> Mishap:
    kinds = tuple(chance.sample(_TROUBLES, chance.randint(1, 4)))
    share = chance.choice((0.05, 0.3, 0.6, 1.0))
    return BadAws(at=at, seconds=chance.choice((5.0, 30.0, 120.0)), share=share, kinds=kinds)


def _hide(chance: Random, at: float) -> Mishap:
    lag = chance.choice((2.0, 4.0, 15.0, 45.0))
    return HideInstances(at=at, lag=lag, seconds=chance.choice((60.0, 300.0)))


def _run_short(chance: Random, at: float) -> Mishap:
    return RunShort(
        at=at,
        code=chance.choice(_CODES),
        left=chance.choice((0, 1, 2)),
        zone=chance.choice(("", *ZONES)),
        capacity_type=chance.choice(("", "spot", "on-demand")),
        seconds=chance.choice((30.0, 120.0, 600.0)),
    )


def _rubbish(chance: Random, at: float) -> Mishap:
    return Rubbish(at=at, texts=tuple(chance.sample(_RUBBISH, chance.randint(1, 5))))


_ALL: Final[tuple[Kind, ...]] = (
    _bad_aws,
    _bad_aws,
    _hide,
    _run_short,
    _run_short,
    _rubbish,
    lambda chance, at: BadPost(at=at, seconds=chance.choice((60.0, 300.0))),
    lambda chance, at: Ail(at=at, pick=chance.random(), what=chance.choice(_AILMENTS)),
)
