"""
The least that machines for some pods could cost, however they were exchanged: how far savings could ever go.

Every machine that is there may stay, or be bought again, for what it costs; others are for sale as ever;
and free room on machines that savings do not touch costs nothing. What no such purchase can beat is a
bound for every plan. Spread, company and the sizes of pods are left aside, so it may be out of reach.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from karpenter.core.scheduling.bound import values
from karpenter.core.scheduling.encode import Encoded
from karpenter.core.scheduling.market import market
from karpenter.core.scheduling.proof import item_of
from karpenter.core.scheduling.run import Run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karpenter.core.disruption.candidates import Candidate
    from karpenter.core.scheduling.market import Item
    from karpenter.core.scheduling.problem import Problem


def least_cost(problem: Problem, candidates: Sequence[Candidate]) -> float:
    """Return what the pods of some machines must cost at least; `problem` has every pod where it was."""
    run = Run(Encoded(problem))
    homes = {pod.key: each.name for each in candidates for pod in each.movable}
    demand: Counter[Item] = Counter()
    held = {each.name: np.zeros(len(run.encoded.axis), np.int64) for each in candidates}
    for each in run.encoded.classes:
        mine = [homes[pod.key] for pod in each.pods if pod.key in homes]
        if mine:
            demand[item_of(run, run.wishes[each.number])] += len(mine)
        for name in mine:
            held[name] += each.vector
    if not demand or not run.templates:
        return 0.0
    there = {node.name: np.maximum(run.nodes.free[:, at], 0) for at, node in enumerate(problem.nodes)}
    rooms = np.array([there[each.name] + held[each.name] for each in candidates], np.float64)
    prices = np.array([each.price or 0.0 for each in candidates])
    kept = np.unique(np.concatenate([rooms, prices[:, None]], axis=1), axis=0)
    sold = market(list(demand), list(demand.values()), run.templates)
    fits = (sold.want[None] <= kept[:, None, :-1]).all(axis=2)
    both = msgspec.structs.replace(
        sold,
        room=np.concatenate([sold.room, kept[:, :-1]]),
        price=np.concatenate([sold.price, kept[:, -1]]),
        fits=np.concatenate([sold.fits, fits]),
        sources=(*sold.sources, *((-1, -1) for _ in kept)),
    )
    others = [room for name, room in there.items() if name not in held]
    free = np.sum(others, axis=0).astype(np.float64) if others else None
    return values(both, free).bound
