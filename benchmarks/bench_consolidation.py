"""
Consolidation of whole clusters: money saved, pods moved, commands and seconds, beside the classic order.

Each cluster is consolidated pass by pass until nothing more is found, or until the time given to
a strategy is over. The bound is the cheapest any machines for the same pods could be.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import msgspec

from benchmarks.table import Table, count, seconds
from benchmarks.workloads.fleets import NOW, carried_out, fleet, market
from karpenter.core.disruption.costs import price_of
from karpenter.core.disruption.propose import Rules, propose
from karpenter.core.scheduling.intake.intake import Policy, take_in
from karpenter.core.scheduling.problem import Options
from karpenter.core.scheduling.solve import solve
from karpenter.core.state.nodes import state_nodes
from karpenter.core.state.view import view_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karpenter.core.state.view import ClusterView

CLUSTERS: Final = (
    ("slack", 150, 0.35),
    ("worn", 150, 0.15),
    ("nearly full", 150, 0.05),
    ("large, slack", 1600, 0.35),
)
PATIENCE: Final = 60.0
"""Processor seconds that a strategy may spend on one cluster."""

MOST_PASSES: Final = 60


def suite() -> Table:
    """Return how both strategies do on the same clusters."""
    rows = [
        row for number, (name, size, gone) in enumerate(CLUSTERS) for row in _rows(name, size, gone, number)
    ]
    headers = (
        "cluster",
        "strategy",
        "machines",
        "pods",
        "first pass",
        "all passes",
        "passes",
        "saved",
        "bound",
        "moved",
    )
    notes = (
        f"a strategy stops after {PATIENCE:.0f} s of processor time or {MOST_PASSES} passes (marked *)",
        "saved and bound are shares of the bill before; the bound leaves spread and company aside",
    )
    return Table("consolidation", headers, tuple(rows), notes)


def _rows(name: str, size: int, gone: float, seed: int) -> Iterator[tuple[str, ...]]:
    view = fleet(size, seed=seed, gone=gone)
    before = _bill(view)
    bound = 1 - _least(view) / before
    for strategy in ("global", "classic"):
        yield _row(name, strategy, view, before, bound)


def _row(name: str, strategy: str, view: ClusterView, before: float, bound: float) -> tuple[str, ...]:
    rules = msgspec.structs.replace(Rules(), strategy=strategy, explain=0)
    now, start, first, moved, passes = view, time.process_time(), 0.0, 0, 0
    ended = False
    while passes < MOST_PASSES and time.process_time() - start < PATIENCE:
        verdict = propose(now, market(), now=NOW, options=Options(), policy=Policy(), rules=rules)
        passes += 1
        first = first or time.process_time() - start
        if not verdict.commands:
            ended = True
            break
        for number, command in enumerate(verdict.commands):
            moved += command.pods_moved
            now = carried_out(now, command, passes * 100 + number)
    spent = time.process_time() - start
    saved = 1 - _bill(now) / before
    return (
        name,
        strategy,
        count(len(view.nodes)),
        count(len(view.pods)),
        seconds(first),
        seconds(spent) + ("" if ended else "*"),
        str(passes),
        f"{saved:.1%}",
        f"{bound:.1%}",
        count(moved),
    )


def _bill(view: ClusterView) -> float:
    return sum(price_of(node, market()) or 0.0 for node in state_nodes(view))


def _least(view: ClusterView) -> float:
    """Return the least that any machines for the pods of a cluster could cost."""
    loose = [
        msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=""))
        for pod in view.pods.values()
    ]
    alone = view_of([*view.pools.values(), *loose])
    intake = take_in(alone, market(), now=NOW, options=Options(packing="greedy"), policy=Policy())
    return solve(intake.problem).cost.lower_bound
