"""Small clusters for the scheduler's tests: nodes and pods in as few words as possible."""

from typing import Any

from karpenter.api.meta import convert
from karpenter.api.node import Node
from karpenter.api.pod import Pod
from karpenter_local.scheduler import reasons
from karpenter_local.scheduler.filters import FitError, feasible
from karpenter_local.scheduler.nodeinfo import NodeInfo, node_info
from karpenter_local.scheduler.nodetable import AssignedPod, NodeTable
from karpenter_local.scheduler.place import Placed, place
from karpenter_local.scheduler.podinfo import PodInfo, PodInfos
from karpenter_local.scheduler.schedule_one import claims_of
from karpenter_local.testing.builders import manifest_pod

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"


def node(name: str, *, zone: str = "a", labels: dict[str, str] | None = None, **more: Any) -> NodeInfo:
    """Return a node with 4 cpu, 8Gi and room for ten pods, unless told otherwise."""
    room = {"cpu": "4", "memory": "8Gi", "pods": "10", **more.pop("room", {})}
    body = {
        "metadata": {"name": name, "labels": {HOSTNAME: name, ZONE: zone, **(labels or {})}},
        "spec": more,
        "status": {"allocatable": room},
    }
    return node_info(convert(body, Node))


def pod(
    name: str = "pod", *, cpu: str = "", app: str = "", labels: dict[str, str] | None = None, **spec: Any
) -> Pod:
    """Return a pod of one container in the namespace ``default``."""
    container: dict[str, Any] = {"name": "main", **spec.pop("container", {})}
    requests = {"cpu": cpu} if cpu else {}
    requests |= spec.pop("requests", {})
    if requests:
        container["resources"] = {"requests": requests}
    namespace = spec.pop("namespace", "default")
    meta = {
        "uid": f"uid-{namespace}-{name}",
        "labels": {**({"app": app} if app else {}), **(labels or {})},
        "annotations": spec.pop("annotations", {}),
    }
    return manifest_pod(name, namespace=namespace, meta=meta, **{"containers": [container], **spec})


def affinity(kind: str, *terms: dict[str, Any], preferred: bool = False) -> dict[str, Any]:
    """Return a pod's affinity of one kind: ``podAffinity``, ``podAntiAffinity`` or ``nodeAffinity``."""
    if kind == "nodeAffinity" and not preferred:
        body: Any = {"nodeSelectorTerms": list(terms)}
    else:
        body = list(terms)
    way = "preferred" if preferred else "required"
    return {kind: {f"{way}DuringSchedulingIgnoredDuringExecution": body}}


def near(app: str, key: str = ZONE, **more: Any) -> dict[str, Any]:
    """Return a pod affinity term about the pods of an app."""
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}, **more}


def spread(app: str, key: str = ZONE, *, skew: int = 1, hard: bool = True, **more: Any) -> dict[str, Any]:
    """Return a topology spread constraint over the pods of an app."""
    return {
        "maxSkew": skew,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule" if hard else "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": app}},
        **more,
    }


class World:
    """A table with nodes and pods, and a word for asking where a pod would go."""

    def __init__(self, *nodes: NodeInfo) -> None:
        self.table = NodeTable()
        self.pod_infos = PodInfos()
        self.table.set_namespace("default", {"team": "blue"})
        for each in nodes:
            self.table.set_node(each)

    def put(self, on: str, *pods: Pod, living: bool = True, preempted: bool = False) -> "World":
        for each in pods:
            self.table.put(self.assigned(each, on, living=living, preempted=preempted))
        return self

    def assigned(self, each: Pod, on: str, *, living: bool = True, preempted: bool = False) -> AssignedPod:
        """Return a pod as something that takes room on a node."""
        return AssignedPod(
            key=each.key,
            uid=each.metadata.uid,
            node=on,
            pod_info=self.pod_info(each),
            claims=tuple(f"{each.namespace}/{use.name}" for use in claims_of(each)),
            living=living,
            preempted=preempted,
            started=each.status.start_time,
        )

    def pod_info(self, each: Pod) -> PodInfo:
        return self.pod_infos.of(each)

    def place(self, each: Pod, *, seed: int = 1) -> Placed | FitError:
        pod_volumes = self.table.storage.pod_volumes(each.namespace, claims_of(each))
        return place(self.table, each.key, self.pod_info(each), seed=seed, pod_volumes=pod_volumes)

    def where(self, each: Pod, *, seed: int = 1) -> str:
        """Return the node a pod would get, or the reasons why it gets none, counted and joined."""
        found = self.place(each, seed=seed)
        if isinstance(found, Placed):
            return found.node
        message = reasons.unavailable(
            self.table.rows.nodes, found.words.elements(), everywhere=found.everywhere
        )
        return message.partition(": ")[2].rstrip(".")

    def feasible(self, each: Pod) -> set[str]:
        """Return every node a pod could go to, good or bad."""
        pod_volumes = self.table.storage.pod_volumes(each.namespace, claims_of(each))
        rows = feasible(self.table, self.pod_info(each), pod_volumes)
        return {self.table.rows.names[row] for row in rows.nonzero()[0]}

    def choices(self, each: Pod) -> set[str]:
        """Return every node a pod might get, over many seeds: the best ones."""
        return {self.where(each, seed=seed) for seed in range(40)}
