"""
Consolidating a whole cluster, command by command, until nothing more is found.

Each command is carried out at once: its pods run where they were promised a place. What was
saved and moved by then is a point of a curve, so that strategies can be compared at the same
number of moves.
"""

from __future__ import annotations

import time
from datetime import timedelta
from typing import NamedTuple

import msgspec

from benchmarks.workloads.fleets import NOW, carried_out, loose, market
from karpenter.core.disruption.cost import price_of
from karpenter.core.disruption.disrupt import DisruptionDecision, disrupt
from karpenter.core.disruption.memory import DisruptionMemory
from karpenter.core.disruption.payback import Payback
from karpenter.core.disruption.settings import DisruptionContext, DisruptionSettings
from karpenter.core.scheduling.build.policy import SchedulingPolicy
from karpenter.core.scheduling.problem import Options
from karpenter.core.scheduling.proof.prove import solve_and_prove
from karpenter.core.state.cluster import ClusterView, view_of
from karpenter.core.state.statenode import state_nodes
from karpenter_local.testing.cluster_problem import build_problem


class Campaign(NamedTuple):
    """What a strategy did to a cluster until it found nothing more, or until its time was over."""

    first: float
    """Processor seconds until the first plan."""

    longest: float
    """Processor seconds of the longest pass."""

    spent: float
    passes: int
    commands: int
    curve: tuple[tuple[int, float], ...]
    """Pods moved and share of the bill saved, after each command."""

    ended: bool

    @property
    def moved(self) -> int:
        return self.curve[-1][0]

    @property
    def saved(self) -> float:
        """The share of the bill that was saved in all."""
        return self.curve[-1][1]

    def saved_at(self, moved: int) -> float:
        """Return what was saved by so many moves; between two commands, the share of the second."""
        before = (0, 0.0)
        for point in self.curve:
            if point[0] > moved:
                part = (moved - before[0]) / (point[0] - before[0])
                return before[1] + part * (point[1] - before[1])
            before = point
        return before[1]


def _context(strategy: str) -> DisruptionContext:
    """Return the settings of a strategy; the classic one does not ask what moving costs."""
    payback = Payback(within=timedelta()) if strategy == "classic" else Payback()
    settings = msgspec.structs.replace(DisruptionSettings(), strategy=strategy, payback=payback, explain=0)
    return DisruptionContext(settings=settings)


def look(view: ClusterView, strategy: str) -> DisruptionDecision:
    return disrupt(view, market(), DisruptionMemory(), now=NOW, context=_context(strategy))


def campaign(view: ClusterView, strategy: str, *, patience: float) -> Campaign:
    """Return what a strategy does to a cluster in so many seconds of processor time."""
    before, start = bill(view), time.process_time()
    curve: list[tuple[int, float]] = [(0, 0.0)]
    spent: list[float] = []
    ended = False
    while not ended and time.process_time() - start < patience:
        begun = time.process_time()
        decision = look(view, strategy)
        spent.append(time.process_time() - begun)
        ended = not decision.commands
        for number, command in enumerate(decision.commands):
            moved, saved = curve[-1]
            curve.append((moved + command.pods_moved, saved + command.saving / before))
            view = carried_out(view, command, len(spent) * 1000 + number)
    whole = time.process_time() - start
    return Campaign(spent[0], max(spent), whole, len(spent), len(curve) - 1, tuple(curve), ended)


def bill(view: ClusterView) -> float:
    """Return what a cluster costs per hour."""
    return sum(price_of(node, market()) or 0.0 for node in state_nodes(view))


def least(view: ClusterView) -> float:
    """Return the least that any machines for the pods of a cluster could cost."""
    alone = view_of([*view.pools.values(), *map(loose, view.pods.values())])
    built = build_problem(
        alone, market(), now=NOW, options=Options(packing="greedy"), policy=SchedulingPolicy()
    )
    return solve_and_prove(built.problem).cost.lower_bound
