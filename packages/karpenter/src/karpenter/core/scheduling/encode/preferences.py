"""
Preferences: what a pod asks for first, and what it gives up, one relaxation after the other.

The first relaxation treats every preference as required. Each further one drops one thing, in the
order of Karpenter: a required node affinity term (never the last), the heaviest preferred pod affinity,
the heaviest preferred pod anti-affinity, the heaviest preferred node affinity, a ScheduleAnyway
topology spread, and last the avoidance of PreferNoSchedule taints.

Of a pod with more preferences than :data:`MOST_PREFERENCES` only the heaviest are considered: every one of
them is a relaxation more, each of which is compared with every NodePool and every kind of node.

A relaxation is compiled once per set of pod constraints, before anything is placed; :class:`PodData` joins
it with the requests of one pod class. Whether a relaxation can be met is decided in ``pack``.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

import msgspec
import numpy as np

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
from karpenter.core.model.taints import tolerates
from karpenter.core.scheduling.pack.topologygroup import TopologyGroup, TopologyType

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from karpenter.core.model.requirement import Requirement
    from karpenter.core.scheduling.encode.encode import PodClass, PodConstraints
    from karpenter.core.scheduling.encode.nodeclaimtemplate import Template
    from karpenter.core.scheduling.pack.topology import Topology, TopologyDemand, TopologyDemands

_TopologyTerms: TypeAlias = (
    "tuple[tuple[TopologySpreadConstraint, ...], tuple[PodAffinityTerm, ...], tuple[PodAffinityTerm, ...]]"
)

W = TypeVar("W", PreferredSchedulingTerm, WeightedPodAffinityTerm)

MOST_PREFERENCES: Final = 32
"""How many preferences of a pod are considered; Karpenter considers all of them."""

_TOLERATE_PREFER_NO_SCHEDULE: Final = Toleration(operator="Exists", effect=PREFER_NO_SCHEDULE)
_NO_LIMIT: Final = int(np.iinfo(np.int32).max)


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


class CompiledRelaxation:
    """One relaxation of some pod constraints with the topology groups that it names; requests aside."""

    __slots__ = ("_tolerated", "demands", "node_groups", "relaxation", "shrinks", "volumes")

    def __init__(self, constraints: PodConstraints, relaxation: Relaxation, demands: TopologyDemands) -> None:
        self.relaxation = relaxation
        self.demands = demands
        self.volumes = constraints.volumes
        self.node_groups: dict[int, bool] = {}
        """Which groups of existing nodes match, as far as that never changes."""

        self.shrinks = not any(d.group.kind is TopologyType.POD_AFFINITY for d in demands.hosts)
        """Whether a bin that refuses the pods for its counts refuses them for the rest of the run."""

        self._tolerated: dict[int, bool] = {}

    def tolerates(self, template: Template) -> bool:
        """Return whether the pods may run on nodes of a template."""
        found = self._tolerated.get(template.number)
        if found is None:
            found = tolerates(self.relaxation.tolerations, template.pool.taints)
            self._tolerated[template.number] = found
        return found

    def counts_version(self) -> int:
        """Return a number that changes whenever a count that limits the pods does."""
        version = 0
        for demand in self.demands.domains:
            version += demand.group.version
        return version


class PodData:
    """A pod class under one relaxation: what the scheduler asks of a bin for one of its pods."""

    __slots__ = ("compiled", "demands", "pod_class", "relaxation", "volumes")

    def __init__(self, pod_class: PodClass, compiled: CompiledRelaxation) -> None:
        self.pod_class = pod_class
        self.compiled = compiled
        self.relaxation = compiled.relaxation
        self.demands = compiled.demands
        self.volumes = compiled.volumes

    @property
    def requirements(self) -> Requirements:
        """The labels that the node must have."""
        return self.relaxation.requirements

    @property
    def strict(self) -> Requirements:
        """The labels that the node must have, preferences aside."""
        return self.relaxation.strict

    @property
    def tolerations(self) -> tuple[Toleration, ...]:
        return self.relaxation.tolerations

    def tolerates(self, template: Template) -> bool:
        """Return whether the pods may run on nodes of a template."""
        return self.compiled.tolerates(template)

    def host_cap(self, number: int) -> int:
        """Return how many pods of the class one bin may still take, by the pods that it has."""
        # Two pods of one class would bind the same host port:
        # https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/
        cap = 1 if self.pod_class.ports else _NO_LIMIT
        for demand in self.demands.hosts:
            cap = min(cap, host_limit(demand, number))
        return cap

    def host_caps(self, first: int, last: int) -> NDArray[np.int64] | None:
        """Return the caps of a range of bins; None when there are none."""
        caps: NDArray[np.int64] | None = np.ones(last - first, np.int64) if self.pod_class.ports else None
        for demand in self.demands.hosts:
            group = demand.group
            counts = group.hosts.of(first, last).astype(np.int64)
            found = _host_limits(group, counts, self_selecting=demand.self_selecting)
            caps = found if caps is None else np.minimum(caps, found)
        return caps

    def is_closed(self, number: int) -> bool:
        """Return whether a bin can never again take a pod of the class, by the pods that it has."""
        return self.compiled.shrinks and self.host_cap(number) < 1


def host_limit(demand: TopologyDemand, number: int) -> int:
    """Return how many more pods with a demand over kubernetes.io/hostname one bin may take."""
    # A new node has no pods, so the global minimum over hostnames is always 0 and the skew alone is the
    # limit.
    group, count = demand.group, demand.group.hosts[number]
    match group.kind:
        case TopologyType.SPREAD:
            left = group.spec.max_skew - count
            return max(left, 0) if demand.self_selecting else (_NO_LIMIT if left >= 0 else 0)
        case TopologyType.POD_AFFINITY:
            return _NO_LIMIT if count or (demand.self_selecting and not group.hosts) else 0
        case _:
            if count:
                return 0
            return 1 if demand.self_selecting else _NO_LIMIT


def _host_limits(
    group: TopologyGroup, counts: NDArray[np.int64], *, self_selecting: bool
) -> NDArray[np.int64]:
    """Return the same as :func:`host_limit` for the bins with these `counts`."""
    match group.kind:
        case TopologyType.SPREAD:
            left = group.spec.max_skew - counts
            return np.maximum(left, 0) if self_selecting else np.where(left >= 0, _NO_LIMIT, 0)
        case TopologyType.POD_AFFINITY:
            first = self_selecting and not group.hosts
            return np.where((counts > 0) | first, _NO_LIMIT, 0)
        case _:
            return np.where(counts > 0, 0, 1 if self_selecting else _NO_LIMIT)


def compile_pod_data(classes: Sequence[PodClass], topology: Topology) -> dict[int, list[PodData]]:
    """Return every class under each of its relaxations, most demanding first, by class number."""
    different = {each.constraints.number: each.constraints for each in classes}
    topology.prepare(different.values())
    compiled = {
        number: [
            CompiledRelaxation(constraints, relaxation, topology.demands(constraints, position))
            for position, relaxation in enumerate(constraints.relaxations)
        ]
        for number, constraints in different.items()
    }
    return {
        each.number: [PodData(each, found) for found in compiled[each.constraints.number]] for each in classes
    }
