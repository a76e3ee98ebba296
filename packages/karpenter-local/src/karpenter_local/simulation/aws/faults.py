"""
What goes wrong on AWS beyond what goes wrong in every cloud, as values, and when in a run it does.

Scenarios on AWS are those of other clouds, moved to the zones of a region.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from karpenter_local.simulation.fault_schedule import FaultKind, Severity, draw
from karpenter_local.simulation.faults import InjectedFault
from karpenter_local.simulation.workload import ZONES as KWOK_ZONES

if TYPE_CHECKING:
    from random import Random

    from karpenter_local.simulation.aws.network import AwsCallFault
    from karpenter_local.simulation.scenario import Step


REGION: Final = "us-west-2"
ZONES: Final = tuple(f"{REGION}{each}" for each in "abc")
_ZONE_OF: Final = {zone: ZONES[number % len(ZONES)] for number, zone in enumerate(KWOK_ZONES)}


class BadAws(InjectedFault, frozen=True):
    """Some of the calls to AWS go wrong for a while."""

    seconds: float
    share: float
    kinds: tuple[AwsCallFault, ...]

    def __str__(self) -> str:
        return f"{self.share:.0%} of calls to AWS go wrong for {self.seconds:.0f} s ({', '.join(self.kinds)})"


class HideInstances(InjectedFault, frozen=True):
    """For a while EC2 does not show what it has just launched."""

    lag: float
    seconds: float

    def __str__(self) -> str:
        return f"EC2 shows instances {self.lag:.0f} s after their launch, for {self.seconds:.0f} s"


class RunShort(InjectedFault, frozen=True):
    """A fleet gets a part of what it asks for: some offerings are short for a while."""

    code: str
    """The error code that fleets get; empty means that so many can be launched, and no more."""

    left: int
    zone: str
    capacity_type: str
    seconds: float

    def __str__(self) -> str:
        what = " ".join(filter(None, (self.capacity_type, self.zone))) or "everything"
        how = self.code or f"{self.left} left"
        return f"EC2 is short of {what} for {self.seconds:.0f} s ({how})"


class BadQueue(InjectedFault, frozen=True):
    """For a while messages of the interruption queue are late, repeated, and in another order."""

    seconds: float

    def __str__(self) -> str:
        return f"the queue delivers late, twice and in another order for {self.seconds:.0f} s"


class BadMessages(InjectedFault, frozen=True):
    """Messages that cannot be read come into the queue."""

    texts: tuple[str, ...]

    def __str__(self) -> str:
        return f"{len(self.texts)} messages come that cannot be read"


class ImpairInstance(InjectedFault, frozen=True):
    """EC2 says that something is wrong with a machine: a check fails, or its hardware will be retired."""

    pick: float
    """Which of all, from 0 to 1."""

    what: str
    """instance, system, the code of an event, or retire or rebalance, which come over the queue."""

    def __str__(self) -> str:
        return f"machine number {self.pick:.2f} is impaired: {self.what}"


_CALL_FAULTS: Final[tuple[AwsCallFault, ...]] = (
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
_BAD_MESSAGES: Final = (
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
_IMPAIRMENTS: Final = ("instance", "system", "instance-retirement", "retire", "retire", "rebalance")


def draw_aws_faults(chance: Random, seconds: float, severity: Severity) -> list[InjectedFault]:
    return draw(_ALL, chance, seconds, severity)


def _bad_aws(chance: Random, at: float) -> InjectedFault:
    kinds = tuple(chance.sample(_CALL_FAULTS, chance.randint(1, 4)))
    share = chance.choice((0.05, 0.3, 0.6, 1.0))
    return BadAws(at=at, seconds=chance.choice((5.0, 30.0, 120.0)), share=share, kinds=kinds)


def _hide(chance: Random, at: float) -> InjectedFault:
    lag = chance.choice((2.0, 4.0, 15.0, 45.0))
    return HideInstances(at=at, lag=lag, seconds=chance.choice((60.0, 300.0)))


def _run_short(chance: Random, at: float) -> InjectedFault:
    return RunShort(
        at=at,
        code=chance.choice(_CODES),
        left=chance.choice((0, 1, 2)),
        zone=chance.choice(("", *ZONES)),
        capacity_type=chance.choice(("", "spot", "on-demand")),
        seconds=chance.choice((30.0, 120.0, 600.0)),
    )


def _bad_messages(chance: Random, at: float) -> InjectedFault:
    return BadMessages(at=at, texts=tuple(chance.sample(_BAD_MESSAGES, chance.randint(1, 5))))


_ALL: Final[tuple[FaultKind, ...]] = (
    _bad_aws,
    _bad_aws,
    _hide,
    _run_short,
    _run_short,
    _bad_messages,
    lambda chance, at: BadQueue(at=at, seconds=chance.choice((60.0, 300.0))),
    lambda chance, at: ImpairInstance(at=at, pick=chance.random(), what=chance.choice(_IMPAIRMENTS)),
)


def move_to_aws(step: Step) -> Step:
    """Return the same step in the zones of AWS."""
    zone = getattr(step, "zone", "")
    return msgspec.structs.replace(step, zone=_ZONE_OF[zone]) if zone in _ZONE_OF else step
