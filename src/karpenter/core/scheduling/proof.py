"""
The lower bound of a whole problem: what no placement of its pods could cost less than.

Every pod that was placed counts, on the offerings of every pool that could serve it in any
of its readings, preferences aside; limits, weights and company are left aside as well, which
only lowers the bound. Room on existing nodes costs nothing and is used as well as it could ever be.
"""

from __future__ import annotations

from collections import Counter
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Final

import numpy as np

from karpenter.core.scheduling.bound import values
from karpenter.core.scheduling.market import Item, market

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from karpenter.core.scheduling.bits import Bits
    from karpenter.core.scheduling.run import Run
    from karpenter.core.scheduling.templates import Template
    from karpenter.core.scheduling.wishes import Wish

_MASKS: Final = 63
"""Sets of offerings that are told apart; which machines beat which is asked for each."""


def lower_bound(run: Run, left: Mapping[int, int]) -> tuple[float, str]:
    """Return the bound for the pods that a run has placed, and how it was proved."""
    demand: Counter[Item] = Counter()
    for each in run.encoded.classes:
        count = len(each.pods) - left.get(each.number, 0)
        if count:
            demand[item_of(run, run.wishes[each.number])] += count
    demand = _with_few_masks(demand)
    proof = run.encoded.proved.get(frozenset(demand.items())) if not run.nodes.count else None
    if proof is None:
        found = market(list(demand), list(demand.values()), run.templates)
        proof = values(found, _free(run) if run.nodes.count else None)
    return proof.bound, proof.method


def _with_few_masks(demand: Counter[Item]) -> Counter[Item]:
    """
    Return a demand that is no harder to serve, with few different sets of offerings.

    Beyond the sets that most pods have, every pod may use what any of the others may.
    """
    pods: Counter[tuple[Bits, ...]] = Counter()
    for item, count in demand.items():
        pods[item.bits] += count
    if len(pods) <= _MASKS:
        return demand
    own = {mask for mask, _ in pods.most_common(_MASKS)}
    rest = [mask for mask in pods if mask not in own]
    union = tuple(reduce(or_, column) for column in zip(*rest, strict=True))
    found: Counter[Item] = Counter()
    for item, count in demand.items():
        found[item if item.bits in own else Item(item.want, union, item.cap)] += count
    return found


def item_of(run: Run, wishes: Sequence[Wish]) -> Item:
    """Return the pods of a class as the market sees them."""
    bits = tuple(_usable(run, wishes, template) for template in run.templates)
    return Item(wishes[0].of.want, bits)


def _usable(run: Run, wishes: Sequence[Wish], template: Template) -> Bits:
    """Return the offerings that some reading can use; each alternative of a node affinity is in another."""
    base, bits = run.base(template), 0
    if not wishes[-1].tolerates(template):  # the last reading tolerates the most
        return bits
    for strict in dict.fromkeys(wish.strict for wish in wishes):
        state = run.states.step(base, strict)
        if state is not None:
            bits |= run.devices.possible(wishes[0].of, state) if run.devices is not None else state.bits
    return bits


def _free(run: Run) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return all room on existing nodes before anything was placed."""
    axis = run.encoded.axis
    return np.array(
        [sum(max(node.free.get(name, 0), 0) for node in run.problem.nodes) for name in axis], np.float64
    )
