"""
Overlays: corrections that users make to prices and capacity of instance types.

The heaviest overlay decides; lighter ones fill what it left open. Two overlays of one
weight that correct the same thing contradict each other: the later one is refused whole,
for every pool, so that a typo never takes effect half.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from karpenter.api.labels import NODEPOOL
from karpenter.core.model.catalog import InstanceType, Offering
from karpenter.core.model.requirements import Requirements
from karpenter.core.model.resources import parse_resources

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from karpenter.api.overlay import NodeOverlay


class Correction(msgspec.Struct, frozen=True):
    """One overlay, read."""

    name: str
    weight: int
    requirements: Requirements
    price: str = ""
    capacity: dict[str, int] = {}


class Overlaid(msgspec.Struct, frozen=True):
    """Instance types after correction, and which were changed in price and in capacity."""

    types: tuple[InstanceType, ...]
    marks: dict[str, tuple[bool, bool]] = {}


def read(overlays: Iterable[NodeOverlay]) -> list[Correction]:
    """Return overlays as corrections, heaviest first; of equals the later name first."""
    found = [
        Correction(
            each.name,
            each.spec.weight or 0,
            Requirements.from_entries(each.spec.requirements),
            each.spec.price or each.spec.price_adjustment or "",
            parse_resources(each.spec.capacity),
        )
        for each in overlays
    ]
    found.sort(key=lambda c: c.name, reverse=True)
    found.sort(key=lambda c: -c.weight)
    return found


def accepted(
    corrections: Sequence[Correction],
    pools: Mapping[str, tuple[Mapping[str, str], Sequence[InstanceType]]],
) -> tuple[list[Correction], dict[str, str]]:
    """
    Return the corrections that hold, and why the others do not.

    `pools` gives the template labels and instance types of every pool.
    """
    kept: list[Correction] = []
    refused: dict[str, str] = {}
    claimed: dict[tuple[object, ...], tuple[int, str]] = {}
    for each in corrections:
        wants = [
            target
            for pool, (labels, types) in pools.items()
            for kind in types
            for target in _targets(each, pool, labels, kind)
        ]
        rival = next((claimed[t][1] for t in wants if t in claimed and claimed[t][0] == each.weight), "")
        if rival:
            refused[each.name] = f"conflicts with NodeOverlay {rival} of the same weight"
            continue
        kept.append(each)
        for target in wants:
            claimed[target] = (each.weight, each.name)
    return kept, refused


def overlay(
    pool: str, labels: Mapping[str, str], types: Sequence[InstanceType], corrections: Sequence[Correction]
) -> Overlaid:
    """Return the instance types of a pool with every correction applied."""
    if not corrections:
        return Overlaid(tuple(types))
    marks: dict[str, tuple[bool, bool]] = {}
    corrected = []
    for kind in types:
        changed = _corrected(pool, labels, kind, corrections)
        if changed is not kind:
            price = any(a.price != b.price for a, b in zip(kind.offerings, changed.offerings, strict=True))
            marks[kind.name] = (price, changed.capacity != kind.capacity)
        corrected.append(changed)
    return Overlaid(tuple(corrected), marks)


def adjusted(price: float, adjustment: str) -> float:
    """Return a price after an absolute value, an amount with a sign, or a percentage with a sign."""
    if not adjustment:
        return price
    if adjustment[0] not in "+-":
        return float(adjustment)
    if adjustment.endswith("%"):
        return max(0.0, price * (1 + float(adjustment[:-1]) / 100))
    return max(0.0, price + float(adjustment))


def _corrected(
    pool: str, labels: Mapping[str, str], kind: InstanceType, corrections: Sequence[Correction]
) -> InstanceType:
    prices: dict[int, str] = {}
    capacity: dict[str, int] = {}
    for each in corrections:
        matching = _offerings(each, pool, labels, kind)
        if not matching:
            continue
        for position in matching if each.price else ():
            prices.setdefault(position, each.price)
        for name, amount in each.capacity.items():
            capacity.setdefault(name, amount)
    if not prices and not capacity:
        return kind
    offerings = tuple(
        msgspec.structs.replace(o, price=adjusted(o.price, prices[n])) if n in prices else o
        for n, o in enumerate(kind.offerings)
    )
    return InstanceType(
        name=kind.name,
        requirements=kind.requirements,
        offerings=offerings,
        capacity={**kind.capacity, **capacity},
        overhead=kind.overhead,
    )


def _offerings(each: Correction, pool: str, labels: Mapping[str, str], kind: InstanceType) -> list[int]:
    """Return the positions of the offerings that a correction is about."""
    known = Requirements.from_labels({NODEPOOL: pool, **labels}).intersect(kind.requirements)
    if not known.accepts(each.requirements):
        return []
    return [n for n, offering in enumerate(kind.offerings) if _is_about(each, known, offering)]


def _is_about(each: Correction, known: Requirements, offering: Offering) -> bool:
    return known.intersect(offering.requirements).accepts(each.requirements)


def _targets(
    each: Correction, pool: str, labels: Mapping[str, str], kind: InstanceType
) -> list[tuple[object, ...]]:
    matching = _offerings(each, pool, labels, kind)
    if not matching:
        return []
    found: list[tuple[object, ...]] = [(pool, kind.name, n) for n in matching] if each.price else []
    return found + [(pool, kind.name, name) for name in each.capacity]
