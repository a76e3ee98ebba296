"""
Packing by price: fill every promising machine, buy the one with the lowest price per value, repeat.

Each pod has a value: the least that it must cost anywhere (:mod:`.bound`). A machine is filled greedily
with the pods that suit its remaining room; the filled machine with the lowest price per value is bought as
often as the demand allows. What suits depends on a fill rule: whether valuable pods go first, and whether
resources are weighted by their dual values or by the total demand. Several rules are tried. Then a few
wasteful machines at a time are repacked with changing rules, as long as that saves money.

Works on a `Market`; knows nothing of pods, labels or topology. Deterministic for a seed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from karpenter.core.scheduling.encode.nodeclaimtemplate import packed

if TYPE_CHECKING:
    from karpenter.core.scheduling.price.bound import DualValues, Market

_WORTH_A_LOOK: Final = 1.06
"""Machines are considered whose price is within this factor of the best value that they could hold."""

_AT_LEAST: Final = 8
_FILL_SHARE: Final = 0.6
"""The share of the pods that would still fit that is added at once."""

_BUY_SHARE: Final = 0.85
"""The share of the possible number of equal machines that is bought at once."""

_STEPS: Final = 600
_ROUNDING: Final = 1 + 1e-15
"""Makes up for the rounding error of a division and no more: a machine that lacks one byte is too small."""

_FLOOR: Final = 0.15
"""The least weight of a resource."""

_PLENTY: Final = 1e15
"""Stands for an unlimited number of pods that do not request a resource."""

_SHAPES: Final = 12
"""How many different machine sizes are filled side by side."""

_ITEMS: Final = 128
"""How many items are considered for one machine, those with the most value left first."""

_MAX_FAILURES: Final = 15
"""After this many rounds without a saving, improving ends."""

_LOADS: Final = 512
"""How many loads a machine is chosen for in one array operation."""


class FillRule(NamedTuple):
    """How the next pod for a machine is chosen."""

    value_exponent: float
    """The weight of a pod's value against its size."""

    demand_share: float
    """How much a resource is weighted by the total demand for it rather than by its dual value."""


_FILL_RULES: Final = (FillRule(1.0, 0.6), FillRule(0.0, 1.0), FillRule(0.5, 0.6))


class Packing(msgspec.Struct, frozen=True):
    """A set of machines: what each holds, and which it is."""

    holds: NDArray[np.float64]
    """``holds[bought, item]``."""

    machine: NDArray[np.int64]
    price: NDArray[np.float64]

    @property
    def cost(self) -> float:
        """What they cost together, per hour."""
        return float(self.price.sum())


def pack_by_price(market: Market, values: DualValues, *, rounds: int, seed: int) -> Packing:
    """Return machines for the whole demand, every item of which some machine must fit."""
    packer = _Packer(market, values)
    # No fill rule wins on every demand, and covering is fast, so all are tried.
    tried = [packer.priced(packer.cover(market.count, values.pod, rule)) for rule in _FILL_RULES]
    found = min(tried, key=lambda each: each.cost)
    return packer.improve(found, rounds=rounds, rng=np.random.default_rng(seed))


class _Packer:
    def __init__(self, market: Market, values: DualValues) -> None:
        self._market = market
        self._values = values
        worth = _shares(values.unit * market.room)
        with np.errstate(divide="ignore", invalid="ignore"):
            need = _shares(np.where(market.room > 0, (market.count @ market.want)[None] / market.room, 0.0))
        self._weight = {
            rule: np.maximum((1 - rule.demand_share) * worth + rule.demand_share * need, _FLOOR)
            for rule in _FILL_RULES
        }
        alike = np.column_stack([market.room, market.price])
        self._shape = np.unique(alike, axis=0, return_inverse=True)[1].reshape(-1)
        self._main = self._worthwhile()
        self._by_price = np.argsort(market.price, kind="stable")
        self._room = (market.room[self._by_price] + 1e-6).T.copy()
        self._barred = packed(~market.fits[self._by_price]).T.copy()

    def _worthwhile(self) -> NDArray[np.int64]:
        """Return the machines that could be part of a cheapest plan."""
        market = self._market
        best = np.full(len(market.price), np.inf)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(market.room[:, None] > 0, market.want[None] / market.room[:, None], 0.0)
        for mix in _mixes(self._market, share):
            worth = np.where(market.fits, self._values.pod[None] / np.maximum(share @ mix, 1e-300), 0.0)
            np.minimum(best, worth.max(axis=1), out=best)
        self._ratio = market.price / np.maximum(best, 1e-300)
        limit = max(_WORTH_A_LOOK, float(np.sort(self._ratio)[min(len(best), _AT_LEAST) - 1]))
        return np.flatnonzero(self._ratio <= limit)

    def _few(self, machines: NDArray[np.int64], value: NDArray[np.float64]) -> NDArray[np.int64]:
        """
        Return the most promising of some machines, for what is left of a demand by its `value`.

        Of equal machines that different items may use, such as in several zones, the one with the most
        demand is taken; else one zone would take the pods that fit anywhere, and nothing would fill up the
        nodes of another.
        """
        reach = self._market.fits[machines] @ value
        order = np.lexsort((-reach, self._shape[machines]))
        first = order[np.unique(self._shape[machines[order]], return_index=True)[1]]
        return machines[first[np.argsort(self._ratio[machines[first]], kind="stable")][:_SHAPES]]

    def cover(
        self, demand: NDArray[np.float64], worth: NDArray[np.float64], rule: FillRule
    ) -> NDArray[np.float64]:
        """Return what machines hold that together serve `demand`."""
        left = demand.copy()
        bought = []
        price = self._market.price
        while left.sum() > 0:
            active = np.flatnonzero(left > 0)
            offered = left * worth
            value = float(offered.sum())
            if len(active) > _ITEMS:
                active = np.sort(active[np.argsort(-offered[active], kind="stable")[:_ITEMS]])
            machines = self._main
            if (
                value <= 3 * price[machines].max()
            ):  # the tail of the demand: no machine much larger than what is left
                machines = np.flatnonzero(price <= 1.6 * value + 2 * price.min())
            machines = self._few(machines, offered)
            if not self._market.fits[np.ix_(machines, active)].any():  # no pod that is left may use them
                heaviest = active[int(offered[active].argmax())]
                machines = self._few(np.flatnonzero(self._market.fits[:, heaviest]), offered)
            holds = self._best(left, worth, active, machines, rule)
            held = holds > 0
            times = max(1, int((left[held] // holds[held]).min()))
            if times > 3:  # noqa: PLR2004  small lots are bought whole
                times = int(times * _BUY_SHARE)
            left -= times * holds
            bought.append(np.repeat(holds[None], times, axis=0))
        return np.concatenate(bought)

    def _best(
        self,
        left: NDArray[np.float64],
        worth: NDArray[np.float64],
        active: NDArray[np.int64],
        machines: NDArray[np.int64],
        rule: FillRule,
    ) -> NDArray[np.float64]:
        """Return what the filled machine with the lowest price per value holds, if any takes a pod."""
        filled = self._fill(left, worth, active, machines, rule)
        value = filled @ worth[active]
        present = np.zeros((len(filled), len(left)), bool)
        present[:, active] = filled > 0
        cost = self._cheapest(filled @ self._market.want[active], present)[0]
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(value > 0, cost / value, np.inf)
        if not np.isfinite(ratio).any():  # pods without value go to the cheapest machine
            ratio = np.where(filled.any(axis=1), cost, np.inf)
        holds = np.zeros(len(left))
        holds[active] = filled[int(ratio.argmin())]
        return holds

    def _fill(
        self,
        left: NDArray[np.float64],
        worth: NDArray[np.float64],
        active: NDArray[np.int64],
        machines: NDArray[np.int64],
        rule: FillRule,
    ) -> NDArray[np.float64]:
        """Fill one of each machine; return ``held[machine, item]``."""
        market = self._market
        want, room = market.want[active], market.room[machines].T
        open_ = np.where(
            market.fits[np.ix_(machines, active)], np.minimum(left[active], market.cap[active])[None], 0.0
        )
        # A tiny amount of room lets pods that do not request a resource onto machines that lack it.
        spare = room[:, :, None] + 1e-6
        with np.errstate(divide="ignore", invalid="ignore"):
            pull = np.where(room[:, :, None] > 0, want.T[:, None] / room[:, :, None], 0.0)
            inverse = np.where(want > 0, 1 / want, _PLENTY).T[:, None]
        pull *= self._weight[rule][machines].T[:, :, None]
        if rule.value_exponent:
            pull *= (worth[active] / np.maximum(pull.sum(axis=0), 1e-300)) ** rule.value_exponent
        pull /= np.maximum(room[:, :, None], 1e-300)
        held = np.zeros_like(open_)
        rows = np.arange(len(machines))
        terms, most, score = np.empty_like(pull), np.empty_like(open_), np.empty_like(open_)
        for _ in range(_STEPS):
            np.multiply(spare, inverse, out=terms)
            _gather(np.minimum, terms, most)
            np.multiply(pull, spare, out=terms)
            _gather(np.add, terms, score)
            np.multiply(most, _ROUNDING, out=most)
            np.floor(most, out=most)
            np.minimum(most, open_, out=most)
            score[most <= 0] = -1.0
            choice = score.argmax(axis=1)
            going = score[rows, choice] >= 0
            if not going.any():
                break
            some, item = rows[going], choice[going]
            fit = most[some, item]
            bite = np.minimum(np.maximum(1.0, np.floor(fit * _FILL_SHARE)), fit)
            held[some, item] += bite
            open_[some, item] -= bite
            spare[:, some, 0] -= bite * want[item].T
        return held

    def _cheapest(
        self, used: NDArray[np.float64], present: NDArray[np.bool_]
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return the lowest price and its machine for each load; every load fits some machine."""
        which = np.empty(len(used), np.int64)
        for start in range(0, len(used), _LOADS):
            some = slice(start, start + _LOADS)
            fine = used[some, 0, None] <= self._room[0]
            for resource, room in enumerate(self._room[1:], start=1):
                fine &= used[some, resource, None] <= room
            for word, barred in zip(packed(present[some]).T, self._barred, strict=True):
                fine &= word[:, None] & barred == 0
            which[some] = self._by_price[fine.argmax(axis=1)]
        return self._market.price[which], which

    def priced(self, holds: NDArray[np.float64]) -> Packing:
        """Return loads with the cheapest machine for each."""
        price, which = self._cheapest(holds @ self._market.want, holds > 0)
        return Packing(holds, which, price)

    def improve(self, found: Packing, *, rounds: int, rng: np.random.Generator) -> Packing:
        """Repack a few wasteful machines at a time, as long as that saves money."""
        # Large neighbourhood search: a few machines are emptied and their pods covered again with perturbed
        # values.
        worth = self._values.pod
        failures = 0
        for _ in range(rounds):
            if failures == _MAX_FAILURES or len(found.price) < 2:  # noqa: PLR2004  one machine cannot be rearranged
                break
            failures += 1
            waste = found.price - found.holds @ worth
            size = int(rng.integers(2, min(8, len(found.price) + 1)))
            if rng.random() < _BUY_SHARE:
                some = np.argsort(-waste * rng.uniform(0.1, 1, len(waste)), kind="stable")[:size]
            else:
                some = rng.choice(len(waste), size, replace=False)
            demand = found.holds[some].sum(axis=0)
            rule = _FILL_RULES[int(rng.integers(len(_FILL_RULES)))]
            again = self.priced(self.cover(demand, worth * rng.uniform(0.85, 1.15, len(worth)), rule))
            if again.cost < float(found.price[some].sum()) - 1e-9:
                failures = 0
                rest = np.delete(np.arange(len(found.price)), some)
                found = Packing(
                    np.concatenate([found.holds[rest], again.holds]),
                    np.concatenate([found.machine[rest], again.machine]),
                    np.concatenate([found.price[rest], again.price]),
                )
        return found


def _shares(amounts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the weight of each resource on each machine, one on average."""
    total, width = amounts.sum(axis=1, keepdims=True), amounts.shape[1]
    shares: NDArray[np.float64] = np.where(total > 0, amounts / np.maximum(total, 1e-300), 1 / width) * width
    return shares


def _gather(how: np.ufunc, terms: NDArray[np.float64], into: NDArray[np.float64]) -> None:
    """Combine the layers of an array; on few layers this is several times as fast as reducing an axis."""
    into[:] = terms[0]
    for layer in terms[1:]:
        how(into, layer, out=into)


def _mixes(market: Market, share: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """Return weights over the resources that matter, from one extreme to the other."""
    width = market.want.shape[1]
    active = [r for r in range(width) if share[:, :, r].max(initial=0.0) > 0]
    steps = 10 if len(active) <= 3 else 4  # noqa: PLR2004  the grid grows with the number of resources
    found = []
    for parts in _compositions(steps, len(active)):
        mix = np.zeros(width)
        mix[active] = np.array(parts) / steps
        found.append(mix)
    return found


def _compositions(total: int, parts: int) -> list[tuple[int, ...]]:
    if parts == 1:
        return [(total,)]
    return [(first, *rest) for first in range(total + 1) for rest in _compositions(total - first, parts - 1)]
