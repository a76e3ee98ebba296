"""
Forty small instances for which the best known price is worth working out, and what they are in plain figures.

Each instance is given twice: as the problem that the solver gets, and as kinds of pods, machines and nodes in
plain figures, from which :mod:`benchmarks.best_known` works out a price by itself. Nothing here reads what
the solver makes of a problem.
"""

from __future__ import annotations

import math
import random
from typing import Any, Final, Literal, NamedTuple, get_args

import msgspec

from benchmarks.workloads.ec2 import CATEGORY, CORES, GENERATION, HYPERVISOR, ZONES
from karpenter.api.labels import ARCH, CAPACITY_TYPE, HOSTNAME, NODEPOOL, ON_DEMAND, SPOT, ZONE
from karpenter.api.pod import Container, Pod, ResourceRequirements
from karpenter.cloud.catalogs.load import load_catalog
from karpenter.core.model.requirement import requirement
from karpenter.core.model.requirements import Requirements
from karpenter.core.scheduling.problem import Options, Pool, Problem
from karpenter_local.testing.builders import affinity_term, node, pod, problem, replicas, spread

Form = Literal[
    "tail", "sidecar", "accelerated", "pinned", "evenly", "alone", "arch", "limited", "running", "all"
]
FORMS: Final[tuple[Form, ...]] = get_args(Form)
SIZES: Final = ((20, 35), (36, 50), (51, 75), (76, 100))
"""The fewest and the most pods of the four instances of a form."""

GPU: Final = "nvidia.com/gpu"
AXIS: Final = ("cpu", "memory", "pods", GPU)
_MI: Final = 2**20
_REPLICAS: Final = ((1, 1, 2, 3, 4, 6, 9, 15), (1, 1, 1, 2, 3))
"""Of every other instance most Deployments have one pod."""

_SMALLEST: Final = (16, 30, 60)
"""Hundredths of a core of the smallest pods, per instance."""


class PodKind(NamedTuple):
    """Equal pods of one Deployment in plain figures; `want` is by `AXIS`."""

    name: str
    pods: int
    want: tuple[int, ...]
    labels: dict[str, str]
    """The labels of nodes that the pods ask for."""

    skew: int = 0
    """How far the zones may differ; 0 means that the pods are not spread."""

    alone: bool = False
    """Whether no two of them share a node."""


class Machine(NamedTuple):
    """One offering of the NodePool, or with `once` a node that runs already and costs nothing more."""

    name: str
    labels: dict[str, str]
    room: tuple[int, ...]
    price: float
    cores: int = 0
    """Capacity in thousandths of a core, which the limit of the NodePool counts."""

    once: bool = False


class Instance(NamedTuple):
    """One instance: what the solver gets, and the same in plain figures."""

    name: str
    pods: int
    given: Problem
    kinds: tuple[PodKind, ...]
    machines: tuple[Machine, ...]
    limit: float
    """Thousandths of a core that the NodePool may launch."""


def instances(seed: int = 0) -> list[Instance]:
    """Return forty instances, others for each seed; of each form two may use spot capacity."""
    return [
        instance(
            form, number, fewest=fewest, most=most, spot=(number + FORMS.index(form)) % 2 == 1, seed=seed
        )
        for form in FORMS
        for number, (fewest, most) in enumerate(SIZES)
    ]


def instance(form: Form, number: int, *, fewest: int, most: int, spot: bool, seed: int = 0) -> Instance:
    drawn = f"quality {form} {number}" + (f" {seed}" if seed else "")
    rng = random.Random(drawn)  # noqa: S311  the same on every machine, no secret
    total, smallest = rng.randint(fewest, most), rng.choice(_SMALLEST)
    kinds: list[PodKind] = []
    while total > sum(each.pods for each in kinds):
        count = min(total - sum(each.pods for each in kinds), rng.choice(_REPLICAS[number % 2]))
        kinds.append(_kind(rng, form, f"app-{len(kinds)}", count, smallest))
    nodes = _nodes(rng) if form == "running" or (form == "all" and number % 2) else []
    cores = rng.choice((1.15, 1.3, 1.6)) * sum(each.pods * each.want[0] for each in kinds)
    limit = float(math.ceil(cores / 1000)) * 1000 if form == "limited" else math.inf
    pool = _pool(form, spot=spot, limit=limit)
    given = problem(
        *(_replicas(form, each) for each in kinds),
        pools=[pool],
        nodes=[
            node(
                each.name,
                zone=each.labels[ZONE],
                pool_name="default",
                free={"cpu": f"{each.room[0]}m", "memory": str(each.room[1]), "pods": str(each.room[2])},
            )
            for each in nodes
        ],
        options=Options(),
    )
    name = f"{form}-{number}, {'spot' if spot else 'on-demand'}"
    return Instance(
        name,
        total,
        msgspec.structs.replace(given, rules=load_catalog("aws").label_rules),
        tuple(kinds),
        (*_machines(pool), *nodes),
        limit,
    )


def _kind(rng: random.Random, form: Form, name: str, count: int, smallest: int) -> PodKind:
    """Return a Deployment whose cpu is heavy-tailed and whose memory follows it loosely."""
    cores = min(14_000, 10 * max(2, round(rng.paretovariate(1.15) * smallest)))
    memory = 32 * max(1, round(min(56_000, cores * rng.lognormvariate(math.log(3), 0.9)) / 32))
    gpus, labels, skew, alone, draw = 0, {}, 0, False, rng.random()
    if form == "sidecar":
        cores, memory = cores + 110, memory + 160
    if form == "accelerated" and draw < 0.45:
        gpus = rng.choice((1, 1, 1, 2, 2, 4, 8))
        cores, memory = max(cores, 700 * gpus), max(memory, 4096 * gpus)
    if form == "arch" and draw < 0.7:
        labels[ARCH] = rng.choice(("arm64", "amd64"))
    if (form == "pinned" and draw < 0.6) or (form == "all" and draw < 0.15):
        labels[ZONE] = rng.choice(ZONES)
    elif (form == "evenly" and draw < 0.5) or (form == "all" and draw < 0.35):
        skew = rng.choice((1, 1, 1, 2))
    elif (form == "alone" and draw < 0.5) or (form == "all" and draw < 0.55):
        alone = True
    elif form == "all" and draw < 0.65:
        labels[CAPACITY_TYPE] = ON_DEMAND
    return PodKind(name, count, (cores, memory * _MI, 1, gpus), labels, skew, alone)


def _replicas(form: Form, kind: PodKind) -> tuple[Pod, ...]:
    cores, memory, _, gpus = kind.want
    rules: dict[str, Any] = {"on": kind.labels}
    if kind.skew:
        rules["spreads"] = [spread(ZONE, app=kind.name, skew=kind.skew)]
    if kind.alone:
        rules["apart"] = [affinity_term(HOSTNAME, app=kind.name)]
    if gpus:
        rules["resources"] = {GPU: str(gpus)}
    beside: list[Container] = []
    if form == "sidecar":  # a proxy and an agent beside the main container
        for name, cpu, size in (("proxy", 100, 128), ("agent", 10, 32)):
            requests = {"cpu": f"{cpu}m", "memory": f"{size}Mi"}
            beside.append(Container(name=name, resources=ResourceRequirements(requests=dict(requests))))
            cores, memory = cores - cpu, memory - size * _MI
    example = pod(kind.name, cpu=f"{cores}m", memory=str(memory), app=kind.name, **rules)
    containers = (*example.spec.containers, *beside)
    spec = msgspec.structs.replace(example.spec, containers=containers)
    return replicas(msgspec.structs.replace(example, spec=spec), kind.pods)


def _nodes(rng: random.Random) -> list[Machine]:
    return [
        Machine(
            f"node-{number}",
            {ZONE: rng.choice(ZONES), ARCH: "amd64", CAPACITY_TYPE: ON_DEMAND},
            (rng.randrange(200, 5000, 10), rng.randrange(256, 20_000, 32) * _MI, 30, 0),
            0.0,
            once=True,
        )
        for number in range(rng.randint(1, 5))
    ]


def _pool(form: Form, *, spot: bool, limit: float) -> Pool:
    gpus = form == "accelerated"
    asked = (
        requirement(ZONE, "In", ZONES),
        requirement(ARCH, "In", ["amd64", "arm64"] if form == "arch" else ["amd64"]),
        requirement(CATEGORY, "In", ["c", "m", "r", "g", "p"] if gpus else ["c", "m", "r"]),
        requirement(GENERATION, "Gt", ["3"]),
        requirement(HYPERVISOR, "In", ["nitro"]),
        requirement(CORES, "Lt", ["193" if gpus else "65"]),
        requirement(CAPACITY_TYPE, "In", [SPOT, ON_DEMAND] if spot else [ON_DEMAND]),
    )
    return Pool(
        name="default",
        requirements=Requirements.from_labels({NODEPOOL: "default"}).intersect(Requirements.of(asked)),
        labels={NODEPOOL: "default"},
        types=load_catalog("aws").types,
        limits={"cpu": int(limit)} if math.isfinite(limit) else {},
    )


def _machines(pool: Pool) -> list[Machine]:
    """Return every offering that the requirements of the NodePool leave, label by label."""
    asked = {each: pool.requirements[each] for each in (CATEGORY, GENERATION, HYPERVISOR, CORES, ARCH)}
    found = []
    for each in pool.types:
        has = {key: next(iter(each.requirements[key].values), "") for key in asked}
        if not all(asked[key].allows(value) for key, value in has.items()):
            continue
        room = tuple(each.allocatable.get(name, 0) for name in AXIS)
        for sold in each.available:
            labels = {key: next(iter(sold.requirements[key].values)) for key in (ZONE, CAPACITY_TYPE)}
            if all(pool.requirements[key].allows(value) for key, value in labels.items()):
                labels[ARCH] = has[ARCH]
                found.append(Machine(each.name, labels, room, sold.price, each.capacity["cpu"]))
    return found
