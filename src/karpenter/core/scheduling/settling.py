"""
Many choices as one: pods that may use very different machines are settled on a few.

Packing fills machines with whatever may share them, which cannot be worked out when nearly
every pod has a choice of its own. Then each pod is settled on the machine where it takes up the
least money, out of the few on which most of the money would be spent; after that, pods on one
machine have a choice in common. Only the packing is settled: what a claim may be bought as still
follows from what its pods allow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from karpenter.core.scheduling.bound import values
from karpenter.core.scheduling.market import Item, market

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from karpenter.core.scheduling.templates import Template

_FEW: Final = 24
"""Machines that pods are settled on; only those that none of them fits get others."""

_CHUNK: Final = 512


def settled(items: Sequence[Item], counts: Sequence[float], template: Template) -> list[Item]:
    """Return the items, each with one offering that it may use instead of many."""
    demand = market(items, counts, [template])
    found = values(demand)
    best, spent = _best(demand.want, demand.fits, found.unit, np.arange(len(demand.price)))
    money = np.bincount(best, weights=spent * demand.count, minlength=len(demand.price))
    few = np.sort(np.argsort(-money, kind="stable")[:_FEW])
    again, _ = _best(demand.want, demand.fits, found.unit, few)
    chosen = np.where(again >= 0, again, best)
    return [
        Item(item.want, (1 << demand.sources[machine][1],), item.cap)
        for item, machine in zip(items, chosen.tolist(), strict=True)
    ]


def _best(
    want: NDArray[np.float64], fits: NDArray[np.bool_], unit: NDArray[np.float64], machines: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return on which of some machines each item takes up the least money, and how much; -1 if none fits."""
    best, spent = np.full(len(want), -1, np.int64), np.zeros(len(want))
    for start in range(0, len(want), _CHUNK):
        some = slice(start, start + _CHUNK)
        cost = np.where(fits[machines, some].T, want[some] @ unit[machines].T, np.inf)
        cheapest = cost.argmin(axis=1)
        least = cost[np.arange(len(cost)), cheapest]
        fine = np.isfinite(least)
        best[some][fine], spent[some][fine] = machines[cheapest[fine]], least[fine]
    return best, spent
