"""
One reading of pods, ready to be matched: what it needs and what it does to counts.

Compiled once per manner and rung, before anything is placed; a wish is such a reading by pods
of one class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from karpenter.core.model.taints import tolerates
from karpenter.core.scheduling.domains import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from karpenter.api.placement import Toleration
    from karpenter.core.model.requirements import Requirements
    from karpenter.core.scheduling.classes import PodClass
    from karpenter.core.scheduling.domains import Group
    from karpenter.core.scheduling.manners import Manner
    from karpenter.core.scheduling.relax import Rung
    from karpenter.core.scheduling.templates import Template
    from karpenter.core.scheduling.topology import Asked, Demands, Topology

_NO_LIMIT = int(np.iinfo(np.int32).max)


class Reading:
    """One rung of a manner: all that pods ask for, their size aside."""

    __slots__ = ("_tolerated", "demands", "kinds", "rung", "shrinks", "volumes")

    def __init__(self, manner: Manner, rung: Rung, demands: Demands) -> None:
        self.rung = rung
        self.demands = demands
        self.volumes = manner.volumes
        self.kinds: dict[int, bool] = {}
        """Which kinds of existing node suit, as far as that never changes."""

        self.shrinks = not any(asked.group.kind is Kind.NEAR for asked in demands.hosts)
        """Whether a bin that is refused for its company stays refused."""

        self._tolerated: dict[int, bool] = {}

    def tolerates(self, template: Template) -> bool:
        """Return whether the pods may run on nodes of a template."""
        found = self._tolerated.get(template.number)
        if found is None:
            found = tolerates(self.rung.tolerations, template.pool.taints)
            self._tolerated[template.number] = found
        return found

    def stamp(self) -> int:
        """Return a figure that changes whenever a count that limits the pods does."""
        stamp = 0
        for asked in self.demands.domains:
            stamp += asked.group.version
        return stamp


class Wish:
    """A class of pods that asks for everything on one rung of its ladder."""

    __slots__ = ("demands", "of", "reading", "rung", "volumes")

    def __init__(self, of: PodClass, reading: Reading) -> None:
        self.of = of
        self.reading = reading
        self.rung = reading.rung
        self.demands = reading.demands
        self.volumes = reading.volumes

    @property
    def requirements(self) -> Requirements:
        """What the node must look like."""
        return self.rung.requirements

    @property
    def strict(self) -> Requirements:
        """What the node must look like, preferences aside."""
        return self.rung.strict

    @property
    def tolerations(self) -> tuple[Toleration, ...]:
        """Which taints do not matter."""
        return self.rung.tolerations

    def tolerates(self, template: Template) -> bool:
        """Return whether the pods may run on nodes of a template."""
        return self.reading.tolerates(template)

    def host_cap(self, number: int) -> int:
        """Return how many pods of the class one bin may still take, by what runs there."""
        cap = 1 if self.of.ports else _NO_LIMIT
        for asked in self.demands.hosts:
            cap = min(cap, cap_of(asked, number))
        return cap

    def host_caps(self, first: int, last: int) -> NDArray[np.int64] | None:
        """Return the caps of a range of bins; None when there are none."""
        caps: NDArray[np.int64] | None = np.ones(last - first, np.int64) if self.of.ports else None
        for asked in self.demands.hosts:
            group = asked.group
            found = _caps(
                group, group.hosts.of(first, last).astype(np.int64), counts_itself=asked.counts_itself
            )
            caps = found if caps is None else np.minimum(caps, found)
        return caps

    def is_closed(self, number: int) -> bool:
        """Return whether a bin can never again take a pod of the class, by what runs there."""
        return self.reading.shrinks and self.host_cap(number) < 1


def cap_of(asked: Asked, number: int) -> int:
    """Return how many pods that ask this one bin may still take."""
    group, count = asked.group, asked.group.hosts[number]
    match group.kind:
        case Kind.SPREAD:
            left = group.spec.max_skew - count
            return max(left, 0) if asked.counts_itself else (_NO_LIMIT if left >= 0 else 0)
        case Kind.NEAR:
            return _NO_LIMIT if count or (asked.counts_itself and not group.hosts) else 0
        case _:
            if count:
                return 0
            return 1 if asked.counts_itself else _NO_LIMIT


def _caps(group: Group, counts: NDArray[np.int64], *, counts_itself: bool) -> NDArray[np.int64]:
    match group.kind:
        case Kind.SPREAD:
            left = group.spec.max_skew - counts
            return np.maximum(left, 0) if counts_itself else np.where(left >= 0, _NO_LIMIT, 0)
        case Kind.NEAR:
            first = counts_itself and not group.hosts
            return np.where((counts > 0) | first, _NO_LIMIT, 0)
        case _:
            return np.where(counts > 0, 0, 1 if counts_itself else _NO_LIMIT)


def compile_wishes(classes: Sequence[PodClass], topology: Topology) -> dict[int, list[Wish]]:
    """Return every class's readings in order, by class number."""
    manners = {each.manner.number: each.manner for each in classes}
    topology.prepare(manners.values())
    readings = {
        number: [
            Reading(manner, rung, topology.demands(manner, position))
            for position, rung in enumerate(manner.rungs)
        ]
        for number, manner in manners.items()
    }
    return {each.number: [Wish(each, found) for found in readings[each.manner.number]] for each in classes}
