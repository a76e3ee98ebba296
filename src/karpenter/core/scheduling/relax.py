"""
The ladder of a pod's wishes: what it asks for first, and what it gives up, step by step.

The first rung holds every preference as if it were required. Each further rung gives
up one thing, in a fixed order: a required node-affinity alternative (never the last),
the heaviest preferred pod affinity, the heaviest preferred pod anti-affinity, the
heaviest preferred node affinity, a ScheduleAnyway spread, and last the wish to avoid
nodes that would rather not have the pod.

Pure; says nothing about whether a rung can be met.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from karpenter.api.labels import PREFER_NO_SCHEDULE
from karpenter.api.placement import (
    PodAffinityTerm,
    PreferredSchedulingTerm,
    Toleration,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from karpenter.core.model.requirements import Requirements, read_entries

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from karpenter.api.placement import (
        NodeSelectorTerm,
    )
    from karpenter.api.pod import PodSpec
    from karpenter.core.model.labels import Requirement

W = TypeVar("W", PreferredSchedulingTerm, WeightedPodAffinityTerm)
_AVOIDED: Final = Toleration(operator="Exists", effect=PREFER_NO_SCHEDULE)


class Rung(msgspec.Struct, frozen=True):
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


def ladder(
    spec: PodSpec,
    spreads: Sequence[TopologySpreadConstraint],
    *,
    respect: bool,
    avoidance: bool,
) -> Iterator[Rung]:
    """
    Yield every reading of the pod, from the most demanding to the least.

    `respect` takes preferences for requirements until they are given up; `avoidance` says
    that some pool has a PreferNoSchedule taint.
    """
    wishes = _Wishes(spec, spreads, respect=respect)
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


def required_apart(spec: PodSpec) -> tuple[PodAffinityTerm, ...]:
    """Return the pods this one can never be near to."""
    anti = spec.affinity.pod_anti_affinity if spec.affinity else None
    return anti.required_during_scheduling_ignored_during_execution if anti else ()


class _Wishes:
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

    def rung(self, given_up: str) -> Rung:
        required = read_entries(self.alternatives[0].match_expressions) if self.alternatives else []
        strict = Requirements.of([*self.selector, *required])
        asked = [*self.selector, *required]
        if self.preferred:
            asked += read_entries(self.preferred[0].preference.match_expressions)
        wanted = Requirements.of(asked)
        return Rung(
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
