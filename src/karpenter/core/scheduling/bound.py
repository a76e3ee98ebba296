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

if TYPE_CHECKING:
    from karpenter.core.scheduling.market import Market

LINEAR_PROGRAM: Final = "linear program"
EQUAL_VALUES: Final = "equal values for all machines"
_MOST_ITEMS: Final = 160
"""Beyond so many items the program is solved for a sample; the bound holds for all of them."""

_PRIMAL: Final = 4
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
    solved = _program(market, highs) if highs is not None else None
    method = EQUAL_VALUES if solved is None else LINEAR_PROGRAM
    best = _worth(market, _equal_values(market), free, method)
    if solved is not None:
        found = _worth(market, solved, free, method)
        best = found if found.bound >= best.bound else best
    if free is None:
        best = msgspec.structs.replace(best, bound=max(best.bound, _dearest_alone(market)))
    return best


def _dearest_alone(market: Market) -> float:
    """
    Return what the dearest item costs at least by itself, with whole pods on each machine.

    However few its pods are, the machine under the first of them is bought whole.
    """
    each, holds = _own_kind(market)
    whole = np.where(holds, market.price[:, None], np.inf).min(axis=0)
    alone = np.where(np.isfinite(whole), np.maximum(each * market.count, whole), 0.0)
    return float(alone.max(initial=0.0)) * (1 - _SAFETY)


def among_their_own(market: Market) -> NDArray[np.float64]:
    """Return what one pod of each item costs on the best machine full of its equals; 0 if none fits."""
    each, _ = _own_kind(market)
    return np.where(np.isfinite(each), each, 0.0)


def _own_kind(market: Market) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the share of a machine per pod of each item, whole pods on each, and which machines hold any."""
    with np.errstate(divide="ignore", invalid="ignore"):
        most = np.where(market.want > 0, market.room[:, None] / market.want, np.inf).min(axis=2)
    most = np.minimum(np.floor(most + 1e-9), market.cap)
    holds = market.fits & (most > 0)
    return np.where(holds, market.price[:, None] / np.maximum(most, 1.0), np.inf).min(axis=0), holds


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


def _program(market: Market, highspy: Any) -> NDArray[np.float64] | None:
    """Return the dual values of the fluid program, over a sample of items when there are many."""
    sample = _sample(market)
    count, want, fits = market.count[sample], market.want[sample], market.fits[:, sample]
    if len(sample) < len(market.count):
        count = count * (market.count.sum() / count.sum())
    machine, item = np.nonzero(fits)
    pods, machines, width = len(sample), len(market.price), want.shape[1]
    scale = np.maximum(market.room.max(axis=0), 1.0)
    lp = highspy.HighsLp()
    flows = len(item)
    # Columns: the flow of each item to each machine it fits, then how much of each machine is bought.
    start = [np.arange(flows) * (1 + width)]
    index = np.concatenate(
        [item[:, None], pods + machine[:, None] * width + np.arange(width)[None]], axis=1
    ).ravel()
    value = np.concatenate([np.ones((flows, 1)), want[item] / scale], axis=1).ravel()
    bought_index = (pods + np.arange(machines)[:, None] * width + np.arange(width)[None]).ravel()
    bought_value = (-market.room / scale).ravel()
    start.append(flows * (1 + width) + np.arange(machines + 1) * width)
    lp.num_col_, lp.num_row_ = flows + machines, pods + machines * width
    lp.col_cost_ = np.concatenate([np.zeros(flows), market.price])
    lp.col_lower_ = np.zeros(lp.num_col_)
    lp.col_upper_ = np.full(lp.num_col_, highspy.kHighsInf)
    served = fits.any(axis=0)
    lp.row_lower_ = np.concatenate(
        [np.where(served, count, 0.0), np.full(machines * width, -highspy.kHighsInf)]
    )
    lp.row_upper_ = np.concatenate([np.full(pods, highspy.kHighsInf), np.zeros(machines * width)])
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_ = np.concatenate(start)
    lp.a_matrix_.index_ = np.concatenate([index, bought_index])
    lp.a_matrix_.value_ = np.concatenate([value, bought_value])
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    solver.setOptionValue("simplex_strategy", _PRIMAL)  # several times as fast on many items
    solver.passModel(lp)
    solver.run()
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return None
    dual = np.array(solver.getSolution().row_dual, np.float64)[pods:].reshape(machines, width)
    found: NDArray[np.float64] = -dual / scale
    return found


def _library() -> Any:
    """Return the optional library for linear programs, or None; it is looked up when it is first needed."""
    try:
        return import_module("highspy")
    except ImportError:
        return None


def _sample(market: Market) -> NDArray[np.int64]:
    """Return the items that say most about the demand: the heaviest ones."""
    if len(market.count) <= _MOST_ITEMS:
        return np.arange(len(market.count))
    weight = market.count * (market.want / np.maximum(market.room.max(axis=0), 1.0)).sum(axis=1)
    return np.sort(np.argsort(-weight, kind="stable")[:_MOST_ITEMS])
