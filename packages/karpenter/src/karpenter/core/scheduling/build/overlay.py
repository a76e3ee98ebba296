"""
Overlays: corrections that users make to prices and capacity of instance types.

The heaviest overlay decides; lighter ones fill what it left open. Two overlays of one
weight that correct the same thing contradict each other: the later one is refused whole,
for every pool, so that a typo never takes effect half. So is one that cannot be read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.labels import NODEPOOL, WELL_KNOWN_RESOURCES
from karpenter.api.validation.nodeoverlay_validation import validate_nodeoverlay
from karpenter.base.pretty import excerpt
from karpenter.base.quantity import QuantityError
from karpenter.core.model.catalog import InstanceType
from karpenter.core.model.requirements import Requirements
from karpenter.core.model.resources import parse_resources
from karpenter.core.scheduling.build.amounts import impossible

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence

    from karpenter.api.labels import LabelRules
    from karpenter.api.nodeoverlay import NodeOverlay

_PRICE: Final = re.compile(r"[0-9]{1,30}(\.[0-9]{1,30})?")
_ADJUSTMENT: Final = re.compile(r"[+-]([0-9]{1,30}\.?[0-9]{0,30}|\.[0-9]{1,30})%?")


class ParsedOverlay(msgspec.Struct, frozen=True):
    """One overlay, read."""

    name: str
    weight: int
    requirements: Requirements
    price: str = ""
    capacity: Mapping[str, int] = {}


class OverlaidTypes(msgspec.Struct, frozen=True):
    """Instance types after correction, and which were changed in price and in capacity."""

    types: tuple[InstanceType, ...]
    marks: Mapping[str, tuple[bool, bool]] = {}


def parse_overlays(
    overlays: Iterable[NodeOverlay], rules: LabelRules
) -> tuple[list[ParsedOverlay], dict[str, str]]:
    """
    Return overlays as corrections, heaviest first, and why some cannot be read.

    Of equal weights the later name comes first.
    """
    found: list[ParsedOverlay] = []
    refused: dict[str, str] = {}
    for each in overlays:
        try:
            problem = next(_problems(each, rules), "")
            if not problem:
                found.append(_correction(each))
        except QuantityError as error:
            problem = str(error)
        if problem:
            refused[each.name] = problem
    found.sort(key=lambda c: c.name, reverse=True)
    found.sort(key=lambda c: -c.weight)
    return found, refused


def without_conflicts(
    corrections: Sequence[ParsedOverlay],
    pools: Mapping[str, tuple[Mapping[str, str], Sequence[InstanceType]]],
) -> tuple[list[ParsedOverlay], dict[str, str]]:
    """
    Return the corrections that hold, and why the others do not.

    `pools` gives the template labels and instance types of every pool.
    """
    sights = [
        _PoolInstanceType(pool, labels, kind) for pool, (labels, types) in pools.items() for kind in types
    ]
    kept: list[ParsedOverlay] = []
    refused: dict[str, str] = {}
    claimed: dict[Hashable, tuple[int, str]] = {}
    for each in corrections:
        wants = [target for sight in sights for target in sight.targets(each)]
        rival = next((claimed[t][1] for t in wants if t in claimed and claimed[t][0] == each.weight), "")
        if rival:
            refused[each.name] = f"conflicts with NodeOverlay {rival} of the same weight"
            continue
        kept.append(each)
        for target in wants:
            claimed[target] = (each.weight, each.name)
    return kept, refused


def apply_overlays(
    pool: str, labels: Mapping[str, str], types: Sequence[InstanceType], corrections: Sequence[ParsedOverlay]
) -> OverlaidTypes:
    """Return the instance types of a pool with every correction applied."""
    if not corrections:
        return OverlaidTypes(tuple(types))
    marks: dict[str, tuple[bool, bool]] = {}
    corrected = []
    for kind in types:
        prices, capacity = _PoolInstanceType(pool, labels, kind).corrections(corrections)
        if prices or capacity:
            marks[kind.name] = (bool(prices), bool(capacity))
        corrected.append(_corrected(kind, prices, capacity))
    return OverlaidTypes(tuple(corrected), marks)


def adjusted_price(price: float, adjustment: str) -> float:
    """Return a price after an absolute value, an amount with a sign, or a percentage with a sign."""
    if not adjustment:
        return price
    if adjustment[0] not in "+-":
        return float(adjustment)
    if adjustment.endswith("%"):
        return max(0.0, price * (1 + float(adjustment[:-1]) / 100))
    return max(0.0, price + float(adjustment))


class _PoolInstanceType:
    """An instance type as one pool offers it: what overlays can be about."""

    def __init__(self, pool: str, labels: Mapping[str, str], kind: InstanceType) -> None:
        self._pool = pool
        self._kind = kind
        self._known = Requirements.from_labels({**labels, NODEPOOL: pool}).intersect(kind.requirements)
        self._offerings = [self._known.intersect(each.requirements) for each in kind.offerings]

    def offerings(self, each: ParsedOverlay) -> list[int]:
        """Return the positions of the offerings that a correction is about."""
        if not self._known.accepts(each.requirements):
            return []
        return [n for n, known in enumerate(self._offerings) if known.accepts(each.requirements)]

    def targets(self, each: ParsedOverlay) -> list[Hashable]:
        """Return everything that a correction would change here."""
        matching = self.offerings(each)
        if not matching:
            return []
        place = (self._pool, self._kind.name)
        prices: list[Hashable] = [(*place, n) for n in matching] if each.price else []
        return prices + [(*place, name) for name in each.capacity]

    def corrections(self, corrections: Sequence[ParsedOverlay]) -> tuple[dict[int, str], dict[str, int]]:
        """Return the price adjustment of each offering and the capacity, where the first to say so wins."""
        prices: dict[int, str] = {}
        capacity: dict[str, int] = {}
        for each in corrections:
            matching = self.offerings(each)
            for position in matching if each.price else ():
                prices.setdefault(position, each.price)
            for name, amount in each.capacity.items() if matching else ():
                capacity.setdefault(name, amount)
        return prices, capacity


def _corrected(kind: InstanceType, prices: Mapping[int, str], capacity: Mapping[str, int]) -> InstanceType:
    if not prices and not capacity:
        return kind
    offerings = tuple(
        msgspec.structs.replace(o, price=adjusted_price(o.price, prices[n])) if n in prices else o
        for n, o in enumerate(kind.offerings)
    )
    return InstanceType(
        name=kind.name,
        requirements=kind.requirements,
        offerings=offerings,
        capacity={**kind.capacity, **capacity},
        overhead=kind.overhead,
        devices=kind.devices,
    )


def _correction(each: NodeOverlay) -> ParsedOverlay:
    return ParsedOverlay(
        each.name,
        each.spec.weight or 0,
        Requirements.from_entries(each.spec.requirements),
        each.spec.price or each.spec.price_adjustment or "",
        parse_resources(each.spec.capacity),
    )


def _problems(each: NodeOverlay, rules: LabelRules) -> Iterator[str]:
    yield from map(str, validate_nodeoverlay(each, rules=rules))
    spec = each.spec
    if spec.price and spec.price_adjustment:
        yield "price and priceAdjustment may not both be set"
    if spec.price and not _PRICE.fullmatch(spec.price):
        yield f"price {excerpt(spec.price)} is no price: expected a number such as 0.25"
    if spec.price_adjustment and not _ADJUSTMENT.fullmatch(spec.price_adjustment):
        adjustment = excerpt(spec.price_adjustment)
        yield f"priceAdjustment {adjustment} is no adjustment: expected one such as -0.5 or +10%"
    for name in sorted(WELL_KNOWN_RESOURCES & spec.capacity.keys()):
        yield f"capacity may not hold {name}, which the provider knows best"
    if problem := impossible(parse_resources(spec.capacity)):
        yield problem
