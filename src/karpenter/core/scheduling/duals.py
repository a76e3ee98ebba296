"""
The best values for the resources of machines: the dual of the fluid program, kept small.

The program grows with items times machines, so it is solved for a sample of the items and
for the machines that matter. A machine that was left out gets the values of whichever machine
in the program suits it best, stretched to its own price. Where that undervalues pods, the machine
joins the program, which is solved again. Whatever comes out is a valid choice of values;
what it proves is for the bound to work out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from karpenter.core.scheduling.cells import cells

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karpenter.core.scheduling.market import Market

_ITEMS: Final = 160
"""Items that the program is solved for; when there are more, those of about one size are taken for one."""

_KINDS: Final = 80
"""Up to so many different choices of machines are kept apart in that."""

_MACHINES: Final = 96
"""Machines that the program begins with."""

_EACH: Final = 3
"""Machines for every group of items that may use the same ones."""

_CANDIDATES: Final = 32
"""Values that a machine outside of the program may take over."""

_JOINING: Final = 32
_ROUNDS: Final = 4
_PRIMAL: Final = 4
_ENOUGH: Final = 1e-3
"""The share of the bound for which another round is not worth it."""


def best_values(market: Market, highspy: Any) -> NDArray[np.float64] | None:
    """Return what a unit of each resource is worth on each machine; None when the program is not solved."""
    sample = _sample(market)
    found: NDArray[np.float64] | None = None
    chosen = _promising(sample)
    for _ in range(_ROUNDS):
        solved = _program(_only(sample, chosen), highspy)
        if solved is None:
            return found
        found, undervalued = _extended(sample, chosen, solved)
        if not len(undervalued):
            break
        chosen = np.union1d(chosen, undervalued)
    return found


def _sample(market: Market) -> Market:
    """Return the market with fewer items: those of about one size as one of their middle size."""
    if len(market.count) <= _ITEMS:
        return market
    users = [column.tobytes() for column in market.fits.T]
    kinds: list[bytes] = users if len(set(users)) <= _KINDS else [b""] * len(users)
    alike = cells(market.want, market.count, kinds, _ITEMS)
    largest = np.array([each[int(market.want[each].sum(axis=1).argmax())] for each in alike], np.int64)
    count = np.array([market.count[each].sum() for each in alike])
    total = np.array([market.count[each] @ market.want[each] for each in alike])
    return msgspec.structs.replace(
        market,
        count=count,
        want=total / count[:, None],
        cap=market.cap[largest],
        fits=market.fits[:, largest],
    )


def _promising(market: Market) -> NDArray[np.int64]:
    """Return the machines with the most room for their price, some of them for every group of items."""
    if len(market.price) <= _MACHINES:
        return np.arange(len(market.price))
    total = market.count @ market.want
    share = (market.room[:, total > 0] / total[total > 0]).sum(axis=1)
    order = np.argsort(market.price / np.maximum(share, 1e-9), kind="stable")
    chosen = set(order[:_MACHINES].tolist())
    for users in np.unique(market.fits, axis=1).T:
        chosen.update(order[users[order]][:_EACH].tolist())
    return np.array(sorted(chosen), np.int64)


def _only(market: Market, machines: NDArray[np.int64]) -> Market:
    return msgspec.structs.replace(
        market,
        room=market.room[machines],
        price=market.price[machines],
        fits=market.fits[machines],
        sources=tuple(market.sources[machine] for machine in machines.tolist()),
    )


def _extended(
    market: Market, chosen: NDArray[np.int64], solved: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return values for all machines, and the machines that should join those that were solved for."""
    unit = np.zeros_like(market.room)
    unit[chosen] = np.maximum(solved, 0.0)
    others = np.setdiff1d(np.arange(len(market.price)), chosen)
    if not len(others):
        return unit, others
    pod = _least(market, chosen, unit[chosen])
    room, price, fits = market.room[others], market.price[others], market.fits[others]
    worth = np.full(len(others), -1.0)
    for values in _few(np.unique(unit[chosen], axis=0)):
        spent = room @ values
        stretch = np.where(spent > 0, price / np.maximum(spent, 1e-300), 0.0)
        paid = np.where(fits, np.minimum(stretch[:, None] * (market.want @ values), pod), pod) @ market.count
        better = paid > worth
        worth[better] = paid[better]
        unit[others[better]] = stretch[better, None] * values
    whole = float(pod @ market.count)
    lost = whole - worth
    order = np.argsort(-lost, kind="stable")[:_JOINING]
    return unit, others[order[lost[order] > _ENOUGH * whole / len(market.price)]]


def _few(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return some of many rows, from the first to the last."""
    return values[np.unique(np.linspace(0, len(values) - 1, _CANDIDATES).astype(np.int64))]


def _least(market: Market, machines: NDArray[np.int64], unit: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the least that one pod of each item pays on some machines."""
    pod = np.full(len(market.count), np.inf)
    for machine, values in zip(machines.tolist(), unit, strict=True):
        np.minimum(pod, np.where(market.fits[machine], market.want @ values, np.inf), out=pod)
    pod[~np.isfinite(pod)] = 0.0
    return pod


def _program(market: Market, highspy: Any) -> NDArray[np.float64] | None:
    """Return the dual values of the fluid program."""
    count, want, fits = market.count, market.want, market.fits
    machine, item = np.nonzero(fits)
    pods, machines, width = len(count), len(market.price), want.shape[1]
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
