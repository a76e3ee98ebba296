"""
Pods as a cluster has them: deployments of very different size and shape, some with constraints.

Cpu is log-normal, memory per cpu too, and replicas follow Zipf's law, so that a few
deployments have most of the pods. Amounts are rounded as people round them.
"""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from karpenter.api.labels import ARCH, CAPACITY_TYPE, HOSTNAME, ON_DEMAND, ZONE
from karpenter.api.meta import LabelSelector, ObjectMeta
from karpenter.api.pod import (
    Affinity,
    Container,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    ResourceRequirements,
    TopologySpreadConstraint,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

Kind = Literal["mixed", "cpu", "mem", "big"]

GENERATION: Final = "karpenter.k8s.aws/instance-generation"
_SHAPES: Final = {"mixed": (400, 1.1, 3.5, 0.8), "cpu": (1200, 0.9, 1.5, 0.5), "mem": (300, 0.9, 9.0, 0.5)}
"""The median and the deviation of millicores, and of GiB per core."""

_BIG_CPUS: Final = (250, 3000, 5000, 7000, 9000, 13000)
_BIG_RATIOS: Final = (1.2, 2.0, 3.5, 6.5)
_MOST_APART: Final = 400
_MOST_CAPPED: Final = 800


class Deployment(msgspec.Struct, frozen=True):
    """Equal pods: how many, and what one of them asks for."""

    name: str
    replicas: int
    cpu: int
    memory: int
    """In MiB."""


def deployments(count: int, *, kind: Kind, seed: int, deployed: int = 150) -> list[Deployment]:
    """Return deployments that have `count` pods between them."""
    rng = random.Random(seed)  # noqa: S311  the same workload on every machine, no secret
    weights = [1 / rank for rank in range(1, deployed + 1)]
    rng.shuffle(weights)
    total = sum(weights)
    found, left = [], count
    for number, weight in enumerate(weights):
        cpu, memory = _shape(rng, kind)
        replicas = min(left, max(1, round(count * weight / total)))
        left -= replicas
        if replicas:
            found.append(Deployment(f"d{number:03d}", replicas, cpu, memory))
    if left:
        found[0] = msgspec.structs.replace(found[0], replicas=found[0].replicas + left)
    return found


def _shape(rng: random.Random, kind: Kind) -> tuple[int, int]:
    if kind == "big":
        cpu, ratio = float(rng.choice(_BIG_CPUS)), rng.choice(_BIG_RATIOS)
    else:
        median, deviation, middle, breadth = _SHAPES[kind]
        cpu = rng.lognormvariate(math.log(median), deviation)
        ratio = rng.lognormvariate(math.log(middle), breadth)
    step = 50 if cpu < 1000 else 250
    cores = min(15_000, max(50, round(cpu / step) * step))
    return cores, min(60_000, 64 * max(1, round(cores / 1000 * ratio * 1024 / 64)))


def plain_pods(wanted: list[Deployment]) -> list[Pod]:
    """Return the pods of deployments without any constraints."""
    return [pod for each in wanted for pod in _pods(each, PodSpec())]


def constrained_pods(wanted: list[Deployment], *, seed: int, zones: tuple[str, str]) -> list[Pod]:
    """
    Return the pods of deployments of which most have constraints.

    Half are spread over zones, some keep to one zone, a tenth go on nodes of their own, a tenth
    are capped per node, a quarter ask for a capacity type, an architecture, a generation or zones.
    """
    rng = random.Random(seed)  # noqa: S311  as above
    return [pod for each in wanted for pod in _pods(each, _constraints(rng, each, zones))]


def _constraints(rng: random.Random, each: Deployment, zones: tuple[str, str]) -> PodSpec:
    mine = LabelSelector(match_labels={"app": each.name})
    spreads, near, apart = [], [], []
    draw = rng.random()
    if draw < 0.5:
        spreads.append(_even(ZONE, 1, mine))
    elif draw < 0.55:
        near.append(PodAffinityTerm(topology_key=ZONE, label_selector=mine))
    draw = rng.random()
    if draw < 0.1 and each.replicas < _MOST_APART:
        apart.append(PodAffinityTerm(topology_key=HOSTNAME, label_selector=mine))
    elif draw < 0.2 and each.replicas < _MOST_CAPPED:
        spreads.append(_even(HOSTNAME, 2, mine))
    required = [NodeSelectorTerm(match_expressions=(wish,)) for wish in _node_wish(rng.random(), zones)]
    return PodSpec(
        topology_spread_constraints=tuple(spreads),
        affinity=Affinity(
            node_affinity=NodeAffinity(
                required_during_scheduling_ignored_during_execution=NodeSelector(
                    node_selector_terms=tuple(required)
                )
            )
            if required
            else None,
            pod_affinity=PodAffinity(required_during_scheduling_ignored_during_execution=tuple(near)),
            pod_anti_affinity=PodAffinity(required_during_scheduling_ignored_during_execution=tuple(apart)),
        ),
    )


def _even(key: str, skew: int, mine: LabelSelector) -> TopologySpreadConstraint:
    return TopologySpreadConstraint(
        max_skew=skew, topology_key=key, when_unsatisfiable="DoNotSchedule", label_selector=mine
    )


def _node_wish(draw: float, zones: tuple[str, str]) -> Iterator[NodeSelectorRequirement]:
    if draw < 0.08:
        yield NodeSelectorRequirement(key=CAPACITY_TYPE, operator="In", values=(ON_DEMAND,))
    elif draw < 0.15:
        yield NodeSelectorRequirement(key=ARCH, operator="In", values=("amd64",))
    elif draw < 0.20:
        yield NodeSelectorRequirement(key=GENERATION, operator="Gt", values=("5",))
    elif draw < 0.25:
        yield NodeSelectorRequirement(key=ZONE, operator="In", values=zones)


def _pods(each: Deployment, spec: PodSpec) -> Iterator[Pod]:
    """Yield the pods of a deployment; each has a spec of its own, as pods from an API server have."""
    requests = {"cpu": f"{each.cpu}m", "memory": f"{each.memory}Mi"}
    for number in range(each.replicas):
        name = f"{each.name}-{number:05d}"
        yield Pod(
            metadata=ObjectMeta(name=name, namespace="default", uid=f"uid-{name}", labels={"app": each.name}),
            spec=PodSpec(
                affinity=spec.affinity,
                topology_spread_constraints=spec.topology_spread_constraints,
                containers=(Container(name="main", resources=ResourceRequirements(requests=dict(requests))),),
            ),
        )
