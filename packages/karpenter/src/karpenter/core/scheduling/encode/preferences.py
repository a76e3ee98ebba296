"""
Preferences: what a pod asks for first, and what it gives up, one relaxation after the other.

The first relaxation treats every preference as required. Each further one drops one thing, in the
order of Karpenter: a required node affinity term (never the last), the heaviest preferred pod affinity,
the heaviest preferred pod anti-affinity, the heaviest preferred node affinity, a ScheduleAnyway
topology spread, and last the avoidance of PreferNoSchedule taints.

Of a pod with more preferences than :data:`MOST_PREFERENCES` only the heaviest are considered: every one of
them is a relaxation more, each of which is compared with every NodePool and every kind of node.

Which topology groups a relaxation names, and whether it can be met, is decided in ``pack``.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

import msgspec

from karpenter.api.labels import PREFER_NO_SCHEDULE
from karpenter.api.pod import (
    NodeSelectorTerm,
    PodAffinityTerm,
    PodSpec,
    PreferredSchedulingTerm,
    Toleration,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from karpenter.core.model.requirements import Requirements, read_entries

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from karpenter.core.model.requirement import Requirement


_TopologyTerms: TypeAlias = (
    "tuple[tuple[TopologySpreadConstraint, ...], tuple[PodAffinityTerm, ...], tuple[PodAffinityTerm, ...]]"
)

W = TypeVar("W", PreferredSchedulingTerm, WeightedPodAffinityTerm)

MOST_PREFERENCES: Final = 32
"""How many preferences of a pod are considered; Karpenter considers all of them."""

_TOLERATE_PREFER_NO_SCHEDULE: Final = Toleration(operator="Exists", effect=PREFER_NO_SCHEDULE)


class Relaxation(msgspec.Struct, frozen=True):
    """The constraints of a pod after some preferences were dropped: everything in it is required."""

    requirements: Requirements
    strict: Requirements
    """Requirements without preferences: what the pod can never do without."""

    tolerations: tuple[Toleration, ...] = ()
    spreads: tuple[TopologySpreadConstraint, ...] = ()
    pod_affinity: tuple[PodAffinityTerm, ...] = ()
    pod_anti_affinity: tuple[PodAffinityTerm, ...] = ()
    given_up: str = ""
    """What this relaxation dropped compared with the one before; of the first, what was not considered."""

    impossible: str = ""
    """A label for which the pod requires values that no node can have together."""


def relaxations(
    spec: PodSpec,
    spreads: Sequence[TopologySpreadConstraint],
    *,
    respect: bool,
    avoidance: bool = False,
) -> Iterator[Relaxation]:
    """
    Yield every relaxation of a pod, from the most demanding to the least.

    `respect` treats preferences as required until they are dropped (preference-policy Respect);
    `avoidance` says that some pool has a PreferNoSchedule taint.
    """
    preferences = _Preferences(spec, spreads, respect=respect)
    left_out = preferences.limit(MOST_PREFERENCES)
    given_up = f"the lightest {left_out} of its preferences" if left_out else ""
    while True:
        yield preferences.relaxation(given_up)
        given_up = preferences.relax(avoidance=avoidance)
        if not given_up:
            return


def preference_count(spec: PodSpec) -> int:
    """Return how many preferences a pod states."""
    affinity = spec.affinity
    sides = (affinity.node_affinity, affinity.pod_affinity, affinity.pod_anti_affinity) if affinity else ()
    return sum(
        len(side.preferred_during_scheduling_ignored_during_execution) for side in sides if side is not None
    ) + sum(map(_is_preference, spec.topology_spread_constraints))


def node_terms(spec: PodSpec) -> tuple[NodeSelectorTerm, ...]:
    """Return the alternatives of the required node affinity, if it has any."""
    affinity = spec.affinity.node_affinity if spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    # The terms are alternatives (or); the expressions of a term must all hold (and):
    # https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#node-affinity
    return required.node_selector_terms if required else ()


def required_anti_affinity(spec: PodSpec) -> tuple[PodAffinityTerm, ...]:
    anti = spec.affinity.pod_anti_affinity if spec.affinity else None
    return anti.required_during_scheduling_ignored_during_execution if anti else ()


class _Preferences:
    """What is left of a pod's preferences; :meth:`relax` drops one at a time."""

    def __init__(self, spec: PodSpec, spreads: Sequence[TopologySpreadConstraint], *, respect: bool) -> None:
        affinity = spec.affinity
        node = affinity.node_affinity if affinity else None
        pods = affinity.pod_affinity if affinity else None
        anti = affinity.pod_anti_affinity if affinity else None
        self.selector = Requirements.from_labels(spec.node_selector)
        self.alternatives = list(node_terms(spec))
        self.node_preferred = (
            _by_weight(node.preferred_during_scheduling_ignored_during_execution) if node else []
        )
        self.pod_required = list(pods.required_during_scheduling_ignored_during_execution) if pods else []
        self.pod_preferred = (
            _by_weight(pods.preferred_during_scheduling_ignored_during_execution) if pods else []
        )
        self.anti_required = list(anti.required_during_scheduling_ignored_during_execution) if anti else []
        self.anti_preferred = (
            _by_weight(anti.preferred_during_scheduling_ignored_during_execution) if anti else []
        )
        self.spreads = [s for s in spreads if respect or not _is_preference(s)]
        self.tolerations = spec.tolerations
        if not respect:
            self.node_preferred, self.pod_preferred, self.anti_preferred = [], [], []
        self._required: tuple[list[Requirement], Requirements] | None = None
        self._topology: _TopologyTerms | None = None

    def limit(self, most: int) -> int:
        """
        Leave out what is more than `most` preferences, the lightest first; return how many that are.

        Spreads, which have no weight and are given up last, count as the heaviest.
        """
        preferred = sum(map(_is_preference, self.spreads))
        weights = (
            [each.weight for each in self.pod_preferred],
            [each.weight for each in self.anti_preferred],
            [each.weight for each in self.node_preferred],
        )
        order = sorted((-weight, kind) for kind, held in enumerate(weights) for weight in held)
        excess = preferred + len(order) - most
        if excess <= 0:
            return 0
        kept = Counter(kind for _, kind in order[: max(most - preferred, 0)])
        del self.pod_preferred[kept[0] :]  # the lightest are last
        del self.anti_preferred[kept[1] :]
        del self.node_preferred[kept[2] :]
        spare = max(preferred - most, 0)
        for position in reversed(range(len(self.spreads))):
            if spare and _is_preference(self.spreads[position]):
                del self.spreads[position]
                spare -= 1
        return excess

    def relaxation(self, given_up: str) -> Relaxation:
        # Only the first node selector term and the heaviest preference count: the scheduler of Karpenter
        # requires one term at a time and tries the next after this one cannot be met.
        if self._required is None:
            term = self.alternatives[0].match_expressions if self.alternatives else ()
            asked = [*self.selector, *read_entries(term)]
            self._required = asked, Requirements.of(asked)
        asked, strict = self._required
        wanted = strict
        if self.node_preferred:
            asked = [*asked, *read_entries(self.node_preferred[0].preference.match_expressions)]
            wanted = Requirements.of(asked)
        return Relaxation(
            wanted,
            strict,
            self.tolerations,
            *self._topology_terms(),
            given_up,
            _contradiction(asked, wanted),
        )

    def _topology_terms(self) -> _TopologyTerms:
        """Return the terms that name topology groups; the same tuples as long as none was dropped."""
        if self._topology is None:
            self._topology = (
                tuple(self.spreads),
                (*self.pod_required, *(each.pod_affinity_term for each in self.pod_preferred)),
                (*self.anti_required, *(each.pod_affinity_term for each in self.anti_preferred)),
            )
        return self._topology

    def relax(self, *, avoidance: bool) -> str:
        """Drop one preference and name it; empty when nothing is left to drop."""
        # The order is Karpenter's:
        # https://github.com/kubernetes-sigs/karpenter/blob/main/pkg/controllers/provisioning/scheduling/preferences.go
        if len(self.alternatives) > 1:
            self.alternatives.pop(0)
            self._required = None
            return "a node affinity term"
        for held, name in (
            (self.pod_preferred, "a preferred pod affinity"),
            (self.anti_preferred, "a preferred pod anti-affinity"),
            (self.node_preferred, "a preferred node affinity"),
        ):
            if held:
                held.pop(0)
                if held is not self.node_preferred:
                    self._topology = None
                return name
        for position, spread in enumerate(self.spreads):
            if _is_preference(spread):
                self._topology = None
                self.spreads[position] = self.spreads[-1]  # the order is part of the contract
                self.spreads.pop()
                return f"an even spread over {spread.topology_key}"
        if avoidance and _TOLERATE_PREFER_NO_SCHEDULE not in self.tolerations:
            self.tolerations = (*self.tolerations, _TOLERATE_PREFER_NO_SCHEDULE)
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


def _is_preference(spread: TopologySpreadConstraint) -> bool:
    # ScheduleAnyway is a preference; DoNotSchedule is required:
    # https://kubernetes.io/docs/concepts/scheduling-eviction/topology-spread-constraints/
    return spread.when_unsatisfiable != "DoNotSchedule"


def _by_weight(terms: Sequence[W]) -> list[W]:
    # The weight is from 1 to 100; upstream drops the heaviest preference first:
    # https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#node-affinity-weight
    return sorted(terms, key=lambda term: -term.weight)
