"""
The lower bound of a whole problem: what no placement of its pods could cost less than.

Every pod that was placed counts, in its least demanding reading, on the offerings of every
pool that could serve it; limits, weights and company are left aside, which only lowers the
bound. Room on existing nodes costs nothing and is used as well as it could ever be.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from karpenter.core.scheduling.bound import values
from karpenter.core.scheduling.market import Item, market

if TYPE_CHECKING:
    from collections.abc import Mapping

    from karpenter.core.scheduling.bits import Bits
    from karpenter.core.scheduling.run import Run
    from karpenter.core.scheduling.templates import Template
    from karpenter.core.scheduling.wishes import Wish


def lower_bound(run: Run, left: Mapping[int, int]) -> tuple[float, str]:
    """Return the bound for the pods that a run has placed, and how it was proved."""
    demand: Counter[Item] = Counter()
    for each in run.encoded.classes:
        count = len(each.pods) - left.get(each.number, 0)
        if count:
            demand[_item(run, run.wishes[each.number][-1])] += count
    found = market(list(demand), list(demand.values()), run.templates)
    proof = values(found, _free(run) if run.nodes.count else None)
    return proof.bound, proof.method


def _item(run: Run, wish: Wish) -> Item:
    return Item(wish.of.want, tuple(_usable(run, wish, template) for template in run.templates))


def _usable(run: Run, wish: Wish, template: Template) -> Bits:
    if not wish.tolerates(template):
        return 0
    state = run.states.step(run.states.of(template, template.pool.requirements, template.bits), wish.strict)
    return state.bits if state is not None else 0


def _free(run: Run) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return all room on existing nodes before anything was placed."""
    axis = run.encoded.axis
    return np.array(
        [sum(max(node.free.get(name, 0), 0) for node in run.problem.nodes) for name in axis], np.float64
    )
