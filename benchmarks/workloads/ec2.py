"""Problems on the EC2 catalogue that ships with the product, and pods that are hard for it."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

from karpenter.api.labels import ARCH, CAPACITY_TYPE, NODEPOOL, ON_DEMAND, SPOT, ZONE
from karpenter.api.meta import ObjectMeta
from karpenter.api.pod import (
    Affinity,
    Container,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodSpec,
    ResourceRequirements,
)
from karpenter.cloud.catalogs.load import load_catalog
from karpenter.core.model.requirement import Requirement, requirement
from karpenter.core.model.requirements import Requirements
from karpenter.core.scheduling.problem import Options, Pool, Problem

if TYPE_CHECKING:
    from collections.abc import Sequence


FAMILY: Final = "karpenter.k8s.aws/instance-family"
CATEGORY: Final = "karpenter.k8s.aws/instance-category"
GENERATION: Final = "karpenter.k8s.aws/instance-generation"
CORES: Final = "karpenter.k8s.aws/instance-cpu"
HYPERVISOR: Final = "karpenter.k8s.aws/instance-hypervisor"
ZONES: Final = ("us-east-1a", "us-east-1b", "us-east-1c")

EVERYTHING: Final = (requirement(ZONE, "In", ZONES),)
"""Every type, in three zones."""

AMD64_ONLY: Final = (*EVERYTHING, requirement(ARCH, "In", ["amd64"]))


def ordinary(*, spot: bool, most_cores: int) -> tuple[Requirement, ...]:
    """Return what most pools ask for: virtual machines of the c, m and r families up to a size."""
    ways = [SPOT, ON_DEMAND] if spot else [ON_DEMAND]
    return (
        *AMD64_ONLY,
        requirement(CATEGORY, "In", ["c", "m", "r"]),
        requirement(GENERATION, "Gt", ["2"]),
        requirement(HYPERVISOR, "In", ["nitro", "xen"]),
        requirement(CORES, "Lt", [str(most_cores + 1)]),
        requirement(CAPACITY_TYPE, "In", ways),
    )


def ec2_problem(pods: Sequence[Pod], asked: Sequence[Requirement], options: Options) -> Problem:
    """Return the problem of placing `pods` on new EC2 machines of one pool."""
    catalog = load_catalog("aws")
    own = Requirements.from_labels({NODEPOOL: "default"})
    pool = Pool(
        name="default",
        requirements=own.intersect(Requirements.of(asked)),
        labels={NODEPOOL: "default"},
        types=catalog.types,
    )
    return Problem(
        pods=tuple(pods),
        pools=(pool,),
        namespaces={"default": {}},
        rules=catalog.label_rules,
        options=options,
    )


def distinct_pods(count: int, *, seed: int = 1) -> list[Pod]:
    """Return pods of which hardly two ask for the same."""
    rng = random.Random(seed)  # noqa: S311  the same workload on every machine, no secret
    return [_pod(number, rng, PodSpec()) for number in range(count)]


def picky_pods(count: int, *, seed: int = 9) -> list[Pod]:
    """Return pods each of which allows other families, and some only two of the three zones."""
    rng = random.Random(seed)  # noqa: S311  as above
    known = {value for kind in load_catalog("aws").types for value in kind.requirements[FAMILY].values}
    families = sorted(known)
    found = []
    for number in range(count):
        chosen = rng.sample(families, rng.randrange(3, len(families) // 2))
        operator = "In" if rng.random() < 0.5 else "NotIn"
        preferred = [NodeSelectorRequirement(key=FAMILY, operator=operator, values=tuple(sorted(chosen)))]
        if rng.random() < 0.3:
            preferred.append(
                NodeSelectorRequirement(key=ZONE, operator="In", values=tuple(rng.sample(ZONES, 2)))
            )
        term = NodeSelectorTerm(match_expressions=tuple(preferred))
        required = NodeSelector(node_selector_terms=(term,))
        affinity = Affinity(
            node_affinity=NodeAffinity(required_during_scheduling_ignored_during_execution=required)
        )
        found.append(_pod(number, rng, PodSpec(affinity=affinity)))
    return found


def _pod(number: int, rng: random.Random, spec: PodSpec) -> Pod:
    requests = {"cpu": f"{rng.randrange(50, 4000)}m", "memory": f"{rng.randrange(64, 16384)}Mi"}
    name = f"pod-{number:06d}"
    return Pod(
        metadata=ObjectMeta(name=name, namespace="default", uid=f"uid-{name}"),
        spec=PodSpec(
            affinity=spec.affinity,
            containers=(Container(name="main", resources=ResourceRequirements(requests=dict(requests))),),
        ),
    )
