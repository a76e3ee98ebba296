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

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from karpenter.core.scheduling.encode.offerings import packed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karpenter.core.scheduling.price.bound import DualValues, Market

_WORTH_A_LOOK: Final = 1.06
"""Machines are considered whose price is within this factor of the best value that they could hold."""

_AT_LEAST: Final = 8
_FILL_SHARE: Final = 0.6
"""The share of the pods that would still fit that is added at once, rounded by the next."""

_FILL_ROUNDING: Final = 0.67

_WASTEFUL_SHARE: Final = 0.85
"""The share of the trials that empty wasteful machines; the others empty any."""

_STEPS: Final = 600
_TIDY: Final = 4
"""After how many steps full machines, and items that fit nowhere, are looked for."""

_WORTH_COPYING: Final = 0.75
"""They are left out when no more than this share of the numbers is left without them."""

_SIDE_BY_SIDE: Final = 8
"""How many trials are covered side by side, at most."""

_ROUNDING: Final = 1 + 1e-15
"""Makes up for the rounding error of a division and no more: a machine that lacks one byte is too small."""

_FLOOR: Final = 0.15
"""The least weight of a resource."""

_TINY: Final = 1e-300
"""Stands for nothing where something is divided by it."""

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

_DIGITS: Final = 6
"""The digits of a ratio that count: machines of equal ratio differ by rounding errors only."""

_GOLDEN: Final = 0.618033988749895
"""Multiples of the golden ratio, without what is before the point, are in an even mixed order."""

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
        return float(self.price.sum())

    def joined(self, other: Packing) -> Packing:
        return Packing(
            np.concatenate([self.holds, other.holds]),
            np.concatenate([self.machine, other.machine]),
            np.concatenate([self.price, other.price]),
        )


def pack_by_price(market: Market, values: DualValues, *, rounds: int, seed: int) -> Packing:
    """Return machines for the whole demand, every item of which some machine must fit."""
    packer = _Packer(market, values)
    whole = packer.covers(market.count) if values.flow is None or len(market.count) <= _FEW_ITEMS else []
    tried = packer.guided(values.flow, whole) if values.flow is not None else []
    enough = _FAR * float(values.pod @ market.count)
    if not whole and not any(each.cost <= enough for each in tried):
        whole = packer.covers(market.count)
    packer.cover(whole)
    tried += [packer.priced(each.holds) for each in whole]
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
        self.machines = np.empty(0, np.int64)
        """The machines that are considered."""

        self.again = self.machines
        """The positions of those that are filled before one is bought."""

        self._held = np.empty((0, len(demand)))
        self._price, self._ratio = np.empty(0), np.empty(0)
        self._bought: list[NDArray[np.float64]] = []

    @property
    def holds(self) -> NDArray[np.float64]:
        """What the machines that were bought hold."""
        return np.concatenate([np.empty((0, len(self.left))), *self._bought])

    def end(self) -> None:
        self.active = self.active[:0]

    def consider(self, machines: NDArray[np.int64]) -> None:
        """Consider some machines, as they were filled before if what they hold is still there."""
        before = {machine: position for position, machine in enumerate(self.machines.tolist())}
        known = [(new, before[each]) for new, each in enumerate(machines.tolist()) if each in before]
        held, price, ratio = np.zeros((len(machines), len(self.left))), *np.zeros((2, len(machines)))
        there = np.zeros(len(machines), bool)
        if known:
            new, old = np.array(known).T
            held[new], price[new], ratio[new] = self._held[old], self._price[old], self._ratio[old]
            there[new] = (held[new] <= self.left).all(axis=1) & np.isfinite(ratio[new])
        self.again = np.flatnonzero(~there)
        self.machines, self._held, self._price, self._ratio = machines, held, price, ratio

    def fill(self, held: NDArray[np.float64], price: NDArray[np.float64]) -> None:
        """Take note of what the machines hold that were filled again, and what a machine for that costs."""
        value = held @ self.worth[self.active]
        self._held[self.again] = 0.0
        self._held[np.ix_(self.again, self.active)] = held
        self._price[self.again] = price
        with np.errstate(divide="ignore", invalid="ignore"):
            self._ratio[self.again] = np.where(value > 0, price / value, np.inf)

    def best(self) -> tuple[NDArray[np.float64], float, float]:
        """Return what the filled machine with the lowest price per value holds, its price, and that ratio."""
        ratio = self._ratio
        if not np.isfinite(ratio).any():  # pods without value go to the cheapest machine
            ratio = np.where(self._held.any(axis=1), self._price, np.inf)
        best = int(ratio.argmin())
        return self._held[best], float(self._price[best]), float(ratio[best])

    def buy(self, holds: NDArray[np.float64], price: float) -> None:
        """Buy a machine that holds this as often as the demand allows."""
        held = holds > 0
        times = max(1, int((self.left[held] // holds[held]).min()))
        self.spent += times * price
        self.left -= times * holds
        self.active = np.flatnonzero(self.left > 0)
        self._bought.append(np.repeat(holds[None], times, axis=0))


class _Trial(NamedTuple):
    """Some machines whose pods are covered again."""

    some: NDArray[np.int64]
    cover: _Cover


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
        self._shape = np.unique(alike, axis=0, return_inverse=True)[1].ravel()
        self._mixed = self._shape * _GOLDEN % 1.0
        """Puts small and large machines in turn where nothing else puts them in order."""

        self._main = self._worthwhile()
        words = packed(market.fits)
        _, first, self._users = np.unique(
            words.view(np.dtype((np.void, words.shape[1] * 8))).ravel(),
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
        items = np.argsort(-value * market.count, kind="stable")[:_ITEMS]
        best = self._most_worth(items)
        rooms, size = np.unique(market.room, axis=0, return_inverse=True)
        size = size.ravel()
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
                weight = np.maximum(mine @ mix, _TINY)
                np.minimum(found, (offered / weight[own]).max(axis=1), out=found)
            best[some] = found
        with np.errstate(over="ignore"):  # a machine that is worth nothing is infinitely dear
            self._ratio = np.round(market.price / np.maximum(best, _TINY), _DIGITS)
        limit = max(_WORTH_A_LOOK, float(np.sort(self._ratio)[min(len(best), _AT_LEAST) - 1]))
        return np.flatnonzero(self._ratio <= limit)

    def _most_worth(self, items: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the most that some items on each machine can be worth, by its dual values."""
        market, values = self._market, self._values
        paid = values.unit @ market.want[items].T
        gain = np.where(market.fits[:, items] & (paid > 0), values.pod[items] / np.maximum(paid, _TINY), 0.0)
        best = gain.max(axis=1)
        return np.where(best > 0, best * (values.unit * market.room).sum(axis=1), np.inf)

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
            first[np.lexsort((self._mixed[machines[first]], self._ratio[machines[first]]))][:_SHAPES]
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
            self._fill([each for each in running if len(each.again)])
            for each in running:
                holds, price, ratio = each.best()
                if each.only is not None and ratio > _FULL:
                    each.end()
                else:
                    each.buy(holds, price)
                # The machine with the lowest price per value is bought first. What is left costs as much for
                # its value, or more as a rule, so that a trial is over before it is dearer.
                if each.spent + ratio * float(each.left @ each.worth) > each.limit:
                    each.end()

    def covers(self, demand: NDArray[np.float64]) -> list[_Cover]:
        """Return a demand to be covered once with each fill rule: none wins on every demand."""
        return [_Cover(demand, self._values.pod, rule) for rule in _FILL_RULES]

    def guided(self, flow: NDArray[np.float64], others: Sequence[_Cover]) -> list[Packing]:
        """
        Return packings that follow the flow of divisible pods, one for each fill rule.

        `others` are covered side by side with what they leave.
        """
        # The pods that the linear program puts on one kind of machine use its resources evenly. What does
        # not fill a whole machine is covered by any machines.
        worth = self._values.pod
        used, demand = _whole_flow(self._market.count, flow, worth)
        levelled = [self._levelled(only, mine) for only, mine in zip(used.tolist(), demand, strict=True)]
        loss = [self._loss(holds) for holds in levelled]
        tried = [
            [_Cover(mine, worth, rule, only) for rule in _FILL_RULES]
            if lost > -_WELL * float(mine @ worth)
            else []
            for only, mine, lost in zip(used.tolist(), demand, loss, strict=True)
        ]
        self.cover([each for covers in tried for each in covers])
        kept, left = [], np.zeros(len(worth))
        for mine, first, lost, covers in zip(demand, levelled, loss, tried, strict=True):
            options = [first, *(each.holds for each in covers)]
            losses = [lost, *map(self._loss, options[1:])]
            holds = options[losses.index(min(losses))]
            kept.append(holds)
            left += mine - holds.sum(axis=0)
        rest = self.covers(left)
        self.cover([*rest, *others])
        followed = self.priced(np.concatenate(kept))
        return [followed.joined(self.priced(each.holds)) for each in rest]

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
            cover.active = active
            cover.consider(np.array([cover.only]))
            return
        machines = self._main
        if value <= 3 * price[machines].max():  # the tail: no machine much larger than what is left
            machines = np.flatnonzero(price <= 1.6 * value + 2 * price.min())
        machines = self._few(machines, offered)
        if not self._market.fits[np.ix_(machines, active)].any():  # no pod that is left may use them
            heaviest = active[int(offered[active].argmax())]
            machines = self._few(np.flatnonzero(self._market.fits[:, heaviest]), offered)
        cover.active = active
        cover.consider(machines)

    def _fill(self, covers: Sequence[_Cover]) -> None:
        """Fill one of each machine that some covers want to be filled."""
        if not covers:
            return
        market = self._market
        sizes = [len(each.again) for each in covers]
        ends = np.cumsum(sizes).tolist()
        rows = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]
        machines = np.concatenate([each.machines[each.again] for each in covers])
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
        weight = np.concatenate([self._weight[each.rule][each.machines[each.again]] for each in covers])
        exponent = np.repeat([each.rule.value_exponent for each in covers], sizes)
        share = np.where(room > 0, 1 / np.maximum(room, _TINY), 0.0)
        pull = want * (weight.T[:, :, None] * share)
        drawn = worth / np.maximum(pull.sum(axis=0), _TINY)
        pull *= drawn ** exponent[:, None] * share
        held = _filled(want, room[:, :, 0], pull, open_)
        present = np.zeros((len(machines), len(market.count)), bool)
        for each, own in zip(covers, rows, strict=True):
            present[own, each.active] = held[own, : len(each.active)] > 0
        price = self._cheapest((want * held).sum(axis=2).T, present)[0]
        for each, own in zip(covers, rows, strict=True):
            each.fill(held[own, : len(each.active)], price[own])

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
        # values. Several trials are covered side by side; of those that save money and share a machine, the
        # first counts.
        tried = failures = 0
        rows = list(found.holds)  # most stay as they are, so the whole array is not copied
        machine, price = found.machine, found.price
        waste = price - found.holds @ self._values.pod
        while tried < rounds and failures < _MAX_FAILURES and len(price) > 1:
            count = min(rounds - tried, _MAX_FAILURES - failures, _SIDE_BY_SIDE)
            trials = [self._trial(rows, price, waste, rng) for _ in range(count)]
            self.cover([each.cover for each in trials])
            gone = np.zeros(len(price), bool)
            better = []
            for some, cover in trials:
                if gone[some].any():
                    continue
                tried, failures = tried + 1, failures + 1
                again = self.priced(cover.holds)
                if not cover.left.any() and again.cost < float(price[some].sum()) - 1e-9:
                    failures = 0
                    gone[some] = True
                    better.append(again)
            if better:
                rest = np.flatnonzero(~gone)
                rows = [rows[each] for each in rest.tolist()]
                for again in better:
                    rows += list(again.holds)
                machine = np.concatenate([machine[rest], *(again.machine for again in better)])
                price = np.concatenate([price[rest], *(again.price for again in better)])
                waste = np.concatenate(
                    [waste[rest], *(again.price - again.holds @ self._values.pod for again in better)]
                )
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
        if rng.random() < _WASTEFUL_SHARE:
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
        return _Trial(some, cover)


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
    shares: NDArray[np.float64] = np.where(total > 0, amounts / np.maximum(total, _TINY), 1 / width) * width
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
    shut, cells = open_ <= 0, np.arange(open_.size).reshape(open_.shape)
    with np.errstate(divide="ignore"):
        inverse = np.where(want > 0, _ROUNDING / want, _PLENTY)
    depth, filled, kept = len(want), ([cells[:0, 0]], [open_[:0, 0]]), -1
    sizes = np.concatenate([want, inverse])
    for step in range(_STEPS):
        shut |= np.logical_or.reduce(sizes[:depth] > spare[:, :, None], axis=0)
        if step % _TIDY == 0:
            rows, columns = ~shut.all(axis=1), ~shut.all(axis=0)
            left_over = int(np.count_nonzero(rows)) * int(np.count_nonzero(columns))
            if not left_over:
                break
            if kept < 0 or left_over <= _WORTH_COPYING * kept:
                kept = left_over
                both = np.ix_(rows, columns)
                shut, open_, cells, spare = shut[both], open_[both], cells[both], spare[:, rows]
                sizes, pull = (each[:, rows][:, :, columns] for each in (sizes, pull))
                by_item = sizes.reshape(2 * depth, -1)
                first = np.arange(len(shut)) * shut.shape[1]
        score = np.einsum("rmi,rm->mi", pull, spare)
        np.copyto(score, -1.0, where=shut)
        chosen = first + score.argmax(axis=1)
        asked = by_item.take(chosen, axis=1)
        # A machine that is full takes nothing: what it chooses does not fit, or there is none.
        left = open_.take(chosen)
        fit = np.minimum(np.floor(np.minimum.reduce(spare * asked[depth:], axis=0)), left)
        bite = np.maximum(np.floor(fit * _FILL_SHARE + _FILL_ROUNDING), 0.0)
        filled[0].append(cells.take(chosen))
        filled[1].append(bite)
        left -= bite
        open_.put(chosen, left)
        shut.put(chosen, left <= 0)
        spare = spare - bite * asked[:depth]
    held = np.bincount(np.concatenate(filled[0]), np.concatenate(filled[1]), want[0].size)
    return held.reshape(want[0].shape)


def _mixes(market: Market, share: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """Return weights over the resources that matter, from one extreme to the other."""
    width = market.want.shape[1]
    active = [r for r in range(width) if share[:, :, r].max(initial=0.0) > 0]
    steps = 3 if len(active) <= 3 else 2  # noqa: PLR2004  the grid grows with the number of resources
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
