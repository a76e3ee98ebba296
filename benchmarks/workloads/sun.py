"""
Days of workloads: which there are, what size each has when, and what is for sale.

Workloads have a few pods or dozens, small ones or large ones; of a hundred, twelve are spread over zones and
up to eight keep their few pods on different machines. The load follows the sun, a week of a web site, a batch
queue or working hours (:data:`LOADS`), for each some hours early or late, and each changes its own size every
half hour, at minutes of its own. Every script comes from its own seed and is the same under every strategy.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from benchmarks.workloads.ec2 import CATEGORY, CORES, GENERATION
from karpenter.api.labels import ARCH, ZONE
from karpenter.cloud.catalogs.load import load_catalog
from karpenter.core.model.requirement import requirement
from karpenter.core.model.requirements import Requirements
from karpenter_local.simulation.actions import Action, AddPool, Deploy, Scale

if TYPE_CHECKING:
    from karpenter.core.model.catalog import Catalog

DAY: Final = 24 * 60
"""Minutes of a day."""

NIGHT: Final = 0.45
"""The share of pods that is left at midnight."""

EVERY: Final = 30
"""Minutes between two sizes of a workload."""

SHIFT: Final = 3
"""Hours by which the noon of a workload may be early or late."""

_MOST: Final = 60
_FEW: Final = 8
_MILLI: Final = (100, 250, 250, 500, 500, 1000, 1500, 2000)
_MEBI_PER_MILLI: Final = (1, 2, 2, 4)
_SPREAD: Final = 0.12
_APART: Final = 0.20
_ASKED: Final = Requirements.of(
    (
        requirement(ARCH, "In", ["amd64"]),
        requirement(CATEGORY, "In", ["c", "m", "r"]),
        requirement(GENERATION, "Gt", ["4"]),
        requirement(CORES, "Lt", ["33"]),
    )
)


def sun(hour: float) -> float:
    """Return the share of pods at an hour: all of them at noon, :data:`NIGHT` at midnight."""
    return NIGHT + (1 - NIGHT) * (1 + math.cos(2 * math.pi * (hour - 12) / 24)) / 2


def week(hour: float) -> float:
    """Return the share of pods of a web site: peaks in the morning and the evening, quiet weekends."""
    day, time = divmod(hour % (7 * 24), 24)
    peak = max(math.exp(-(((time - 10) / 2.5) ** 2)), 0.85 * math.exp(-(((time - 20) / 2) ** 2)))
    return 0.3 + 0.7 * peak * (0.5 if day >= _WEEKEND else 1.0)


def batch(hour: float) -> float:
    """Return the share of pods of a batch cluster: a little all day, everything for an hour every five."""
    return 1.0 if hour % 5 < 1 else 0.1


def office(hour: float) -> float:
    """Return the share of pods of a cluster for development: all in working hours, few else."""
    day, time = divmod(hour % (7 * 24), 24)
    return 1.0 if 8 <= time < 18 and day < _WEEKEND else 0.15


Load = Callable[[float], float]
LOADS: Final[Mapping[str, Load]] = {"sun": sun, "week": week, "batch": batch, "office": office}
"""Which share of its pods a workload has at which hour, by the name of the load."""

_WEEKEND: Final = 5
"""The first day of a week that is quiet."""


class Workload(NamedTuple):
    """A Deployment, and when it is how large."""

    name: str
    most: int
    """Its pods at its noon."""

    milli: int
    mebi: int
    shift: float
    """Hours by which its noon is early."""

    offset: float
    """Minutes after which its size changes for the first time."""

    kind: float
    """From 0 to 1: what its pods ask for beside room."""

    def size(self, minute: float, load: Load) -> int:
        return max(1, round(load(minute / 60 + self.shift) * self.most))

    def wishes(self, days: int, load: Load) -> Iterator[Action]:
        size = self.size(0, load)
        yield Deploy(
            at=1.0 + self.offset / 60,  # one after the other
            name=self.name,
            replicas=size,
            milli=self.milli,
            mebi=self.mebi,
            spread=ZONE if self.kind < _SPREAD else "",
            apart=_SPREAD <= self.kind < _APART and self.most <= _FEW,
        )
        for turn in range(math.ceil((days * DAY - self.offset) / EVERY)):
            minute = self.offset + turn * EVERY
            before, size = size, self.size(minute, load)
            if size != before:
                yield Scale(at=minute * 60 + 5, name=self.name, replicas=size)


def workloads(pods: int, seed: int) -> list[Workload]:
    """Return workloads that have about so many pods together when all are largest."""
    rng = random.Random(seed)  # noqa: S311  workloads, not secrets
    found: list[Workload] = []
    while sum(each.most for each in found) < pods:
        most = min(_MOST, max(1, int(rng.paretovariate(0.9) * 3)))
        milli = rng.choice(_MILLI)
        mebi = milli * rng.choice(_MEBI_PER_MILLI)
        shift, offset = rng.uniform(-SHIFT, SHIFT), rng.uniform(0, EVERY)
        found.append(Workload(f"app-{len(found)}", most, milli, mebi, shift, offset, rng.random()))
    return found


def script(pods: int, days: int, seed: int, load: str = "sun") -> list[Action]:
    """Return everything that users do, in order."""
    pool = AddPool(at=0.0, name="default", consolidate_after="0s", budgets=("10%",))
    every = [wish for each in workloads(pods, seed) for wish in each.wishes(days, LOADS[load])]
    return [pool, *sorted(every, key=lambda wish: wish.at)]


@cache
def market() -> Catalog:
    """Return the EC2 machines that most pools ask for."""
    whole = load_catalog("aws")
    sold = tuple(kind for kind in whole.types if _ASKED.conflict(kind.requirements) is None)
    return msgspec.structs.replace(whole, types=sold)
