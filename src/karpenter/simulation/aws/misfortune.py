"""How much goes wrong on AWS in a made-up life, and when: beside what goes wrong in every cloud."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karpenter.simulation.aws.mishaps import Ail, BadAws, BadPost, HideInstances, Rubbish, RunShort
from karpenter.simulation.aws.places import ZONES
from karpenter.simulation.misfortune import drawn

if TYPE_CHECKING:
    from random import Random

    from karpenter.simulation.aws.weather import Trouble
    from karpenter.simulation.misfortune import Kind, Severity
    from karpenter.simulation.mishaps import Mishap

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
