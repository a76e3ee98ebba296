"""
Whether the pods of a command run where the simulation put them.

Evicted pods come back under other names, so they are counted by workload and node. A NodePool whose pods
keep landing elsewhere rests from savings for a while, longer each time: there something other than the
simulation decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from karpenter.core.state.pod import controller_of, is_active

if TYPE_CHECKING:
    from karpenter.api.pod import Pod
    from karpenter.core.disruption.candidates import Candidate
    from karpenter.core.disruption.command import Command
    from karpenter.core.state.cluster import ClusterView


GRACE: Final = timedelta(minutes=2)
"""How long pods may take to run again once their nodes are gone."""

JUDGED_AFTER: Final = timedelta(minutes=30)
"""After so long a command is judged although some of its nodes are still there."""

ENOUGH: Final = 0.5
"""The share of pods that has to land where it was planned."""

_FIRST: Final = timedelta(minutes=5)
_LONGEST: Final = timedelta(hours=4)

Landing: TypeAlias = tuple[str, str]
"""A node and a workload."""


def expected_outcome(
    command: Command,
    candidates: Sequence[Candidate],
    replacements: Mapping[str, str],
    view: ClusterView,
    now: datetime,
) -> ExpectedOutcome:
    """Return what to expect of a command; `replacements` names the node of each new claim."""
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
    return ExpectedOutcome(
        pools=frozenset(each.pool.name for each in candidates),
        leaving=frozenset(each.claim.name for each in candidates),
        planned={landing: count + there[landing] for landing, count in arriving.items()},
        moved=sum(arriving.values()),
        since=now,
    )


class ExpectedOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """Where the pods of a command should be when it is over."""

    pools: frozenset[str]
    leaving: frozenset[str]
    """The claims that go."""

    planned: Mapping[Landing, int]
    """How many pods of each workload there should be on each node."""

    moved: int
    since: datetime


def is_due(expected: ExpectedOutcome, view: ClusterView, now: datetime) -> bool:
    """Whether it can be judged by now where the pods of a command went."""
    if now - expected.since > JUDGED_AFTER:
        return True
    return now - expected.since > GRACE and expected.leaving.isdisjoint(view.claims)


def landed_share(expected: ExpectedOutcome, view: ClusterView) -> float:
    """
    Return the share of pods that did not land elsewhere than planned; 1 when none was meant to be anywhere.

    A pod that is nowhere is no miss: its Job is done, or its workload has shrunk or is gone. A pod that came
    since and runs on another node, or still waits for one, is.
    """
    if not expected.moved:
        return 1.0
    there, missing = _counted(view), Counter[str]()
    for (node, each), count in expected.planned.items():
        missing[each] += max(0, count - there[node, each])
    elsewhere = Counter(
        workload(pod)
        for pod in view.pods.values()
        if is_active(pod)
        and (pod.spec.node_name, workload(pod)) not in expected.planned
        and pod.metadata.creation_timestamp is not None
        and pod.metadata.creation_timestamp >= expected.since
    )
    missed = sum(min(count, elsewhere[each]) for each, count in missing.items())
    return max(0.0, 1 - missed / expected.moved)


def next_rest(rest: RestPeriod | None, share: float, now: datetime) -> RestPeriod | None:
    """Return how long a NodePool rests after a command of which a share of pods landed as planned."""
    if share >= ENOUGH:
        return None
    length = _FIRST if rest is None else min(2 * rest.length, _LONGEST)
    return RestPeriod(length, now + length)


class RestPeriod(msgspec.Struct, frozen=True):
    """How long no savings are looked for in a NodePool, and until when."""

    length: timedelta
    until: datetime


def workload(pod: Pod) -> str:
    """Return the workload that a pod belongs to; empty for a pod that no controller recreates."""
    # A pod without a controller does not come back, so it is expected nowhere.
    owner = controller_of(pod)
    return f"{pod.metadata.namespace}/{owner.kind}/{owner.name}" if owner is not None else ""


def _counted(view: ClusterView) -> Counter[Landing]:
    return Counter(
        (name, workload(pod)) for name, pods in view.pods_by_node.items() for pod in pods if is_active(pod)
    )
