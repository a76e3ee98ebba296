"""
Clusters of which one list is as long as a user can make it: what a decision costs per pod.

Every row is one list that users write, in a decision about some pods that each have a long one of their own,
beside a plain pod. It is measured with the pods and the list at a half and at the whole of their size. Where
the cost is linear, twice the pods cost the same per pod, and a list twice as long costs at most twice.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from benchmarks.table import Table, count, ratio, seconds
from karpenter.api.cluster import PodDisruptionBudget
from karpenter.api.labels import ZONE
from karpenter.api.meta import Resource, convert
from karpenter.api.nodepool import NodePool
from karpenter.api.pod import Pod
from karpenter.api.storage import PersistentVolume, PersistentVolumeClaim
from karpenter.cloud.catalogs.load import load_catalog
from karpenter.core.provisioning.provisioner import ProvisioningMemory, ProvisioningSettings, provision
from karpenter.core.state.cluster import view_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from karpenter.core.provisioning.provisioner import ProvisioningDecision

Spec: TypeAlias = dict[str, Any]

NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
_ROUNDS: Final = 3
_ENOUGH: Final = 2.0
"""Seconds of processor time, after which no further round is begun."""

_HEADERS: Final = ("list", "pods", "length", "decision", "per pod", "half the pods", "half the length")
_ZONES: Final = ("test-zone-a", "test-zone-b")
_REF: Final = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
_NOTES: Final = (
    "decision is processor time of one decision of the provisioner, the best of three",
    "half the pods: time per pod beside that with half of the pods; 1 where it is linear in pods",
    "half the length: time beside that with lists of half the length; up to 2 where it is linear in length",
)


class HostileCluster(NamedTuple):
    """A list that is long in every pod, or in the cluster."""

    name: str
    pods: int
    length: int
    spec: Callable[[int, int], Spec] = lambda _pod, _length: {}
    """The spec of a pod, by its number and the length of the list."""

    labels: Callable[[int, int], dict[str, str]] = lambda _pod, _length: {}
    others: Callable[[int, int], Iterator[Resource]] = lambda _pods, _length: iter(())
    """What is in the cluster beside pods and a NodePool, by the number of pods and the length of the list."""

    def objects(self, pods: int, length: int) -> list[Resource]:
        """Return the cluster with so many pods and lists of this length."""
        held = [_pod(str(each), self.spec(each, length), self.labels(each, length)) for each in range(pods)]
        return [*held, _pod("plain", {}, {}), _pool("default"), *self.others(pods, length)]


def clusters() -> tuple[HostileCluster, ...]:
    """Return a cluster for every list that a user writes."""
    return (
        HostileCluster("nothing", 100, 1),
        HostileCluster("preferred node affinity", 100, 500, _node_affinity),
        HostileCluster("preferred pod affinity", 100, 500, partial(_near, "podAffinity")),
        HostileCluster("preferred pod anti-affinity", 100, 500, partial(_near, "podAntiAffinity")),
        HostileCluster("ScheduleAnyway spreads", 100, 500, partial(_spreads, "ScheduleAnyway")),
        HostileCluster("required node terms, unknown labels", 100, 500, partial(_terms, "team")),
        HostileCluster("required node terms, unknown zones", 100, 500, partial(_terms, ZONE)),
        HostileCluster("required pod affinity", 100, 400, partial(_near, "podAffinity", required=True)),
        HostileCluster(
            "required pod anti-affinity", 100, 400, partial(_near, "podAntiAffinity", required=True)
        ),
        HostileCluster("DoNotSchedule spreads", 100, 400, partial(_spreads, "DoNotSchedule")),
        HostileCluster("values of a requirement", 100, 4_000, _values),
        HostileCluster("values of a label selector", 100, 4_000, _selector),
        HostileCluster("nodeSelector", 100, 500, _node_selector),
        HostileCluster(
            "labels of a pod", 100, 500, lambda pod, _: _spreads("DoNotSchedule", pod, 1), _labels
        ),
        HostileCluster("tolerations", 100, 2_000, _tolerations),
        HostileCluster("host ports", 100, 500, _ports),
        HostileCluster("containers", 100, 200, _containers),
        HostileCluster("volumes", 100, 200, _volumes, others=_claims),
        HostileCluster("PodDisruptionBudgets", 100, 5_000, others=_budgets),
        HostileCluster("NodePools", 100, 5_000, others=_pools),
        HostileCluster("NodePools with taints, distinct pods", 20, 2_000, _team, others=_tainted_pools),
    )


def _node_affinity(pod: int, length: int) -> Spec:
    terms = [
        {"weight": 1 + i % 100, "preference": _expression(f"team-{pod}-{i}", "x")} for i in range(length)
    ]
    return {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}}


def _terms(key: str, pod: int, length: int) -> Spec:
    terms = [_expression(key if key == ZONE else f"{key}-{pod}-{i}", f"{pod}-{i}") for i in range(length)]
    required = {"nodeSelectorTerms": terms}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def _near(kind: str, pod: int, length: int, *, required: bool = False) -> Spec:
    terms = [{"topologyKey": ZONE, "labelSelector": _app(f"{pod}-{i}")} for i in range(length)]
    if required:
        return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}
    weighted = [{"weight": 1 + i % 100, "podAffinityTerm": each} for i, each in enumerate(terms)]
    return {"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": weighted}}}


def _spreads(unsatisfiable: str, pod: int, length: int) -> Spec:
    return {
        "topologySpreadConstraints": [
            {
                "maxSkew": 1 + i,
                "topologyKey": ZONE,
                "whenUnsatisfiable": unsatisfiable,
                "labelSelector": _app(f"{pod}-{i}"),
            }
            for i in range(length)
        ]
    }


def _app(value: str) -> dict[str, Any]:
    return {"matchLabels": {"app": value}}


def _values(pod: int, length: int) -> Spec:
    term = _expression(ZONE, *_ZONES, *(f"{pod}-{i}" for i in range(length)))
    required = {"nodeSelectorTerms": [term]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def _selector(pod: int, length: int) -> Spec:
    spread = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": _expression("app", *(f"{pod}-{i}" for i in range(length))),
    }
    return {"topologySpreadConstraints": [spread]}


def _node_selector(pod: int, length: int) -> Spec:
    return {"nodeSelector": {f"team-{pod}-{i}": "x" for i in range(length)}}


def _team(pod: int, _length: int) -> Spec:
    return {"nodeSelector": {"team": f"{pod}"}}


def _labels(pod: int, length: int) -> dict[str, str]:
    return {f"label-{pod}-{i}": "x" for i in range(length)}


def _tolerations(pod: int, length: int) -> Spec:
    return {"tolerations": [{"key": f"taint-{pod}-{i}", "operator": "Exists"} for i in range(length)]}


def _ports(pod: int, length: int) -> Spec:
    ports = [{"containerPort": 1, "hostPort": 1 + pod * length + i} for i in range(length)]
    return {"containers": [{**_container("c"), "ports": ports}]}


def _containers(_pod: int, length: int) -> Spec:
    return {"containers": [_container(f"c{i}") for i in range(length)]}


def _volumes(pod: int, length: int) -> Spec:
    names = [f"v-{pod}-{i}" for i in range(length)]
    return {"volumes": [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in names]}


def _claims(pods: int, length: int) -> Iterator[Resource]:
    place = {"required": {"nodeSelectorTerms": [_expression(ZONE, *_ZONES)]}}
    volume = {"csi": {"driver": "ebs.csi.aws.com"}, "nodeAffinity": place}
    for name in (f"v-{pod}-{i}" for pod in range(pods) for i in range(length)):
        claim = {"spec": {"volumeName": name}, "status": {"phase": "Bound"}}
        yield convert({"metadata": {"name": name}, "spec": volume}, PersistentVolume)
        yield convert({"metadata": {"name": name, "namespace": "x"}, **claim}, PersistentVolumeClaim)


def _budgets(pods: int, length: int) -> Iterator[Resource]:
    for number in range(length):
        spec = {"maxUnavailable": 1, "selector": _app(f"{number % pods}")}
        yield convert(
            {"metadata": {"name": f"b{number}", "namespace": "x"}, "spec": spec}, PodDisruptionBudget
        )


def _pools(_pods: int, length: int) -> Iterator[Resource]:
    return (_pool(f"pool-{i}") for i in range(length))


def _tainted_pools(_pods: int, length: int) -> Iterator[Resource]:
    return (
        _pool(f"pool-{i}", [{"key": "team", "value": f"{i}", "effect": "NoSchedule"}]) for i in range(length)
    )


def _expression(key: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}


def _container(name: str) -> dict[str, Any]:
    return {"name": name, "image": "i", "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}}}


def _pod(name: str, spec: Spec, labels: dict[str, str]) -> Pod:
    unscheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return convert(
        {
            "metadata": {"name": name, "namespace": "x", "uid": name, "labels": {"app": name, **labels}},
            "spec": {"containers": [_container("c")], **spec},
            "status": {"phase": "Pending", "conditions": [unscheduled]},
        },
        Pod,
    )


def _pool(name: str, taints: Sequence[dict[str, str]] = ()) -> NodePool:
    template = {"nodeClassRef": _REF, "requirements": [], "taints": list(taints)}
    return convert(
        {
            "metadata": {"name": name, "uid": name, "generation": 1},
            "spec": {"template": {"spec": template}},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        },
        NodePool,
    )


def _decide(cluster: HostileCluster, pods: int, length: int) -> tuple[float, ProvisioningDecision]:
    """Return the processor time of a decision, the best of some, and the decision."""
    catalog = load_catalog("kwok")
    found: list[float] = []
    held = cluster.objects(pods, length)
    for _ in range(_ROUNDS):
        view = view_of(held)
        gc.collect()
        begun = time.process_time()
        decision = provision(view, catalog, ProvisioningMemory(), now=NOW, settings=ProvisioningSettings())
        found.append(time.process_time() - begun)
        if sum(found) > _ENOUGH:
            break
    return min(found), decision


def _row(cluster: HostileCluster) -> tuple[str, ...]:
    pods, length = cluster.pods, cluster.length
    _decide(cluster, 2, 1)  # the first decision also reads the catalogue
    fewer, _ = _decide(cluster, pods // 2, length)
    shorter, _ = _decide(cluster, pods, max(length // 2, 1))
    whole, decision = _decide(cluster, pods, length)
    if "x/plain" in decision.refused:
        raise RuntimeError(f"{cluster.name}: the plain pod has no place")
    return (
        cluster.name,
        count(pods),
        count(length),
        seconds(whole),
        seconds(whole / pods),
        ratio(whole / pods, fewer / (pods // 2)),
        ratio(whole, shorter),
    )


def suite(only: str = "") -> Table:
    """Return what a decision costs for every list, or for those with a word in their name."""
    rows = tuple(_row(each) for each in clusters() if only in each.name)
    return Table("lists as long as users make them", _HEADERS, rows, _NOTES)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.bench_hostile", description="Print what decisions about very long lists cost."
    )
    parser.add_argument("--only", metavar="WORD", default="", help="rows with this word in their name")
    print(suite(parser.parse_args(arguments).only))
    return 0


if __name__ == "__main__":
    sys.exit(main())
