"""
The ladder of a pod's wishes: what it asks for first, and what it gives up, step by step.

The first rung holds every preference as if it were required. Each further rung gives
up one thing, in a fixed order: a required node-affinity alternative (never the last),
the heaviest preferred pod affinity, the heaviest preferred pod anti-affinity, the
heaviest preferred node affinity, a ScheduleAnyway spread, and last the wish to avoid
nodes that would rather not have the pod.

Pure; says nothing about whether a rung can be met.

One reading of pods, ready to be matched: what it needs and what it does to counts.

Compiled once per manner and rung, before anything is placed; a wish is such a reading by pods
of one class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

import msgspec
import numpy as np

from karpenter.api.labels import PREFER_NO_SCHEDULE
from karpenter.api.pod import (
    PodAffinityTerm,
    PreferredSchedulingTerm,
    Toleration,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from karpenter.core.model.requirements import Requirements, read_entries
from karpenter.core.model.taints import tolerates
from karpenter.core.scheduling.pack.topologygroup import TopologyType

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from karpenter.api.pod import NodeSelectorTerm, PodSpec
    from karpenter.core.model.requirement import Requirement
    from karpenter.core.scheduling.encode.nodeclaimtemplate import Template
    from karpenter.core.scheduling.encode.pod_classes import PodClass, PodConstraints
    from karpenter.core.scheduling.pack.topology import Topology, TopologyDemand, TopologyDemands
    from karpenter.core.scheduling.pack.topologygroup import TopologyGroup


W = TypeVar("W", PreferredSchedulingTerm, WeightedPodAffinityTerm)
_AVOIDED: Final = Toleration(operator="Exists", effect=PREFER_NO_SCHEDULE)


class Relaxation(msgspec.Struct, frozen=True):
    """One way to read a pod's wishes: everything in it is required."""

    requirements: Requirements
    strict: Requirements
    """Without preferences: what the pod can never do without."""

    tolerations: tuple[Toleration, ...] = ()
    spreads: tuple[TopologySpreadConstraint, ...] = ()
    near: tuple[PodAffinityTerm, ...] = ()
    apart: tuple[PodAffinityTerm, ...] = ()
    given_up: str = ""
    """What this rung gave up against the one before."""

    impossible: str = ""
    """A label of which the pod asks things that no node can have together."""


def relaxations(
    spec: PodSpec,
    spreads: Sequence[TopologySpreadConstraint],
    *,
    respect: bool,
    avoidance: bool,
) -> Iterator[Relaxation]:
    """
    Yield every reading of the pod, from the most demanding to the least.

    `respect` takes preferences for requirements until they are given up; `avoidance` says
    that some pool has a PreferNoSchedule taint.
    """
    wishes = _Preferences(spec, spreads, respect=respect)
    given_up = ""
    while True:
        yield wishes.rung(given_up)
        given_up = wishes.give_up(avoidance=avoidance)
        if not given_up:
            return


def node_terms(spec: PodSpec) -> tuple[NodeSelectorTerm, ...]:
    """Return the alternatives of the required node affinity, if it has any."""
    affinity = spec.affinity.node_affinity if spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    return required.node_selector_terms if required else ()


def required_anti_affinity(spec: PodSpec) -> tuple[PodAffinityTerm, ...]:
    """Return the pods this one can never be near to."""
    anti = spec.affinity.pod_anti_affinity if spec.affinity else None
    return anti.required_during_scheduling_ignored_during_execution if anti else ()


class _Preferences:
    """What is left of a pod's wishes; shrinks step by step."""

    def __init__(self, spec: PodSpec, spreads: Sequence[TopologySpreadConstraint], *, respect: bool) -> None:
        affinity = spec.affinity
        node = affinity.node_affinity if affinity else None
        near = affinity.pod_affinity if affinity else None
        apart = affinity.pod_anti_affinity if affinity else None
        self.selector = Requirements.from_labels(spec.node_selector)
        self.alternatives = list(node_terms(spec))
        self.preferred = _by_weight(node.preferred_during_scheduling_ignored_during_execution) if node else []
        self.near = list(near.required_during_scheduling_ignored_during_execution) if near else []
        self.nearby = _by_weight(near.preferred_during_scheduling_ignored_during_execution) if near else []
        self.apart = list(apart.required_during_scheduling_ignored_during_execution) if apart else []
        self.afar = _by_weight(apart.preferred_during_scheduling_ignored_during_execution) if apart else []
        self.spreads = [s for s in spreads if respect or s.when_unsatisfiable == "DoNotSchedule"]
        self.tolerations = spec.tolerations
        if not respect:
            self.preferred, self.nearby, self.afar = [], [], []

    def rung(self, given_up: str) -> Relaxation:
        required = read_entries(self.alternatives[0].match_expressions) if self.alternatives else []
        strict = Requirements.of([*self.selector, *required])
        asked = [*self.selector, *required]
        if self.preferred:
            asked += read_entries(self.preferred[0].preference.match_expressions)
        wanted = Requirements.of(asked)
        return Relaxation(
            wanted,
            strict,
            self.tolerations,
            tuple(self.spreads),
            tuple(self.near) + tuple(w.pod_affinity_term for w in self.nearby),
            tuple(self.apart) + tuple(w.pod_affinity_term for w in self.afar),
            given_up,
            _contradiction(asked, wanted),
        )

    def give_up(self, *, avoidance: bool) -> str:
        """Drop one wish and name it; empty when nothing is left to drop."""
        if len(self.alternatives) > 1:
            self.alternatives.pop(0)
            return "a node affinity term"
        for held, name in (
            (self.nearby, "a preferred pod affinity"),
            (self.afar, "a preferred pod anti-affinity"),
            (self.preferred, "a preferred node affinity"),
        ):
            if held:
                held.pop(0)
                return name
        for position, spread in enumerate(self.spreads):
            if spread.when_unsatisfiable != "DoNotSchedule":
                self.spreads[position] = self.spreads[-1]  # the order is part of the contract
                self.spreads.pop()
                return f"an even spread over {spread.topology_key}"
        if avoidance and _AVOIDED not in self.tolerations:
            self.tolerations = (*self.tolerations, _AVOIDED)
            return "avoiding PreferNoSchedule nodes"
        return ""


def _contradiction(asked: Sequence[Requirement], wanted: Requirements) -> str:
    """Return a label that must be there and cannot have any value, if there is one."""
    return next(
        (
            each.key
            for each in asked
            if not each.tolerates_absence and not wanted[each.key].complement and not wanted[each.key].values
        ),
        "",
    )


def _by_weight(terms: Sequence[W]) -> list[W]:
    return sorted(terms, key=lambda term: -term.weight)


_NO_LIMIT = int(np.iinfo(np.int32).max)


class CompiledRelaxation:
    """One rung of a manner: all that pods ask for, their size aside."""

    __slots__ = ("_tolerated", "demands", "kinds", "rung", "shrinks", "volumes")

    def __init__(self, manner: PodConstraints, rung: Relaxation, demands: TopologyDemands) -> None:
        self.rung = rung
        self.demands = demands
        self.volumes = manner.volumes
        self.kinds: dict[int, bool] = {}
        """Which kinds of existing node suit, as far as that never changes."""

        self.shrinks = not any(asked.group.kind is TopologyType.NEAR for asked in demands.hosts)
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


class PodData:
    """A class of pods that asks for everything on one rung of its ladder."""

    __slots__ = ("demands", "of", "reading", "rung", "volumes")

    def __init__(self, of: PodClass, reading: CompiledRelaxation) -> None:
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
            cap = min(cap, host_limit(asked, number))
        return cap

    def host_caps(self, first: int, last: int) -> NDArray[np.int64] | None:
        """Return the caps of a range of bins; None when there are none."""
        caps: NDArray[np.int64] | None = np.ones(last - first, np.int64) if self.of.ports else None
        for asked in self.demands.hosts:
            group = asked.group
            found = _host_limits(
                group, group.hosts.of(first, last).astype(np.int64), counts_itself=asked.counts_itself
            )
            caps = found if caps is None else np.minimum(caps, found)
        return caps

    def is_closed(self, number: int) -> bool:
        """Return whether a bin can never again take a pod of the class, by what runs there."""
        return self.reading.shrinks and self.host_cap(number) < 1


def host_limit(asked: TopologyDemand, number: int) -> int:
    """Return how many pods that ask this one bin may still take."""
    group, count = asked.group, asked.group.hosts[number]
    match group.kind:
        case TopologyType.SPREAD:
            left = group.spec.max_skew - count
            return max(left, 0) if asked.counts_itself else (_NO_LIMIT if left >= 0 else 0)
        case TopologyType.NEAR:
            return _NO_LIMIT if count or (asked.counts_itself and not group.hosts) else 0
        case _:
            if count:
                return 0
            return 1 if asked.counts_itself else _NO_LIMIT


def _host_limits(
    group: TopologyGroup, counts: NDArray[np.int64], *, counts_itself: bool
) -> NDArray[np.int64]:
    match group.kind:
        case TopologyType.SPREAD:
            left = group.spec.max_skew - counts
            return np.maximum(left, 0) if counts_itself else np.where(left >= 0, _NO_LIMIT, 0)
        case TopologyType.NEAR:
            first = counts_itself and not group.hosts
            return np.where((counts > 0) | first, _NO_LIMIT, 0)
        case _:
            return np.where(counts > 0, 0, 1 if counts_itself else _NO_LIMIT)


def compile_pod_data(classes: Sequence[PodClass], topology: Topology) -> dict[int, list[PodData]]:
    """Return every class's readings in order, by class number."""
    manners = {each.manner.number: each.manner for each in classes}
    topology.prepare(manners.values())
    readings = {
        number: [
            CompiledRelaxation(manner, rung, topology.demands(manner, position))
            for position, rung in enumerate(manner.rungs)
        ]
        for number, manner in manners.items()
    }
    return {each.number: [PodData(each, found) for found in readings[each.manner.number]] for each in classes}
