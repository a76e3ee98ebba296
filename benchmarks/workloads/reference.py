"""
The pods of the reference benchmark: a fifth each of five kinds, and pods with preferences.

Generic pods, pods spread over zones, pods spread over nodes, pods that want their like in
the same zone, and pods of which no two go on one node. Every pod has a spec of its own, as
pods that were read from an API server have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from benchmarks.workloads.draws import Draws
from karpenter.api.labels import HOSTNAME, ZONE
from karpenter.api.meta import LabelSelector, ObjectMeta
from karpenter.api.pod import (
    Affinity,
    Container,
    NodeAffinity,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    PreferredSchedulingTerm,
    ResourceRequirements,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)

if TYPE_CHECKING:
    from collections.abc import Callable

CPUS: Final = ("100m", "250m", "500m", "1000m", "1500m")
MEMORIES: Final = ("100Mi", "256Mi", "512Mi", "1024Mi", "2048Mi", "4096Mi")
VALUES: Final = ("a", "b", "c", "d", "e", "f", "g")
LABEL: Final = "my-label"
AFFINITY_LABEL: Final = "my-affininity"  # spelled so in the reference
_ALL: Final = {"testing/cluster": "unspecified"}


def diverse_pods(count: int) -> list[Pod]:
    """Return `count` pods of the five kinds; what five does not divide is generic."""
    draws = Draws()
    pods: list[Pod] = []
    kinds: list[Callable[[Draws, int], Pod]] = [_generic, _spread(ZONE), _spread(HOSTNAME), _together, _apart]
    for kind in kinds:
        pods += [kind(draws, len(pods) + number) for number in range(count // len(kinds))]
    return pods + [_generic(draws, number) for number in range(len(pods), count)]


def preference_pods(count: int) -> list[Pod]:
    """Return `count` equal pods that would rather be in one zone, and rather apart."""
    draws = Draws()
    cpu, memory = draws.one_of(*CPUS), draws.one_of(*MEMORIES)
    return [_with_preferences(number, cpu, memory) for number in range(count)]


def _generic(draws: Draws, number: int) -> Pod:
    return _pod(draws, number, {LABEL: draws.one_of(*VALUES)})


def _spread(key: str) -> Callable[[Draws, int], Pod]:
    def make(draws: Draws, number: int) -> Pod:
        labels = {LABEL: draws.one_of(*VALUES)}
        chosen = LabelSelector(match_labels={LABEL: draws.one_of(*VALUES)})
        constraint = TopologySpreadConstraint(
            max_skew=1, topology_key=key, when_unsatisfiable="DoNotSchedule", label_selector=chosen
        )
        return _pod(draws, number, labels, spreads=(constraint,))

    return make


def _together(draws: Draws, number: int) -> Pod:
    labels = {AFFINITY_LABEL: draws.one_of(*VALUES)}
    near = PodAffinity(required_during_scheduling_ignored_during_execution=(_term(ZONE, labels),))
    return _pod(draws, number, labels, affinity=Affinity(pod_affinity=near))


def _apart(draws: Draws, number: int) -> Pod:
    labels = {"app": "nginx"}
    apart = PodAffinity(required_during_scheduling_ignored_during_execution=(_term(HOSTNAME, labels),))
    return _pod(draws, number, labels, affinity=Affinity(pod_anti_affinity=apart))


def _with_preferences(number: int, cpu: str, memory: str) -> Pod:
    labels = {"app": "nginx"}
    zone = NodeSelectorRequirement(key=ZONE, operator="In", values=("test-zone-1",))
    wished = PreferredSchedulingTerm(weight=1, preference=NodeSelectorTerm(match_expressions=(zone,)))
    apart = PodAffinity(
        preferred_during_scheduling_ignored_during_execution=tuple(
            WeightedPodAffinityTerm(weight=weight, pod_affinity_term=_term(key, labels))
            for weight, key in ((10, ZONE), (1, HOSTNAME))
        )
    )
    affinity = Affinity(
        node_affinity=NodeAffinity(preferred_during_scheduling_ignored_during_execution=(wished,)),
        pod_anti_affinity=apart,
    )
    return _made(number, labels, cpu, memory, PodSpec(affinity=affinity))


def _term(key: str, labels: dict[str, str]) -> PodAffinityTerm:
    return PodAffinityTerm(topology_key=key, label_selector=LabelSelector(match_labels=labels))


def _pod(
    draws: Draws,
    number: int,
    labels: dict[str, str],
    *,
    affinity: Affinity | None = None,
    spreads: tuple[TopologySpreadConstraint, ...] = (),
) -> Pod:
    cpu, memory = draws.one_of(*CPUS), draws.one_of(*MEMORIES)
    spec = PodSpec(affinity=affinity, topology_spread_constraints=spreads)
    return _made(number, labels, cpu, memory, spec)


def _made(number: int, labels: dict[str, str], cpu: str, memory: str, spec: PodSpec) -> Pod:
    requests = ResourceRequirements(requests={"cpu": cpu, "memory": memory})
    name = f"pod-{number:06d}"
    return Pod(
        metadata=ObjectMeta(name=name, namespace="default", uid=f"uid-{name}", labels={**_ALL, **labels}),
        spec=PodSpec(
            affinity=spec.affinity,
            topology_spread_constraints=spec.topology_spread_constraints,
            containers=(Container(name="main", resources=requests),),
        ),
    )
