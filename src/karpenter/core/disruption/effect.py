"""
Whether a command had the effect that was planned: did its pods land where they were meant to?

Pods that are evicted come back under other names, so they are counted by their workload and node.
A pool whose pods keep landing elsewhere rests from savings for a while, longer each time: what
decides there is not what was simulated, and moving more pods would be churn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.core.state.pods import is_active

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karpenter.api.pod import Pod
    from karpenter.core.disruption.candidates import Candidate
    from karpenter.core.disruption.command import Command
    from karpenter.core.state.view import ClusterView

GRACE: Final = timedelta(minutes=2)
"""How long pods may take to come back once their machines are gone."""

PATIENCE: Final = timedelta(minutes=30)
"""After so long a command is judged although some of its machines are still there."""

ENOUGH: Final = 0.5
"""The share of pods that has to land where it was planned."""

_FIRST: Final = timedelta(minutes=5)
_LONGEST: Final = timedelta(hours=4)

Landing = tuple[str, str]
"""A node and a workload."""


class Expectation(msgspec.Struct, frozen=True, kw_only=True):
    """Where the pods of a command should be when it is over."""

    pools: frozenset[str]
    leaving: frozenset[str]
    """The claims that go."""

    planned: Mapping[Landing, int]
    """How many pods of each workload there should be on each node."""

    moved: int
    since: datetime


class Rest(msgspec.Struct, frozen=True):
    """How long a pool is left alone, and until when."""

    length: timedelta
    until: datetime


def expectation(
    command: Command,
    candidates: Sequence[Candidate],
    replacements: Mapping[str, str],
    view: ClusterView,
    now: datetime,
) -> Expectation:
    """Return what to expect of a command; `replacements` names the node of each new machine."""
    homes = dict(command.moves)
    for new in command.replacements:
        homes.update(dict.fromkeys(new.pods, replacements.get(new.name, "")))
    arriving = Counter(
        (homes[pod.key], workload(pod))
        for each in candidates
        for pod in each.pods
        if homes.get(pod.key) and workload(pod)
    )
    there = _counted(view)
    return Expectation(
        pools=frozenset(each.pool.name for each in candidates),
        leaving=frozenset(each.claim.name for each in candidates),
        planned={landing: count + there[landing] for landing, count in arriving.items()},
        moved=sum(arriving.values()),
        since=now,
    )


def is_due(expected: Expectation, view: ClusterView, now: datetime) -> bool:
    """Whether it can be judged by now where the pods of a command went."""
    if now - expected.since > PATIENCE:
        return True
    return now - expected.since > GRACE and expected.leaving.isdisjoint(view.claims)


def landed(expected: Expectation, view: ClusterView) -> float:
    """Return the share of pods that are where they were meant to be; 1 when none was meant to be anywhere."""
    if not expected.moved:
        return 1.0
    there = _counted(view)
    missing = sum(max(0, count - there[landing]) for landing, count in expected.planned.items())
    return max(0.0, 1 - missing / expected.moved)


def rested(rest: Rest | None, share: float, now: datetime) -> Rest | None:
    """Return how long a pool rests after a command of which such a share of pods landed as planned."""
    if share >= ENOUGH:
        return None
    length = _FIRST if rest is None else min(2 * rest.length, _LONGEST)
    return Rest(length, now + length)


def workload(pod: Pod) -> str:
    """Return what a pod is one of; nothing for a pod that nobody brings back."""
    owner = next((each for each in pod.metadata.owner_references if each.controller), None)
    return f"{pod.metadata.namespace}/{owner.kind}/{owner.name}" if owner is not None else ""


def _counted(view: ClusterView) -> Counter[Landing]:
    return Counter(
        (name, workload(pod)) for name, pods in view.pods_by_node.items() for pod in pods if is_active(pod)
    )
