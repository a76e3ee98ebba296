"""
NodeOverlays: prices and capacity of instance types that users adjust
(https://karpenter.sh/docs/concepts/nodeoverlays/).

The overlay with the highest weight wins; others fill what it leaves open. Two overlays of one weight that
set the same thing conflict: the later one is refused whole, for every NodePool, so that a typo never
applies by half. So is one that cannot be read.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.labels import NODEPOOL, WELL_KNOWN_RESOURCES, LabelRules
from karpenter.api.validation.nodeoverlay_validation import validate_nodeoverlay
from karpenter.base.pretty import excerpt
from karpenter.base.quantity import QuantityError
from karpenter.core.model.catalog import InstanceType, Offering
from karpenter.core.model.pricing import LIST, OVERLAYS
from karpenter.core.model.requirements import Requirements
from karpenter.core.model.resources import impossible, parse_resources

if TYPE_CHECKING:
    from karpenter.api.nodeoverlay import NodeOverlay


_PRICE: Final = re.compile(r"[0-9]{1,30}(\.[0-9]{1,30})?")
_ADJUSTMENT: Final = re.compile(r"[+-]([0-9]{1,30}\.?[0-9]{0,30}|\.[0-9]{1,30})%?")


def apply_overlays(
    pool: str, labels: Mapping[str, str], types: Sequence[InstanceType], overlays: Sequence[ParsedOverlay]
) -> OverlaidTypes:
    """Return the instance types of a NodePool with every overlay applied."""
    if not overlays:
        return OverlaidTypes(tuple(types))
    marks: dict[str, tuple[bool, bool]] = {}
    overlaid = []
    for kind in types:
        prices, capacity = _PoolInstanceType(pool, labels, kind).overlays(overlays)
        if prices or capacity:
            marks[kind.name] = (bool(prices), bool(capacity))
        overlaid.append(_overlaid(kind, prices, capacity))
    return OverlaidTypes(tuple(overlaid), marks)


def parse_overlays(
    overlays: Iterable[NodeOverlay], rules: LabelRules
) -> tuple[list[ParsedOverlay], dict[str, str]]:
    """
    Return the parsed overlays, heaviest first, and why some cannot be read.

    Of equal weights the later name comes first.
    """
    found: list[ParsedOverlay] = []
    refused: dict[str, str] = {}
    for each in overlays:
        try:
            problem = next(_problems(each, rules), "")
            if not problem:
                found.append(_overlay(each))
        except QuantityError as error:
            problem = str(error)
        if problem:
            refused[each.name] = problem
    found.sort(key=lambda c: c.name, reverse=True)
    found.sort(key=lambda c: -c.weight)
    return found, refused


def without_conflicts(
    overlays: Sequence[ParsedOverlay],
    pools: Mapping[str, tuple[Mapping[str, str], Sequence[InstanceType]]],
) -> tuple[list[ParsedOverlay], dict[str, str]]:
    """
    Return the overlays without conflicts, and why the others are refused.

    `pools` gives the template labels and instance types of every NodePool.
    """
    pool_types = [
        _PoolInstanceType(pool, labels, kind) for pool, (labels, types) in pools.items() for kind in types
    ]
    kept: list[ParsedOverlay] = []
    refused: dict[str, str] = {}
    claimed: dict[Hashable, tuple[int, str]] = {}
    for each in overlays:
        wants = [target for pool_type in pool_types for target in pool_type.targets(each)]
        conflicting = next(
            (claimed[t][1] for t in wants if t in claimed and claimed[t][0] == each.weight), ""
        )
        if conflicting:
            refused[each.name] = f"conflicts with NodeOverlay {conflicting} of the same weight"
            continue
        kept.append(each)
        for target in wants:
            claimed[target] = (each.weight, each.name)
    return kept, refused


class OverlaidTypes(msgspec.Struct, frozen=True):
    """Instance types with overlays applied, and which were changed in price and in capacity."""

    types: tuple[InstanceType, ...]
    marks: Mapping[str, tuple[bool, bool]] = {}


class ParsedOverlay(msgspec.Struct, frozen=True):
    """A NodeOverlay, parsed."""

    name: str
    weight: int
    requirements: Requirements
    price: str = ""
    capacity: Mapping[str, int] = {}


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


def _overlay(each: NodeOverlay) -> ParsedOverlay:
    return ParsedOverlay(
        each.name,
        each.spec.weight or 0,
        Requirements.from_entries(each.spec.requirements),
        each.spec.price or each.spec.price_adjustment or "",
        parse_resources(each.spec.capacity),
    )


class _PoolInstanceType:
    """An instance type as one NodePool offers it: what overlays select."""

    def __init__(self, pool: str, labels: Mapping[str, str], kind: InstanceType) -> None:
        self._pool = pool
        self._kind = kind
        self._known = Requirements.from_labels({**labels, NODEPOOL: pool}).intersect(kind.requirements)
        self._offerings = [self._known.intersect(each.requirements) for each in kind.offerings]

    def offerings(self, each: ParsedOverlay) -> list[int]:
        """Return the positions of the offerings that an overlay selects."""
        if not self._known.accepts(each.requirements):
            return []
        return [n for n, known in enumerate(self._offerings) if known.accepts(each.requirements)]

    def targets(self, each: ParsedOverlay) -> list[Hashable]:
        """Return every price and capacity that an overlay would change here."""
        matching = self.offerings(each)
        if not matching:
            return []
        place = (self._pool, self._kind.name)
        prices: list[Hashable] = [(*place, n) for n in matching] if each.price else []
        return prices + [(*place, name) for name in each.capacity]

    def overlays(self, overlays: Sequence[ParsedOverlay]) -> tuple[dict[int, str], dict[str, int]]:
        """Return the price adjustment of each offering and the capacity; the first overlay wins."""
        prices: dict[int, str] = {}
        capacity: dict[str, int] = {}
        for each in overlays:
            matching = self.offerings(each)
            for position in matching if each.price else ():
                prices.setdefault(position, each.price)
            for name, amount in each.capacity.items() if matching else ():
                capacity.setdefault(name, amount)
        return prices, capacity


def _overlaid(kind: InstanceType, prices: Mapping[int, str], capacity: Mapping[str, int]) -> InstanceType:
    if not prices and not capacity:
        return kind
    offerings = tuple(
        _repriced(offering, prices[number]) if number in prices else offering
        for number, offering in enumerate(kind.offerings)
    )
    return InstanceType(
        name=kind.name,
        requirements=kind.requirements,
        offerings=offerings,
        capacity={**kind.capacity, **capacity},
        overhead=kind.overhead,
        devices=kind.devices,
    )


def _repriced(offering: Offering, adjustment: str) -> Offering:
    price = adjusted_price(offering.price, adjustment)
    parts = ((LIST, offering.price), (OVERLAYS, price - offering.price))
    return msgspec.structs.replace(offering, price=price, parts=parts)


def adjusted_price(price: float, adjustment: str) -> float:
    """Return a price after an absolute value, an amount with a sign, or a percentage with a sign."""
    if not adjustment:
        return price
    if adjustment[0] not in "+-":
        return float(adjustment)
    # priceAdjustment is signed: an amount or a percentage; a price never falls below zero.
    if adjustment.endswith("%"):
        return max(0.0, price * (1 + float(adjustment[:-1]) / 100))
    return max(0.0, price + float(adjustment))
