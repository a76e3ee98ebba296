"""
Preferences: what a pod asks for first, and what it gives up, one relaxation after the other.

The first relaxation treats every preference as required. Each further one drops one thing, in the
order of Karpenter: a required node affinity term (never the last), the heaviest preferred pod affinity,
the heaviest preferred pod anti-affinity, the heaviest preferred node affinity, a ScheduleAnyway
topology spread, and last the avoidance of PreferNoSchedule taints.

Which topology groups a relaxation names, and whether it can be met, is decided in ``pack``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

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


W = TypeVar("W", PreferredSchedulingTerm, WeightedPodAffinityTerm)

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
    """What this relaxation dropped compared with the one before."""

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
    given_up = ""
    while True:
        yield preferences.relaxation(given_up)
        given_up = preferences.relax(avoidance=avoidance)
        if not given_up:
            return


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
        # ScheduleAnyway is a preference; DoNotSchedule is required:
        # https://kubernetes.io/docs/concepts/scheduling-eviction/topology-spread-constraints/
        self.spreads = [s for s in spreads if respect or s.when_unsatisfiable == "DoNotSchedule"]
        self.tolerations = spec.tolerations
        if not respect:
            self.node_preferred, self.pod_preferred, self.anti_preferred = [], [], []

    def relaxation(self, given_up: str) -> Relaxation:
        # Only the first node selector term and the heaviest preference count: the scheduler of Karpenter
        # requires one term at a time and tries the next after this one cannot be met.
        required = read_entries(self.alternatives[0].match_expressions) if self.alternatives else []
        strict = Requirements.of([*self.selector, *required])
        asked = [*self.selector, *required]
        if self.node_preferred:
            asked += read_entries(self.node_preferred[0].preference.match_expressions)
        wanted = Requirements.of(asked)
        return Relaxation(
            wanted,
            strict,
            self.tolerations,
            tuple(self.spreads),
            tuple(self.pod_required) + tuple(w.pod_affinity_term for w in self.pod_preferred),
            tuple(self.anti_required) + tuple(w.pod_affinity_term for w in self.anti_preferred),
            given_up,
            _contradiction(asked, wanted),
        )

    def relax(self, *, avoidance: bool) -> str:
        """Drop one preference and name it; empty when nothing is left to drop."""
        # The order is Karpenter's:
        # https://github.com/kubernetes-sigs/karpenter/blob/main/pkg/controllers/provisioning/scheduling/preferences.go
        if len(self.alternatives) > 1:
            self.alternatives.pop(0)
            return "a node affinity term"
        for held, name in (
            (self.pod_preferred, "a preferred pod affinity"),
            (self.anti_preferred, "a preferred pod anti-affinity"),
            (self.node_preferred, "a preferred node affinity"),
        ):
            if held:
                held.pop(0)
                return name
        for position, spread in enumerate(self.spreads):
            if spread.when_unsatisfiable != "DoNotSchedule":
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


def _by_weight(terms: Sequence[W]) -> list[W]:
    # The weight is from 1 to 100; upstream drops the heaviest preference first:
    # https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#node-affinity-weight
    return sorted(terms, key=lambda term: -term.weight)
