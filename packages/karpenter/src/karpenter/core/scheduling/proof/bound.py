"""
The lower bound of divisible pods: what no plan for them can cost less than.

Dual values of a linear program prove it (:mod:`karpenter.core.scheduling.price.bound`). Pods that keep apart
or are spread over domains are worth at least what their cheapest division is worth.
"""

from __future__ import annotations

from collections import Counter
from functools import reduce
from operator import mul, or_
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from karpenter.core.scheduling.pack.scheduler import Scheduler
from karpenter.core.scheduling.price.bound import (
    DualValues,
    Item,
    Market,
    bought,
    dual_values,
    free_room,
    item_of,
    market,
    placed_counts,
    with_caps,
)
from karpenter.core.scheduling.price.divided import DomainSplit, divided_demand, divisions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from karpenter.core.scheduling.encode.offerings import Bits

_WORTH_IT: Final = 1e-3
"""The share of the bound that machines cost at least for which another linear program is solved."""

_CAPS: Final = 8
"""Items for which room on a machine for pods that keep apart counts as a resource."""

_MASKS: Final = 511
"""Sets of offerings that are told apart; which offerings dominate which is worked out for each."""


def lower_bound(scheduler: Scheduler, left: Mapping[int, int]) -> tuple[float, str]:
    """Return the lower bound for the pods that a scheduler has placed, and how it was proved."""
    demand: Counter[Item] = Counter()
    beyond: Counter[Item] = Counter()
    free = free_room(scheduler)
    for number, count in placed_counts(scheduler, left).items():
        item = item_of(scheduler, scheduler.pod_data[number])
        demand[item] += count
        beyond[item] += max(0, count - _on_nodes(scheduler, number, free))
    demand, beyond = _with_few_masks(demand), _with_few_masks(+beyond)
    if not scheduler.nodes.count:
        values = proof(scheduler, list(demand), list(demand.values())).values
    else:
        found = market(list(demand), list(demand.values()), scheduler.templates)
        values = dual_values(found, free.sum(axis=0))
        if beyond:
            # Room in many small pieces holds less than its sum.
            rest = proof(scheduler, list(beyond), list(beyond.values())).values
            values = max(values, rest, key=lambda each: each.bound)
    return values.bound, values.method


def _on_nodes(scheduler: Scheduler, number: int, free: NDArray[np.float64]) -> int:
    """Return how many pods of a class fit on existing nodes when nothing else is there."""
    groups, by_relaxation = scheduler.node_groups, scheduler.pod_data[number]
    suits = np.array([any(map(each.suits, by_relaxation)) for each in groups.all], bool)[groups.of]
    want = np.array(by_relaxation[0].pod_class.want, np.float64)
    asked = want > 0
    return int((free[suits][:, asked] // want[asked]).min(axis=1, initial=np.inf).sum())


def divided_bound(placed: Scheduler, left: Mapping[int, int]) -> tuple[float, str] | None:
    """
    Return the lower bound of divisible pods that keep apart or are divided over domains, and its method.

    The values of pods in each domain come from a linear program with the shares of the schedule; whatever the
    values are, no division costs less than the cheapest that maxSkew allows. None without such pods, or with
    existing nodes.
    """
    if placed.nodes.count:
        return None
    demand = divided_demand(Scheduler(placed.encoded), placed_counts(placed, left), placed)
    if not demand.splits and not any(item.cap for item in demand.items):
        return None
    items = few_masks(demand.items, demand.sizes)
    found = proof(placed, items, demand.shares)
    worth = dict(zip(((item.want, item.bits) for item in found.items), found.values.pod, strict=True))
    value = np.array([worth[item.want, item.bits] for item in items])
    bound = worth_of_pods(demand.sizes, demand.splits, value)
    apart = _needing_more(items, demand.shares, found)
    if len(apart):
        again = dual_values(with_caps(market(items, demand.shares, placed.templates), apart)).pod
        bound = max(bound, worth_of_pods(demand.sizes, demand.splits, again))
    return max(bound, 0.0 if demand.splits else found.values.bound), found.values.method


def _needing_more(items: Sequence[Item], shares: Sequence[float], found: Proof) -> NDArray[np.int64]:
    """Return the items whose pods keep apart on more machines than a plan of divisible pods buys."""
    if found.values.flow is None:
        return np.empty(0, np.int64)
    machines = bought(found.market, found.values.flow) @ found.market.fits
    have = dict(zip(((item.want, item.bits) for item in found.items), machines, strict=True))
    lack = np.array(
        [
            share / item.cap - have[item.want, item.bits] if item.cap else 0.0
            for item, share in zip(items, shares, strict=True)
        ]
    )
    lack *= float(found.market.price.min())
    most = np.argsort(-lack, kind="stable")[:_CAPS]
    return most[lack[most] > _WORTH_IT * found.values.bound]


class Proof(msgspec.Struct, frozen=True):
    """The values that prove a bound for a market, and the items of the market in their order."""

    items: tuple[Item, ...]
    market: Market
    values: DualValues


def proof(scheduler: Scheduler, items: Sequence[Item], counts: Sequence[float]) -> Proof:
    """Return a proof for some items on the offerings of all templates."""
    found = market(items, counts, scheduler.templates)
    return Proof(tuple(items), found, dual_values(found))


def worth_of_pods(count: Sequence[int], splits: Sequence[DomainSplit], value: NDArray[np.float64]) -> float:
    """Return what all pods are worth at least, however the pods of splits are divided."""
    parts = {item for each in splits for item in each.items}
    alone = sum(float(value[item]) * pods for item, pods in enumerate(count) if item not in parts)
    return alone + sum(least_divided(each, [float(value[item]) for item in each.items]) for each in splits)


def least_divided(split: DomainSplit, value: Sequence[float]) -> float:
    """Return the least that the pods of a split are worth in any division that maxSkew allows."""
    order = sorted(range(len(value)), key=lambda domain: value[domain])
    worth = [sum(map(mul, counts, value)) for counts in divisions(split, order)]
    return float(min(worth, default=0.0))


def least_in_each(split: DomainSplit) -> tuple[int, ...]:
    """Return the fewest pods that each domain of a split can have."""
    domains = range(len(split.items))
    found = ([*(other for other in domains if other != last), last] for last in domains)
    return tuple(min((counts[last[-1]] for counts in divisions(split, last)), default=0) for last in found)


def few_masks(items: Sequence[Item], counts: Sequence[int]) -> list[Item]:
    """
    Return items that cost no more to serve, with few different sets of offerings.

    Apart from the sets that most pods have, every pod may use what any of the others may.
    """
    pods: Counter[tuple[Bits, ...]] = Counter()
    for item, count in zip(items, counts, strict=True):
        pods[item.bits] += count
    own = {mask for mask, _ in pods.most_common(_MASKS)}
    rest = [mask for mask in pods if mask not in own]
    union = tuple(reduce(or_, column) for column in zip(*rest, strict=True))
    return [item if item.bits in own else Item(item.want, union, item.cap) for item in items]


def _with_few_masks(demand: Counter[Item]) -> Counter[Item]:
    """Return a demand that costs no more to serve, with few different sets of offerings."""
    found: Counter[Item] = Counter()
    for item, count in zip(few_masks(list(demand), list(demand.values())), demand.values(), strict=True):
        found[item] += count
    return found
