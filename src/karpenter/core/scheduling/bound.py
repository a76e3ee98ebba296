"""
The least that any plan could cost, with a proof.

Suppose pods could be cut into crumbs and machines bought by the slice. The cheapest way to
serve that demand is a linear program, and no real plan can beat it. Its dual gives each
resource of each machine a value: values under which no machine is worth more than its price.
Adding up what the pods would pay at those values is a lower bound whatever the values are,
so the bound is always computed from the values, never taken from the program's own answer.

With the optional library ``highspy`` the values are the best there are. Without it they are
the best that are equal for all machines, which gives a weaker bound, and says so.
"""

from __future__ import annotations

from importlib import import_module
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from karpenter.core.scheduling.duals import best_values

if TYPE_CHECKING:
    from karpenter.core.scheduling.market import Market

LINEAR_PROGRAM: Final = "linear program"
EQUAL_VALUES: Final = "equal values for all machines"
_CHUNK: Final = 512
_SAFETY: Final = 1e-9


class Values(msgspec.Struct, frozen=True):
    """What a unit of each resource is worth on each machine, and what follows."""

    unit: NDArray[np.float64]
    """``unit[machine, resource]``; over a whole machine never more than its price."""

    pod: NDArray[np.float64]
    """``pod[item]``: the least that one pod of the item must cost."""

    bound: float
    method: str


def values(market: Market, free: NDArray[np.float64] | None = None) -> Values:
    """
    Return values that prove a lower bound for serving the whole demand.

    `free` is room that costs nothing, as one sum; pods may be served from it as well.
    """
    highs = _library()
    solved = best_values(market, highs) if highs is not None else None
    method = EQUAL_VALUES if solved is None else LINEAR_PROGRAM
    best = _worth(market, _equal_values(market), free, method)
    if solved is not None:
        found = _worth(market, solved, free, method)
        best = found if found.bound >= best.bound else best
    if free is None:
        best = msgspec.structs.replace(best, bound=max(best.bound, _dearest_alone(market, best.pod)))
    return best


def _dearest_alone(market: Market, pod: NDArray[np.float64]) -> float:
    """
    Return what the dearest item costs at least by itself, with whole pods on each machine.

    However few its pods are, the machine under the first of them is bought whole. Of many items only
    those that cost most by their values are looked at.
    """
    items = np.argsort(-pod * market.count, kind="stable")[:_CHUNK]
    each, whole = _own_kind(
        msgspec.structs.replace(
            market, want=market.want[items], cap=market.cap[items], fits=market.fits[:, items]
        )
    )
    alone = np.where(np.isfinite(whole), np.maximum(each * market.count[items], whole), 0.0)
    return float(alone.max(initial=0.0)) * (1 - _SAFETY)


def among_their_own(market: Market) -> NDArray[np.float64]:
    """Return what one pod of each item costs on the best machine full of its equals; 0 if none fits."""
    each, _ = _own_kind(market)
    return np.where(np.isfinite(each), each, 0.0)


def _own_kind(market: Market) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the share of a machine per pod of each item, whole pods on each, and a whole machine's price."""
    each, whole = np.full(len(market.want), np.inf), np.full(len(market.want), np.inf)
    for start in range(0, len(each), _CHUNK):
        some = slice(start, start + _CHUNK)
        want = market.want[some]
        with np.errstate(divide="ignore", invalid="ignore"):
            most = np.where(want > 0, market.room[:, None] / want, np.inf).min(axis=2)
        most = np.minimum(np.floor(most + 1e-9), market.cap[some])
        price = np.where(market.fits[:, some] & (most > 0), market.price[:, None], np.inf)
        each[some] = (price / np.maximum(most, 1.0)).min(axis=0)
        whole[some] = price.min(axis=0)
    return each, whole


def _worth(
    market: Market, unit: NDArray[np.float64], free: NDArray[np.float64] | None, method: str
) -> Values:
    """Return the bound that some values prove, after making sure that they are allowed."""
    unit = np.maximum(unit, 0.0)
    spent = (unit * market.room).sum(axis=1)
    scale = np.minimum(1.0, market.price / np.maximum(spent, 1e-300))
    unit *= scale[:, None]
    pod = np.full(len(market.count), np.inf)
    for machine in range(len(market.price)):
        cost = market.want @ unit[machine]
        np.minimum(pod, np.where(market.fits[machine], cost, np.inf), out=pod)
    pod[~np.isfinite(pod)] = 0.0  # nothing fits: the pod is refused and costs nothing
    bound = float(market.count @ pod)
    if free is not None and bound > 0:
        bound, pod = _with_free_room(market, pod, free)
    return Values(unit, pod, max(0.0, bound * (1 - _SAFETY)), method)


def _with_free_room(
    market: Market, pod: NDArray[np.float64], free: NDArray[np.float64]
) -> tuple[float, NDArray[np.float64]]:
    """
    Take off the most that free room can be worth.

    The shares of all its resources that pods use may add up to no more than there are
    resources; filling that with the dearest pods first is at least as good as any real use.
    """
    shares = (market.want / np.maximum(free, 1e-9)).sum(axis=1)
    order = np.argsort(-pod / np.maximum(shares, 1e-300))
    left, saved = float(len(free)), 0.0
    for item in order.tolist():
        need = float(market.count[item] * shares[item])
        part = 1.0 if need <= left else left / need
        saved += part * float(market.count[item] * pod[item])
        left -= part * need
        if left <= 0:
            break
    return max(0.0, float(market.count @ pod) - saved), pod


def _equal_values(market: Market) -> NDArray[np.float64]:
    """Return one value per resource, the same on every machine, that is worth the most in all."""
    total = market.count @ market.want
    best, found = 0.0, np.zeros(market.want.shape[1])
    active = np.flatnonzero(total > 0)
    for resource in active.tolist():
        rate = _rate(market, np.eye(len(total))[resource])
        if rate[resource] * total[resource] > best:
            best, found = float(rate @ total), rate
    for first, second in combinations(active.tolist(), 2):
        for share in np.linspace(0.05, 0.95, 19):
            mix = np.zeros(len(total))
            mix[first], mix[second] = share / total[first], (1 - share) / total[second]
            rate = _rate(market, mix)
            if float(rate @ total) > best:
                best, found = float(rate @ total), rate
    return np.repeat(found[None], len(market.price), axis=0)


def _rate(market: Market, direction: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the longest vector in a direction that no machine's price forbids."""
    reach = market.room @ direction
    with np.errstate(divide="ignore", invalid="ignore"):
        longest = np.where(reach > 0, market.price / reach, np.inf).min()
    return direction * (longest if np.isfinite(longest) else 0.0)


def _library() -> Any:
    """Return the optional library for linear programs, or None; it is looked up when it is first needed."""
    try:
        return import_module("highspy")
    except ImportError:
        return None
