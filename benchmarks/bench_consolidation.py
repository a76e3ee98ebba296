"""
Consolidation of whole clusters: money saved, pods moved, commands and seconds, beside the classic order.

Each cluster is consolidated pass by pass until nothing more is found, or until the time given to
a strategy is over. What is saved is held against two bounds: the cheapest that any machines for the
same pods could be, and the most that could be saved by moving no more than a fifth of the pods.
Both are proven. Sizes, clusters and patience can be chosen:
``python -m benchmarks.bench_consolidation --machines 150 --cluster slack --patience 20``.

``--small`` compares the processor time of both strategies in 32 clusters for eight or twelve machines of
work, three passes each.

``--large`` is one pass of the default strategy over clusters of up to about 5,000 nodes, each in a process of
its own that holds the cluster as the operator does: decoded from JSON, with what is equal shared between pods
of one owner. How time grows with the number of nodes is the slope of the straight line that fits the
logarithms best.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import time
import tracemalloc
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar
from unittest.mock import patch

import msgspec

from benchmarks.measure import resident
from benchmarks.table import Table, count, seconds, size
from benchmarks.workloads.ceilings import ceiling
from benchmarks.workloads.fleets import NOW, carried_out, fleet
from benchmarks.workloads.waves import Campaign, bill, campaign, least, look
from karpenter.api.node import Node
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodepool import NodePool
from karpenter.api.pod import Pod
from karpenter.core.disruption.disrupt import next_moment
from karpenter.core.disruption.simulate import SimulationResult, Simulator
from karpenter.core.state.cluster import ClusterView, view_of
from karpenter.kube.informer import share

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from karpenter.api.meta import Resource

CLUSTERS: Final = (("slack", 0.35), ("worn", 0.15), ("nearly full", 0.05))
"""What a cluster is called, and which share of its pods has left since its machines were bought."""

MACHINES: Final = (150, 1600)
"""For so many machines there is work; about a sixth fewer are bought, since the largest pods share."""

PATIENCE: Final = 60.0
"""Processor seconds that a strategy may spend on one cluster."""

LARGE: Final = (700, 1400, 2800, 5600)
"""The same for clusters in which one pass is measured."""

R = TypeVar("R")
_KINDS: Final[tuple[type[Resource], ...]] = (NodePool, Node, NodeClaim, Pod)
_FEW_MOVES: Final = 0.2
_SMALL: Final = (8, 12)
_GONE: Final = (0.15, 0.35)
_SEEDS: Final = 8
_PASSES: Final = 3
_HEADERS: Final = (
    "cluster",
    "strategy",
    "machines",
    "pods",
    "first plan",
    "longest pass",
    "all passes",
    "passes",
    "commands",
    "saved",
    "moved",
    "saved at equal moves",
    "at 20% moved, of any plan",
    "of 20% moved",
    "nothing changed",
    "memory",
)


def suite(
    machines: Sequence[int] = MACHINES, patience: float = PATIENCE, clusters: Sequence[str] = ()
) -> Table:
    """Return how both strategies do on the same clusters, all or some of them."""
    rows = [
        row
        for wanted in machines
        for seed, (name, gone) in enumerate(CLUSTERS)
        if not clusters or name in clusters
        for row in _rows(name, fleet(wanted, seed=seed, gone=gone), patience)
    ]
    notes = (
        f"a strategy stops after {patience:.0f} s of processor time (marked *)",
        "saved is a share of the bill; at equal moves: when as many pods have moved as in the classic order,",
        "which is compared at the moves it has made by then where its time was over (*)",
        "at 20% moved: what moving a fifth of the pods has saved, as a share of what any plan could save,",
        "then of what any plan could save that moves a fifth of the pods at most; both are upper bounds",
        "the bounds leave topology out and treat pods and nodes as divisible: no plan reaches them",
        "nothing changed: finding out until when a settled cluster need not be looked at",
        "memory: the most that the first pass held beyond the cluster itself",
    )
    return Table("consolidation", _HEADERS, tuple(rows), notes)


def small_suite() -> Table:
    """Return what the same few passes cost and save under both strategies, in small clusters."""
    views = [
        fleet(wanted, seed=seed, gone=gone, budget="100%" if seed % 2 else "10%")
        for wanted in _SMALL
        for gone in _GONE
        for seed in range(_SEEDS)
    ]
    found: dict[str, list[Passes]] = {"global": [], "classic": []}
    for view in views:
        look(view, "classic")  # what is worked out once per cluster counts for neither
        for strategy, mine in found.items():  # in turn, because the machine is now busy and now idle
            mine.append(Passes.of(view, strategy))
    together = {strategy: Passes(*map(sum, zip(*mine, strict=True))) for strategy, mine in found.items()}
    rows = tuple(
        (
            strategy,
            seconds(mine.spent),
            f"{mine.spent / together['classic'].spent:.2f}",
            count(mine.simulations),
            f"${mine.saved:.2f}",
            count(mine.moved),
        )
        for strategy, mine in together.items()
    )
    notes = (
        f"clusters: {len(views)}, up to {_PASSES} passes each; a pass that finds nothing is the last",
        "saved is per hour; simulations: questions, each packed greedily, by price, or both in turn",
    )
    headers = ("strategy", "processor time", "to classic", "simulations", "saved", "pods moved")
    return Table("consolidation of small clusters", headers, rows, notes)


class Passes(NamedTuple):
    """What some passes over a cluster cost, and what they did."""

    spent: float
    simulations: int
    saved: float
    moved: int

    @classmethod
    def of(cls, view: ClusterView, strategy: str) -> Passes:
        asked, without = [0], Simulator.without
        spent, saved, moved = 0.0, 0.0, 0

        def counted(self: Simulator, *going: Any, **how: Any) -> SimulationResult:
            asked[0] += 1
            return without(self, *going, **how)

        with patch.object(Simulator, "without", counted):
            for turn in range(_PASSES):
                begun = time.process_time()
                decision = look(view, strategy)
                spent += time.process_time() - begun
                for number, command in enumerate(decision.commands):
                    saved, moved = saved + command.saving, moved + command.pods_moved
                    view = carried_out(view, command, turn * 1000 + number)
                if not decision.commands:
                    break
        return cls(spent, asked[0], saved, moved)


def large_suite(machines: Sequence[int] = LARGE) -> Table:
    """Return what one pass over large clusters costs, in time and memory."""
    with TemporaryDirectory() as folder:
        found = [_apart(LargePass.of, _apart(_written, each, folder)) for each in machines]
    rows = tuple(
        (
            count(each.nodes),
            count(each.pods),
            seconds(each.spent),
            str(each.commands),
            size(each.before),
            size(each.most),
        )
        for each in found
    )
    notes = [
        f"{CLUSTERS[0][1]:.0%} of the pods have left since their machines were bought; 10% of nodes may go",
        "memory is all that a process holds which only has the cluster, and has looked at it once",
    ]
    if len(found) > 1:
        notes.append(f"time grows with the number of nodes to the power of {exponent(found):.2f}")
    headers = ("nodes", "pods", "one pass", "commands", "memory before", "memory at most")
    return Table("consolidation of large clusters", headers, rows, tuple(notes))


class LargePass(NamedTuple):
    """What one pass over a large cluster costs."""

    nodes: int
    pods: int
    spent: float
    commands: int
    before: int
    """Bytes that the process held before the pass."""

    most: int
    """Bytes that it held at most."""

    @classmethod
    def of(cls, folder: Path) -> LargePass:
        """Return what a pass costs over a cluster that was written to a folder."""
        view = view_of(each for kind in _KINDS for each in _read(kind, folder))
        before, begun = resident(), time.process_time()
        decision = look(view, "global")
        spent = time.process_time() - begun
        return cls(len(view.nodes), len(view.pods), spent, len(decision.commands), before, resident())


def exponent(passes: Sequence[LargePass]) -> float:
    """Return the power of the number of nodes with which time grows."""
    nodes = [math.log(each.nodes) for each in passes]
    times = [math.log(each.spent) for each in passes]
    middle, level = sum(nodes) / len(nodes), sum(times) / len(times)
    above = sum((x - middle) * (y - level) for x, y in zip(nodes, times, strict=True))
    return above / sum((x - middle) ** 2 for x in nodes)


def _apart(work: Callable[..., R], *given: object) -> R:
    """Return what some work returns in a fresh process."""
    with ProcessPoolExecutor(max_workers=1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(work, *given).result()


def _written(machines: int, folder: str) -> Path:
    """Write a cluster, a file for each kind with an object a line, and return where."""
    view = fleet(machines, seed=0, gone=CLUSTERS[0][1])
    where = Path(folder, str(machines))
    where.mkdir()
    every: tuple[Resource, ...] = (
        *view.pools.values(),
        *view.nodes.values(),
        *view.claims.values(),
        *view.pods.values(),
    )
    for kind in _KINDS:
        lines = [msgspec.json.encode(each) for each in every if type(each) is kind]
        Path(where, kind.__name__).write_bytes(b"\n".join(lines))
    return where


def _read(kind: type[Resource], folder: Path) -> Iterator[Resource]:
    """Yield the objects of a kind; each shares what is equal with one of the same owner, as informers do."""
    siblings: dict[str, Resource] = {}
    decoder = msgspec.json.Decoder(kind)
    with Path(folder, kind.__name__).open("rb") as lines:
        for line in lines:
            found = decoder.decode(line)
            owners = found.metadata.owner_references
            sibling = siblings.setdefault(owners[0].uid if owners else "", found)
            if sibling is not found:
                share(found, sibling)
            yield found


def _rows(name: str, view: ClusterView, patience: float) -> Iterator[tuple[str, ...]]:
    bound, limited = 1 - least(view) / bill(view), ceiling(view, _FEW_MOVES)
    known = campaign(view, "classic", patience=patience)
    ours = campaign(view, "global", patience=patience)
    for strategy, found in (("global", ours), ("classic", known)):
        saved = found.saved_at(int(_FEW_MOVES * len(view.pods)))
        extra = (seconds(_unchanged(view)), size(_memory(view))) if found is ours else ("", "")
        yield (
            name,
            strategy,
            count(len(view.nodes)),
            count(len(view.pods)),
            *_effort(found),
            f"{found.saved:.2%}",
            count(found.moved),
            f"{found.saved_at(known.moved):.2%}",
            f"{saved / bound:.0%} of {bound:.1%}",
            f"{saved / limited:.0%} of {limited:.1%}",
            *extra,
        )


def _effort(found: Campaign) -> tuple[str, ...]:
    spent = seconds(found.spent) + ("" if found.ended else "*")
    return seconds(found.first), seconds(found.longest), spent, str(found.passes), str(found.commands)


def _unchanged(view: ClusterView) -> float:
    begun = time.process_time()
    next_moment(view, NOW)
    return time.process_time() - begun


def _memory(view: ClusterView) -> int:
    """Return the most memory that a pass holds; the view has been looked at before."""
    tracemalloc.start()
    try:
        look(view, "global")
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser("python -m benchmarks.bench_consolidation", description=__doc__)
    parser.add_argument("--machines", type=int, action="append", help="work for so many; may be repeated")
    names = [name for name, _ in CLUSTERS]
    parser.add_argument("--cluster", choices=names, action="append", help="only this one; may be repeated")
    parser.add_argument("--patience", type=float, default=PATIENCE, help="processor seconds per strategy")
    parser.add_argument("--small", action="store_true", help="compare both strategies in small clusters")
    parser.add_argument("--large", action="store_true", help="one pass over large clusters, with its memory")
    chosen = parser.parse_args()
    if chosen.small:
        print(small_suite())
    elif chosen.large:
        print(large_suite(tuple(chosen.machines or LARGE)))
    else:
        print(suite(tuple(chosen.machines or MACHINES), chosen.patience, tuple(chosen.cluster or ())))
