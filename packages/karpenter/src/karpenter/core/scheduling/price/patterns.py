"""
Packing by price: fill every promising machine, buy the one with the lowest price per value, repeat.

Each pod has a value: the least that it must cost anywhere (:mod:`.bound`). A machine is filled greedily
with the pods that suit its remaining room; the filled machine with the lowest price per value is bought as
often as the demand allows. What suits depends on a fill rule: whether valuable pods go first, and whether
resources are weighted by their dual values or by the total demand. Several rules are tried. Then a few
wasteful machines at a time are repacked with changing rules, as long as that saves money.

Where the linear program of the bound tells which pods go to which kind of machine, machines of that kind get
an even share of them each, or are filled as above; only what does not fill a whole machine is bought for
machine by machine.

Works on a `Market`; knows nothing of pods, labels or topology. Deterministic for a seed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from karpenter.core.scheduling.encode.nodeclaimtemplate import packed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karpenter.core.scheduling.price.bound import DualValues, Market

_WORTH_A_LOOK: Final = 1.06
"""Machines are considered whose price is within this factor of the best value that they could hold."""

_AT_LEAST: Final = 8
_FILL_SHARE: Final = 0.6
"""The share of the pods that would still fit that is added at once."""

_BUY_SHARE: Final = 0.85
"""The share of the possible number of equal machines that is bought at once."""

_STEPS: Final = 600
_TIDY: Final = 4
"""After how many steps full machines, and items that fit nowhere, are looked for."""

_WORTH_COPYING: Final = 0.75
"""They are left out when no more than this share of the numbers is left without them."""

_SIDE_BY_SIDE: Final = 8
"""How many demands are covered side by side, at most."""

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

_FULL: Final = 1.06
"""A machine is full enough if its price is within this factor of what it holds."""

_LOSS: Final = 0.08
"""What is lost by leaving pods to other machines, as a share of their value."""

_TOGETHER: Final = 100
"""Pods that are repacked at a time, if they are of more than two machines."""

_WELL: Final = 0.05
"""What levelled machines save, as a share of the value of the pods, above which nothing else is tried."""

_FEW_ITEMS: Final = 150
"""Up to this many items are also packed without regard to where the linear program puts them."""

_FAR: Final = 1.25
"""So are those whose plan is this much dearer than the program: it saw different items as equal."""

_ONE_THREAD: Final = 8192
"""Up to this many numbers OpenBLAS multiplies a matrix in one thread; more wait for each other too long."""

_AT_ONCE: Final = 192
"""How many machines are judged in one array operation."""

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
    tried = packer.guided(values.flow) if values.flow is not None else []
    enough = _FAR * float(values.pod @ market.count)
    if len(market.count) <= _FEW_ITEMS or not any(each.cost <= enough for each in tried):
        tried += packer.covered()
    found = min(tried, key=lambda each: each.cost)
    return packer.improve(found, rounds=rounds, rng=np.random.default_rng(seed))


class _Cover:
    """A demand that is being covered: what is left of it, and what was bought for the rest."""

    def __init__(
        self,
        demand: NDArray[np.float64],
        worth: NDArray[np.float64],
        rule: FillRule,
        only: int | None = None,
        limit: float = np.inf,
    ) -> None:
        self.left = demand.copy()
        self.limit = limit
        """The price that the machines must stay below to be of use."""

        self.spent = 0.0
        self.only = only
        """The machine that is bought as long as it gets full; what is left then is not covered."""

        self.worth = worth
        self.rule = rule
        self.active = np.flatnonzero(self.left > 0)
        self.machines = self.active
        self._bought: list[NDArray[np.float64]] = []

    @property
    def holds(self) -> NDArray[np.float64]:
        """What the machines that were bought hold."""
        return np.concatenate([np.empty((0, len(self.left))), *self._bought])

    def end(self) -> None:
        """Leave the rest to others."""
        self.active = self.active[:0]

    def buy(self, holds: NDArray[np.float64], price: float) -> None:
        """Buy a machine that holds this as often as the demand allows."""
        held = holds > 0
        times = max(1, int((self.left[held] // holds[held]).min()))
        if times > 3:  # noqa: PLR2004  small lots are bought whole
            times = int(times * _BUY_SHARE)
        self.spent += times * price
        self.left -= times * holds
        self.active = np.flatnonzero(self.left > 0)
        self._bought.append(np.repeat(holds[None], times, axis=0))


class _Trial(NamedTuple):
    """Some machines whose pods are covered again, and where the draws stood afterwards."""

    some: NDArray[np.int64]
    cover: _Cover
    drawn: Any


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
        words = packed(market.fits)
        _, first, self._users = np.unique(
            words.view(np.dtype((np.void, words.shape[1] * 8))).reshape(-1),
            return_index=True,
            return_inverse=True,
        )
        rows = max(1, _ONE_THREAD // max(1, len(market.count)))
        different = market.fits[first].astype(np.float32)
        self._fits = [different[start : start + rows] for start in range(0, len(different), rows)]
        """The different sets of items that may use a machine, in blocks."""

        self._by_price = np.argsort(market.price, kind="stable")
        self._room = (market.room[self._by_price] + 1e-6).T.copy()
        self._barred = packed(~market.fits[self._by_price]).T.copy()

    def _worthwhile(self) -> NDArray[np.int64]:
        """Return the machines that could be part of a cheapest plan."""
        market, value = self._market, self._values.pod
        best = np.full(len(market.price), np.inf)
        items = np.argsort(-value * market.count, kind="stable")[:_ITEMS]
        rooms, size = np.unique(market.room, axis=0, return_inverse=True)
        size = size.reshape(-1)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(rooms[:, None] > 0, market.want[items] / rooms[:, None], 0.0)
        mixes = _mixes(market, share)
        by_size = np.argsort(size, kind="stable")
        for start in range(0, len(best), _AT_ONCE):  # as many numbers as stay in the cache of the processor
            some = by_size[start : start + _AT_ONCE]
            first = int(size[some[0]])
            mine, own = share[first : int(size[some[-1]]) + 1], size[some] - first
            offered = np.where(market.fits[np.ix_(some, items)], value[items], 0.0)
            found = best[some]
            for mix in mixes:
                weight = np.maximum(mine @ mix, 1e-300)
                np.minimum(found, (offered / weight[own]).max(axis=1), out=found)
            best[some] = found
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
        value = value.astype(np.float32)
        # BLAS may leave the flag of an invalid value behind where all values are finite.
        with np.errstate(invalid="ignore", over="ignore"):
            reach = np.concatenate([block @ value for block in self._fits])[self._users[machines]]
        order = np.lexsort((-reach, self._shape[machines]))
        shape = self._shape[machines[order]]
        first = order[np.append(True, shape[1:] != shape[:-1])]
        few: NDArray[np.int64] = machines[
            first[np.argsort(self._ratio[machines[first]], kind="stable")][:_SHAPES]
        ]
        return few

    def cover(self, covers: Sequence[_Cover]) -> None:
        """
        Buy machines that serve each of some demands.

        Demands have nothing to do with each other. They are covered side by side because numpy spends as
        long on a few hundred numbers as on a few thousand.
        """
        while running := [each for each in covers if len(each.active)]:
            for each in running:
                self._consider(each)
            for each, filled in zip(running, self._fill(running), strict=True):
                holds, price, ratio = self._best(each, filled)
                if each.only is not None and ratio > _FULL:
                    each.end()
                else:
                    each.buy(holds, price)
                # What is left costs at least its value, so that a trial is over before it is dearer.
                if each.spent + float(each.left @ self._values.pod) > each.limit:
                    each.end()

    def covered(self) -> list[Packing]:
        """Return packings of the whole demand, one for each fill rule."""
        # No fill rule wins on every demand, and covering is fast, so all are tried.
        tried = [_Cover(self._market.count, self._values.pod, rule) for rule in _FILL_RULES]
        self.cover(tried)
        return [self.priced(each.holds) for each in tried]

    def guided(self, flow: NDArray[np.float64]) -> list[Packing]:
        """Return packings that follow the flow of divisible pods, one for each fill rule."""
        # The pods that the linear program puts on one kind of machine use its resources evenly. What does
        # not fill a whole machine is covered by any machines.
        worth = self._values.pod
        used, demand = _whole_flow(self._market.count, flow, worth)
        levelled = [self._levelled(only, mine) for only, mine in zip(used.tolist(), demand, strict=True)]
        tried = [
            [_Cover(mine, worth, rule, only) for rule in _FILL_RULES]
            if self._loss(holds) > -_WELL * float(mine @ worth)
            else []
            for only, mine, holds in zip(used.tolist(), demand, levelled, strict=True)
        ]
        self.cover([each for covers in tried for each in covers])
        kept, left = [], np.zeros(len(worth))
        for mine, first, covers in zip(demand, levelled, tried, strict=True):
            holds = min([first, *(each.holds for each in covers)], key=self._loss)
            kept.append(holds)
            left += mine - holds.sum(axis=0)
        rest = [_Cover(left, worth, rule) for rule in _FILL_RULES]
        self.cover(rest)
        return [self.priced(np.concatenate([*kept, each.holds])) for each in rest]

    def _loss(self, holds: NDArray[np.float64]) -> float:
        """Return what machines cost beyond what they hold, against what others would lose."""
        worth = float((holds @ self._values.pod).sum())
        return self.priced(holds).cost - (1 + _LOSS) * worth

    def _levelled(self, machine: int, demand: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return full machines of one kind, each with an even share of the demand."""
        market = self._market
        want = market.want / np.maximum(market.room[machine], 1.0)
        needed = float((demand @ want).max())
        bins = int(needed + _LOSS)
        if not bins:
            return np.empty((0, len(demand)))
        even = np.minimum(np.floor(demand / max(needed, bins)), market.cap)
        holds = np.repeat(even[None], bins, axis=0)
        load = np.repeat((even @ want)[:, None], bins, axis=1)
        rest = demand - bins * even
        order = np.argsort(-self._values.pod, kind="stable")
        for item in order[rest[order] > 0].tolist():
            size, cap = want[item], market.cap[item]
            after = (load + size[:, None]).max(axis=0)
            after[even[item] >= cap] = np.inf
            for _ in range(int(rest[item])):
                best = int(after.argmin())
                if after[best] > 1.0:
                    break
                holds[best, item] += 1
                load[:, best] += size
                after[best] = (load[:, best] + size).max() if holds[best, item] < cap else np.inf
        return holds

    def _consider(self, cover: _Cover) -> None:
        """Decide which items and which machines are considered next."""
        price, offered = self._market.price, cover.left * cover.worth
        value = float(offered.sum())
        active = cover.active
        if len(active) > _ITEMS:
            active = np.sort(active[np.argsort(-offered[active], kind="stable")[:_ITEMS]])
        if cover.only is not None:
            cover.active, cover.machines = active, np.array([cover.only])
            return
        machines = self._main
        if value <= 3 * price[machines].max():  # the tail: no machine much larger than what is left
            machines = np.flatnonzero(price <= 1.6 * value + 2 * price.min())
        machines = self._few(machines, offered)
        if not self._market.fits[np.ix_(machines, active)].any():  # no pod that is left may use them
            heaviest = active[int(offered[active].argmax())]
            machines = self._few(np.flatnonzero(self._market.fits[:, heaviest]), offered)
        cover.active, cover.machines = active, machines

    def _best(self, cover: _Cover, filled: NDArray[np.float64]) -> tuple[NDArray[np.float64], float, float]:
        """Return what the filled machine with the lowest price per value holds, its price, and that ratio."""
        active = cover.active
        value = filled @ cover.worth[active]
        present = np.zeros((len(filled), len(cover.left)), bool)
        present[:, active] = filled > 0
        cost = self._cheapest(filled @ self._market.want[active], present)[0]
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(value > 0, cost / value, np.inf)
        if not np.isfinite(ratio).any():  # pods without value go to the cheapest machine
            ratio = np.where(filled.any(axis=1), cost, np.inf)
        holds, best = np.zeros(len(cover.left)), int(ratio.argmin())
        holds[active] = filled[best]
        return holds, float(cost[best]), float(ratio[best])

    def _fill(self, covers: Sequence[_Cover]) -> list[NDArray[np.float64]]:
        """Fill one of each machine that is considered; return ``held[machine, item]`` for each cover."""
        market = self._market
        sizes = [len(each.machines) for each in covers]
        ends = np.cumsum(sizes).tolist()
        rows = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]
        machines = np.concatenate([each.machines for each in covers])
        # Each row has a machine and the items that its cover considers; a row that has fewer ends with
        # items of which there are none.
        items = np.zeros((len(machines), max(len(each.active) for each in covers)), np.int64)
        open_, worth = np.zeros(items.shape), np.zeros(items.shape)
        for each, own in zip(covers, rows, strict=True):
            width = len(each.active)
            items[own, :width] = each.active
            worth[own, :width] = each.worth[each.active]
            open_[own, :width] = np.minimum(each.left[each.active], market.cap[each.active])
        open_ *= market.fits[machines[:, None], items]
        want, room = market.want.T[:, items], market.room[machines].T[:, :, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            pull = np.where(room > 0, want / room, 0.0)
        for each, own in zip(covers, rows, strict=True):
            pull[:, own] *= self._weight[each.rule][machines[own]].T[:, :, None]
            if each.rule.value_exponent:
                drawn = worth[own] / np.maximum(pull[:, own].sum(axis=0), 1e-300)
                pull[:, own] *= drawn**each.rule.value_exponent
        pull /= np.maximum(room, 1e-300)
        held = _filled(want, room[:, :, 0], pull, open_)
        return [held[own, : len(each.active)] for each, own in zip(covers, rows, strict=True)]

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
        # Most machines hold the same as the one before.
        new = np.append(True, (holds[1:] != holds[:-1]).any(axis=1)) if len(holds) else np.zeros(0, bool)
        different = holds[new]
        price, which = self._cheapest(different @ self._market.want, different > 0)
        times = np.diff(np.append(np.flatnonzero(new), len(holds)))
        return Packing(holds, np.repeat(which, times), np.repeat(price, times))

    def improve(self, found: Packing, *, rounds: int, rng: np.random.Generator) -> Packing:
        """Repack a few wasteful machines at a time, as long as that saves money."""
        # Large neighbourhood search: a few machines are emptied and their pods covered again with perturbed
        # values.
        # The next trials are drawn as if none of them would save anything, which is how most end, and are
        # covered side by side. After one that does save money the draws go on from there.
        tried = failures = 0
        rows = list(found.holds)  # most stay as they are, so the whole array is not copied
        machine, price = found.machine, found.price
        waste = price - found.holds @ self._values.pod
        while tried < rounds and failures < _MAX_FAILURES and len(price) > 1:
            count = min(rounds - tried, _MAX_FAILURES - failures, _SIDE_BY_SIDE, 2 + failures)
            trials = [self._trial(rows, price, waste, rng) for _ in range(count)]
            self.cover([each.cover for each in trials])
            for some, cover, drawn in trials:
                tried, failures = tried + 1, failures + 1
                again = self.priced(cover.holds)
                if not cover.left.any() and again.cost < float(price[some].sum()) - 1e-9:
                    failures = 0
                    rng.bit_generator.state = drawn
                    rest = np.delete(np.arange(len(price)), some)
                    rows = [rows[each] for each in rest.tolist()] + list(again.holds)
                    machine = np.concatenate([machine[rest], again.machine])
                    price = np.concatenate([price[rest], again.price])
                    waste = np.concatenate([waste[rest], again.price - again.holds @ self._values.pod])
                    break
        return Packing(np.array(rows), machine, price) if tried else found

    def _trial(
        self,
        rows: Sequence[NDArray[np.float64]],
        price: NDArray[np.float64],
        waste: NDArray[np.float64],
        rng: np.random.Generator,
    ) -> _Trial:
        """Draw some machines of a packing, mostly wasteful ones, and how their pods are covered again."""
        worth = self._values.pod
        size = int(rng.integers(2, min(8, len(rows) + 1)))
        if rng.random() < _BUY_SHARE:
            some = np.argsort(-waste * rng.uniform(0.1, 1, len(waste)), kind="stable")[:size]
        else:
            some = rng.choice(len(waste), size, replace=False)
        holds = np.array([rows[each] for each in some.tolist()])
        pods = np.cumsum(holds.sum(axis=1))
        some = some[: max(2, int(np.searchsorted(pods, _TOGETHER, side="right")))]
        rule = _FILL_RULES[int(rng.integers(len(_FILL_RULES)))]
        perturbed = worth * rng.uniform(0.85, 1.15, len(worth))
        limit = float(price[some].sum())
        cover = _Cover(holds[: len(some)].sum(axis=0), perturbed, rule, limit=limit)
        return _Trial(some, cover, rng.bit_generator.state)


def _whole_flow(
    count: NDArray[np.float64], flow: NDArray[np.float64], worth: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the machines that get pods of a flow, and whole pods for each: ``pods[machine, item]``."""
    used = np.flatnonzero(flow.any(axis=0))
    wanted = flow[:, used] * count[:, None]
    pods = np.floor(wanted + 1e-6)
    owed = np.zeros(len(used))  # what each machine has been given too little so far
    for item in np.argsort(-worth, kind="stable").tolist():
        rest = int(count[item] - pods[item].sum())
        short = wanted[item] - pods[item]
        owed += short * worth[item]
        for _ in range(rest):
            most = int(np.where(wanted[item] > 0, owed, -np.inf).argmax())
            pods[item, most] += 1
            owed[most] -= worth[item]
    return used, pods.T


def _shares(amounts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the weight of each resource on each machine, one on average."""
    total, width = amounts.sum(axis=1, keepdims=True), amounts.shape[1]
    shares: NDArray[np.float64] = np.where(total > 0, amounts / np.maximum(total, 1e-300), 1 / width) * width
    return shares


def _filled(
    want: NDArray[np.float64],
    room: NDArray[np.float64],
    pull: NDArray[np.float64],
    open_: NDArray[np.float64],
) -> NDArray[np.float64]:
    """
    Add what its remaining room pulls most to each machine, until nothing fits.

    Returns ``held[machine, item]``.

    The arrays are ``want[resource, machine, item]``, ``room[resource, machine]`` and
    ``pull[resource, machine, item]``. They are small, so that the number of calls is what takes time. What
    does not fit any more never will again, so from time to time full machines, and items that fit nowhere,
    are left out.
    """
    # A tiny amount of room lets pods that do not request a resource onto machines that lack it.
    spare = room + 1e-6
    held, shut = np.zeros_like(open_), open_ <= 0
    flat, width, depth = held.reshape(-1), open_.shape[1], len(want)
    with np.errstate(divide="ignore"):
        inverse = np.where(want > 0, 1 / want, _PLENTY)
    machines, items = np.arange(len(open_)), np.arange(width)
    sizes, kept = np.concatenate([want, inverse]), -1
    for step in range(_STEPS):
        free = spare[:, :, None]
        shut |= np.logical_or.reduce(sizes[:depth] > free, axis=0)
        if step % _TIDY == 0:
            rows, columns = ~shut.all(axis=1), ~shut.all(axis=0)
            left_over = int(np.count_nonzero(rows)) * int(np.count_nonzero(columns))
            if not left_over:
                break
            if kept < 0 or left_over <= _WORTH_COPYING * kept:
                kept = left_over
                machines, items = machines[rows], items[columns]
                both = np.ix_(rows, columns)
                shut, open_, spare = shut[both], open_[both], spare[:, rows]
                free = spare[:, :, None]
                sizes, pull = (each[:, rows][:, :, columns] for each in (sizes, pull))
                by_item = sizes.reshape(2 * depth, -1)
                first, target = np.arange(len(machines)) * len(items), machines * width
        score = np.einsum("rmi,rm->mi", pull, spare)
        np.copyto(score, -1.0, where=shut)
        item = score.argmax(axis=1)
        chosen = first + item
        asked = by_item.take(chosen, axis=1)
        most = np.floor(np.minimum.reduce(spare * asked[depth:], axis=0) * _ROUNDING)
        # A machine that is full takes nothing until it is left out.
        left = open_.take(chosen)
        fit = np.minimum(most, left) * ~shut.take(chosen)
        bite = np.minimum(np.maximum(1.0, np.floor(fit * _FILL_SHARE)), fit)
        flat[target + items[item]] += bite
        open_.put(chosen, left - bite)
        shut.put(chosen, left <= bite)
        spare = spare - bite * asked[:depth]
    return held


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
