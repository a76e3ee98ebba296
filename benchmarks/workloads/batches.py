"""
Batches of pods as a cluster sees them arrive, on the EC2 catalogue: a few deployments of one shape.

Sizes are heavy-tailed, and each shape adds what makes packing hard: sidecars, GPUs, zones, spread, pods that
keep apart, two architectures, limits, or nodes that run already.
"""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import msgspec

from benchmarks.workloads.ec2 import CATEGORY, CORES, GENERATION, HYPERVISOR, ZONES
from karpenter.api.labels import ARCH, CAPACITY_TYPE, HOSTNAME, NODEPOOL, ON_DEMAND, SPOT, ZONE
from karpenter.cloud.catalogs.load import load_catalog
from karpenter.core.model.requirement import requirement
from karpenter.core.model.requirements import Requirements
from karpenter.core.scheduling.problem import Options, Pool, Problem
from karpenter_local.testing.builders import affinity_term, node, pod, problem, replicas, spread

if TYPE_CHECKING:
    from karpenter.api.pod import Pod

Shape = Literal["tailed", "sidecars", "gpu", "zones", "spread", "apart", "arches", "limits", "nodes", "mixed"]
SHAPES: Final[tuple[Shape, ...]] = get_args(Shape)
_REPLICAS: Final = (1, 1, 2, 3, 5, 8, 12)
_MOST_CORES: Final = 48


def batch(shape: Shape, seed: int, *, fewest: int = 3, most: int = 50, spot: bool = False) -> Problem:
    """Return a batch of pods of one shape, with the nodes and limits that belong to it."""
    rng = random.Random(f"{shape}-{seed}-{spot}")  # noqa: S311  the same workload on every machine, no secret
    wanted, total = 0, rng.randint(fewest, most)
    pods: list[tuple[Pod, ...]] = []
    while wanted < total:
        count = min(total - wanted, rng.choice(_REPLICAS))
        pods.append(_deployment(rng, shape, f"app-{len(pods)}", count))
        wanted += count
    nodes = []
    if shape == "nodes":
        for number in range(rng.randint(1, 4)):
            free = {
                "cpu": f"{rng.randint(200, 4000)}m",
                "memory": f"{rng.randint(256, 16000)}Mi",
                "pods": "30",
            }
            nodes.append(node(f"node-{number}", zone=rng.choice(ZONES), pool_name="default", free=free))
    given = problem(*pods, pools=[_pool(rng, shape, spot=spot)], nodes=nodes, options=Options())
    return msgspec.structs.replace(given, rules=load_catalog("aws").label_rules)


def _deployment(rng: random.Random, shape: Shape, name: str, count: int) -> tuple[Pod, ...]:
    cpu = rng.lognormvariate(math.log(450), 1.1)
    step = 50 if cpu < 1000 else 250
    cores = int(min(15_000, max(50, round(cpu / step) * step)))
    memory = min(60_000, 64 * max(1, round(cores * rng.lognormvariate(math.log(3.5), 0.8) / 64)))
    rules: dict[str, Any] = {}
    draw = rng.random()
    if shape == "sidecars":
        cores, memory = cores + rng.choice((10, 100)), memory + rng.choice((40, 128))
    elif shape == "gpu" and draw < 0.4:
        rules["resources"] = {"nvidia.com/gpu": str(rng.choice((1, 1, 1, 2, 4)))}
    elif shape == "arches" and draw < 0.6:
        rules["on"] = {ARCH: rng.choice(("arm64", "amd64"))}
    if (shape == "zones" and draw < 0.5) or (shape == "mixed" and draw < 0.1):
        rules["on"] = {ZONE: rng.choice(ZONES)}
    elif (shape == "spread" and draw < 0.6) or (shape == "mixed" and draw < 0.35):
        rules["spreads"] = [spread(ZONE, app=name, skew=rng.choice((1, 1, 2)))]
    elif (shape == "apart" and draw < 0.5) or (shape == "mixed" and draw < 0.5):
        rules["apart"] = [affinity_term(HOSTNAME, app=name)]
    elif shape == "mixed" and draw < 0.6:
        rules["on"] = {CAPACITY_TYPE: ON_DEMAND}
    return replicas(pod(name, cpu=f"{cores}m", memory=f"{memory}Mi", app=name, **rules), count)


def _pool(rng: random.Random, shape: Shape, *, spot: bool) -> Pool:
    arches = ["amd64", "arm64"] if shape == "arches" else ["amd64"]
    kinds = ["c", "m", "r", "g"] if shape == "gpu" else ["c", "m", "r"]
    asked = (
        requirement(ZONE, "In", ZONES),
        requirement(ARCH, "In", arches),
        requirement(CATEGORY, "In", kinds),
        requirement(GENERATION, "Gt", ["2"]),
        requirement(HYPERVISOR, "In", ["nitro", "xen"]),
        requirement(CORES, "Lt", [str(_MOST_CORES + 1)]),
        requirement(CAPACITY_TYPE, "In", [SPOT, ON_DEMAND] if spot else [ON_DEMAND]),
    )
    return Pool(
        name="default",
        requirements=Requirements.from_labels({NODEPOOL: "default"}).intersect(Requirements.of(asked)),
        labels={NODEPOOL: "default"},
        types=load_catalog("aws").types,
        limits={"cpu": rng.choice((64, 100, 160)) * 1000} if shape == "limits" else {},
    )
