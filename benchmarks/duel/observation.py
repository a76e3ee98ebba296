"""
What a cluster did during a duel, as it is seen from outside: pods and nodes that come and go.

Pure: events and moments are handed in. Which program manages the nodes is not known here, so that all
contenders are measured alike.
"""

from __future__ import annotations

import json
import math
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Offering = tuple[str, str, str]
"""Instance type, zone and capacity type."""

RUNNING: Final = "Running"
DELETED: Final = "DELETED"
DECIDED: Final = "computed new nodeclaim(s) to fit pod(s)"
"""What both operators log with each decision that creates NodeClaims for pods."""


class Sample(NamedTuple):
    """A cluster at one moment."""

    at: float
    """Seconds since the first pods were asked for."""

    nodes: int
    hourly: float
    """What the nodes cost together, per hour."""

    waiting: int
    """Pods that do not run."""

    pods: int


class Observation:
    """A cluster from the first pods on."""

    def __init__(self, prices: Mapping[Offering, float]) -> None:
        self.samples: list[Sample] = []
        self.bill = 0.0
        self.until_running: list[float] = []
        """Seconds from when a pod was first seen until it ran, for each pod that ran."""

        self._prices = prices
        self._born: dict[str, float] = {}
        self._phases: dict[str, str] = {}
        self._ran: set[str] = set()
        self._nodes: dict[str, float] = {}
        self._bought: set[str] = set()

    @property
    def bought(self) -> int:
        """How many nodes there ever were."""
        return len(self._bought)

    @property
    def created(self) -> int:
        """How many pods there ever were."""
        return len(self._born)

    def pod(self, event: str, uid: str, phase: str, now: float) -> None:
        """Take in an event of a pod."""
        self._born.setdefault(uid, now)
        if event == DELETED:
            self._phases.pop(uid, None)
            return
        if phase == RUNNING and uid not in self._ran:
            self._ran.add(uid)
            self.until_running.append(now - self._born[uid])
        self._phases[uid] = phase

    def node(self, event: str, name: str, offering: Offering) -> None:
        """Take in an event of a node; without the labels of an offering it has no price yet."""
        if event == DELETED:
            self._nodes.pop(name, None)
        elif offering in self._prices:
            self._bought.add(name)
            self._nodes[name] = self._prices[offering]

    def forget(self, kind: str) -> None:
        """Take what exists from the events that follow, which begin with all that exists."""
        (self._phases if kind == "pods" else self._nodes).clear()

    def sample(self, at: float) -> Sample:
        """Add what the nodes cost since the sample before, and return what there is now."""
        hourly = sum(self._nodes.values())
        since = self.samples[-1].at if self.samples else 0.0
        self.bill += hourly * (at - since) / 3600
        waiting = sum(phase != RUNNING for phase in self._phases.values())
        self.samples.append(Sample(at, len(self._nodes), hourly, waiting, len(self._phases)))
        return self.samples[-1]


def quantile(values: Iterable[float], share: float) -> float:
    """Return the value below which a share of them is; nothing that is a number for no values."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else math.nan


class Decision(NamedTuple):
    """The NodeClaims that an operator created at once because of pods."""

    at: float
    nodeclaims: int


def decisions(log: Iterable[str]) -> list[Decision]:
    """Return the decisions that stand in the log of either operator."""
    found = []
    for line in log:
        if DECIDED not in line:
            continue
        facts = json.loads(line)
        found.append(Decision(datetime.fromisoformat(facts["time"]).timestamp(), int(facts["nodeclaims"])))
    return found


def later_share(made: Sequence[Decision], steps: Sequence[float]) -> float:
    """
    Return the share of NodeClaims that were not created by the first decision after a step.

    They were needed because pods went elsewhere than planned, came late, or were evicted.
    """
    later = every = 0
    for begin, end in pairwise((*steps, math.inf)):
        claims = [each.nodeclaims for each in made if each.nodeclaims and begin <= each.at < end]
        later += sum(claims[1:])
        every += sum(claims)
    return later / every if every else 0.0


def planned_share(metrics: str) -> float:
    """Return the share of pods that were bound where they were planned; not a number if that is not told."""
    counts = {"planned": 0.0, "elsewhere": 0.0}
    for line in metrics.splitlines():
        if not line.startswith("karpenter_pods_nominated_total{"):
            continue
        labels, _, value = line.rpartition(" ")
        for outcome in counts:
            if f'outcome="{outcome}"' in labels:
                counts[outcome] += float(value)
    every = sum(counts.values())
    return counts["planned"] / every if every else math.nan
