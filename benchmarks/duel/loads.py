"""
What users ask of the clusters of a duel: Deployments whose replicas change at every step.

Everything follows from the load, the number of pods, the number of steps and the seed, so that each contender
is asked for the same at the same moment, and the floor can be computed for it afterwards.
"""

from __future__ import annotations

import math
import random
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Object = dict[str, Any]

CLUSTER: Final = "blue"
"""What the cluster is called in AWS; roles and discovery tags carry this name."""

KWOK: Final = "kwok"
AWS: Final = "aws"
SPOT: Final = "spot"
"""The load in which AWS takes spot instances away."""


class Workload(NamedTuple):
    """A Deployment, and the most replicas that it ever has."""

    name: str
    most: int
    cpu: int
    """Millicores that each pod requests."""

    memory: int
    """MiB that each pod requests."""

    spread: bool
    """Whether its pods must be spread over zones."""

    phase: float
    """From 0 to 1: how far its curve is shifted against those of the others."""


class Want(NamedTuple):
    """What users ask of a Deployment from one step on."""

    replicas: int
    revision: int = 0
    """Of the pod template: another one replaces all pods."""


class Script(NamedTuple):
    """The Deployments of a duel, and what is asked of each of them at every step."""

    workloads: tuple[Workload, ...]
    steps: tuple[tuple[Want, ...], ...]

    def changes(self, step: int) -> list[Object]:
        """Return the Deployments that a step changes; at the first step all of them."""
        before = self.steps[step - 1] if step else (None,) * len(self.workloads)
        return [
            deployment(workload, want)
            for workload, want, was in zip(self.workloads, self.steps[step], before, strict=True)
            if want != was
        ]

    def state(self, step: int) -> list[Object]:
        """Return the Deployments that have pods from a step on."""
        wants = zip(self.workloads, self.steps[step], strict=True)
        return [deployment(workload, want) for workload, want in wants if want.replicas]

    def asked(self) -> int:
        """Return how many pods users ask for in all: replicas that are added, and those of new templates."""
        nothing = (Want(0),) * len(self.workloads)
        return sum(
            want.replicas if want.revision != was.revision else max(0, want.replicas - was.replicas)
            for earlier, later in pairwise((nothing, *self.steps))
            for was, want in zip(earlier, later, strict=True)
        )


class Moment(NamedTuple):
    """What the level of a Deployment depends on."""

    step: int
    steps: int
    phase: float
    chance: float
    """Drawn for this Deployment and step, from -1 to 1."""


def _wave(at: Moment) -> float:
    """Two periods over the whole run, and a little chance."""
    return 0.55 + 0.45 * math.sin(2 * math.pi * (2 * at.step / at.steps + 0.3 * at.phase)) + 0.12 * at.chance


def _burst(at: Moment) -> float:
    """Everything at once, and 70 % of it after a third of the time."""
    return 1.0 if at.step < 0.3 * at.steps else 0.7


def _batch(at: Moment) -> float:
    """Everything in one step of every five, a tenth of it otherwise."""
    return 1.0 if at.step % 5 == 0 else 0.1


def _office(at: Moment) -> float:
    """One day: everything in working hours, which begin and end a little apart, and 15 % otherwise."""
    hour = 24 * at.step / at.steps - at.phase
    return 1.0 if 7 <= hour < 18 else 0.15


def _rollout(_: Moment) -> float:
    """As many pods all the time."""
    return 1.0


LOADS: Final[Mapping[str, Callable[[Moment], float]]] = {
    "wave": _wave,
    "burst": _burst,
    "batch": _batch,
    "office": _office,
    "rollout": _rollout,
    SPOT: _wave,
}
"""By name: which share of its replicas a Deployment has."""


def script(load: str, *, pods: int, steps: int, seed: int) -> Script:
    """Return what users ask for; with the load `rollout` each step replaces a quarter of the Deployments."""
    draws = random.Random(seed)  # noqa: S311  chance that can be repeated
    workloads = _workloads(draws, pods)
    revisions = [0] * len(workloads)
    found = []
    for step in range(steps):
        if load == "rollout" and step:
            for position in range(step % 4, len(workloads), 4):
                revisions[position] += 1
        wants = []
        for workload, revision in zip(workloads, revisions, strict=True):
            level = LOADS[load](Moment(step, steps, workload.phase, draws.uniform(-1, 1)))
            wants.append(Want(round(max(0.0, min(1.0, level)) * workload.most), revision))
        found.append(tuple(wants))
    return Script(workloads, tuple(found))


def _workloads(draws: random.Random, pods: int) -> tuple[Workload, ...]:
    """Deployments of many sizes, `pods` replicas in all; none has more than a sixth of them."""
    found: list[Workload] = []
    left = pods
    while left:
        most = min(left, max(1, min(pods // 6, int(draws.lognormvariate(2.0, 0.9)))))
        cpu = max(50, min(3_900, 10 * round(draws.lognormvariate(math.log(40), 0.9))))
        memory = max(64, min(16_000, round(cpu * draws.lognormvariate(math.log(3), 0.6))))
        spread, phase = draws.random() < 0.3, draws.random()
        found.append(Workload(f"web-{len(found)}", most, cpu, memory, spread, phase))
        left -= most
    return tuple(found)


def deployment(workload: Workload, want: Want) -> Object:
    """Return the manifest of a Deployment."""
    labels = {"app": workload.name}
    requests = {"cpu": f"{workload.cpu}m", "memory": f"{workload.memory}Mi"}
    pod: Object = {
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "main", "image": "pause", "resources": {"requests": requests}}],
    }
    if workload.spread:
        pod["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": labels},
            }
        ]
    annotations = {"duel/revision": str(want.revision)}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": workload.name, "namespace": "default"},
        "spec": {
            "replicas": want.replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels, "annotations": annotations}, "spec": pod},
        },
    }


def cluster_objects(provider: str) -> list[Object]:
    """Return what is in every cluster before the first pod: a NodePool, its node class and a DaemonSet."""
    return [_node_class(provider), _node_pool(provider), _daemon_set()]


def listed(objects: Sequence[Object]) -> Object:
    """Return objects as one that kubectl and `plan` read."""
    return {"apiVersion": "v1", "kind": "List", "items": list(objects)}


def _node_class(provider: str) -> Object:
    if provider == KWOK:
        api = "karpenter.kwok.sh/v1alpha1"
        return {"apiVersion": api, "kind": "KWOKNodeClass", "metadata": {"name": "default"}}
    terms = [{"tags": {"karpenter.sh/discovery": CLUSTER}}]
    return {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "default"},
        "spec": {
            "role": f"KarpenterNodeRole-{CLUSTER}",
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": terms,
            "securityGroupSelectorTerms": terms,
        },
    }


def _node_pool(provider: str) -> Object:
    def among(key: str, *values: str, operator: str = "In") -> Object:
        return {"key": key, "operator": operator, "values": list(values)}

    requirements = [among("kubernetes.io/arch", "amd64"), among("kubernetes.io/os", "linux")]
    if provider == KWOK:
        group, kind = "karpenter.kwok.sh", "KWOKNodeClass"
        requirements += [among("karpenter.sh/capacity-type", "on-demand")]
    else:
        group, kind = "karpenter.k8s.aws", "EC2NodeClass"
        requirements += [
            among("karpenter.sh/capacity-type", "spot", "on-demand"),
            among("karpenter.k8s.aws/instance-category", "c", "m", "r"),
            among("karpenter.k8s.aws/instance-generation", "4", operator="Gt"),
        ]
    template = {
        "requirements": requirements,
        "nodeClassRef": {"group": group, "kind": kind, "name": "default"},
        "expireAfter": "Never",
    }
    disruption = {
        "consolidationPolicy": "WhenEmptyOrUnderutilized",
        "consolidateAfter": "10s",
        "budgets": [{"nodes": "20%"}],
    }
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "default"},
        "spec": {"template": {"spec": template}, "disruption": disruption},
    }


def _daemon_set() -> Object:
    labels = {"app": "agent"}
    requests = {"cpu": "200m", "memory": "200Mi"}
    pod = {
        "tolerations": [{"operator": "Exists"}],
        "containers": [{"name": "main", "image": "pause", "resources": {"requests": requests}}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": "kube-system"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
