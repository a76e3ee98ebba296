"""
The arithmetic of a rolling update: how large each replica set should be next.

Never more pods than the wanted count plus the surge, never fewer available ones than the wanted count less
what may be unavailable. Old pods that do not work go first; the rest of the old ones go as new ones become
available.

Pure: sets are values here (:class:`Replicas`), and the answer is a new size for some of them.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from karpenter_local.controllers.plain import scaled


class Replicas(msgspec.Struct, frozen=True, kw_only=True):
    """One replica set of a deployment."""

    name: str
    size: int
    """As asked for."""
    available: int = 0
    created: datetime
    most: int | None = None
    """The wanted count plus surge when it was last sized; none if it never was."""


class RolloutLimits(msgspec.Struct, frozen=True):
    """Limits between which a rollout keeps the number of pods."""

    wanted: int
    surge: int
    unavailable: int

    @property
    def most(self) -> int:
        return self.wanted + self.surge if self.wanted else 0

    @property
    def least_available(self) -> int:
        """The fewest pods that must be available."""
        return self.wanted - min(self.unavailable, self.wanted)


Sizes = dict[str, int]
"""New sizes by the name of the set; sets that are left alone are not named."""


def limits(wanted: int, strategy: dict[str, Any]) -> RolloutLimits:
    """Return the limits that a deployment's strategy means for its wanted count."""
    if strategy.get("type") == "Recreate":
        return RolloutLimits(wanted, 0, 0)
    rolling = strategy.get("rollingUpdate") or {}
    surge = scaled(rolling.get("maxSurge", "25%"), wanted, up=True)
    unavailable = scaled(rolling.get("maxUnavailable", "25%"), wanted, up=False)
    if surge == 0 and unavailable == 0:
        unavailable = 1  # a percentage of few pods rounded down to a standstill
    return RolloutLimits(wanted, surge, unavailable)


def first_size(bounds: RolloutLimits, old: Sequence[Replicas]) -> int:
    return max(0, min(bounds.wanted, bounds.wanted + bounds.surge - sum(each.size for each in old)))


def grow(bounds: RolloutLimits, new: Replicas, old: Sequence[Replicas]) -> Sizes:
    """Return the new set's next size, if it changes."""
    if new.size == bounds.wanted:
        return {}
    if new.size > bounds.wanted:
        return {new.name: bounds.wanted}
    total = new.size + sum(each.size for each in old)
    room = bounds.wanted + bounds.surge - total
    if room <= 0:
        return {}
    return {new.name: new.size + min(room, bounds.wanted - new.size)}


def shrink(bounds: RolloutLimits, new: Replicas, old: Sequence[Replicas]) -> Sizes:
    """Return the old sets' next sizes: what does not work goes, then what new pods have made up for."""
    standing = [each for each in sorted(old, key=_age) if each.size]
    if not standing:
        return {}
    total = new.size + sum(each.size for each in standing)
    spare = total - bounds.least_available - (new.size - new.available)
    if spare <= 0:
        return {}
    sizes = {each.name: each.size for each in standing}
    cleaned = 0
    for each in standing:
        broken = min(spare - cleaned, each.size - each.available)
        if broken > 0:
            sizes[each.name] -= broken
            cleaned += broken
    available = new.available + sum(each.available for each in standing)
    surplus = available - bounds.least_available
    for each in standing:
        step = min(sizes[each.name], max(0, surplus))
        sizes[each.name] -= step
        surplus -= step
    return {each.name: sizes[each.name] for each in standing if sizes[each.name] != each.size}


def share(bounds: RolloutLimits, new: Replicas | None, old: Sequence[Replicas], *, rolling: bool) -> Sizes:
    """
    Return the sizes after the wanted count itself was changed.

    One standing set takes the whole change. If the new set already is what was wanted, the old ones go. In
    the middle of a rollout, all standing sets change in proportion, and the largest takes what is left over.
    """
    sets = [*old, *([new] if new is not None else [])]
    standing = [each for each in sets if each.size]
    if len(standing) <= 1:
        latest = standing[0] if standing else new or (max(sets, key=_age) if sets else None)
        if latest is None or latest.size == bounds.wanted:
            return {}
        return {latest.name: bounds.wanted}
    if new is not None and new.size == bounds.wanted == new.available:
        return {each.name: 0 for each in old if each.size}
    return _in_proportion(bounds, standing) if rolling else {}


def _in_proportion(bounds: RolloutLimits, standing: Sequence[Replicas]) -> Sizes:
    to_add = bounds.most - sum(each.size for each in standing)
    newest_first = -1 if to_add > 0 else 1
    ordered = sorted(
        standing, key=lambda each: (-each.size, newest_first * each.created.timestamp(), each.name)
    )
    sizes: Sizes = {}
    added = 0
    for each in ordered:
        portion = _portion(bounds, each, to_add, added)
        sizes[each.name] = each.size + portion
        added += portion
    if ordered and to_add != added:
        first = ordered[0].name
        sizes[first] = max(0, sizes[first] + to_add - added)
    return {each.name: sizes[each.name] for each in ordered if sizes[each.name] != each.size}


def _portion(bounds: RolloutLimits, each: Replicas, to_add: int, added: int) -> int:
    if not to_add or to_add == added:
        return 0
    if bounds.wanted == 0:
        return -each.size
    target = each.size * bounds.most / (each.most or bounds.most)
    fraction = int(target + 0.5) - each.size
    allowed = to_add - added
    return min(fraction, allowed) if to_add > 0 else max(fraction, allowed)


def _age(each: Replicas) -> tuple[datetime, str]:
    return each.created, each.name
