"""
Performs the actions of users through the API, as they would, and what their agents do.

An agent of theirs removes startup taints some time after a node is ready, as a CNI does.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from karpenter.api.capacitybuffer import CapacityBuffer
from karpenter.api.cluster import PodDisruptionBudget
from karpenter.api.labels import DISRUPTED, DO_NOT_DISRUPT
from karpenter.api.node import Node
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodeoverlay import NodeOverlay
from karpenter.api.nodepool import NodePool
from karpenter.api.pod import Pod, PodTemplate
from karpenter.api.workloads import DaemonSet, Deployment, Job, StatefulSet
from karpenter.kube.errors import Conflict, NotFound
from karpenter.kube.patches import MergePatch
from karpenter_local.simulation.actions import (
    Action,
    AddBuffer,
    AddDaemon,
    AddOverlay,
    AddPool,
    AddStateful,
    ChangeTemplate,
    DeleteNode,
    Deploy,
    Protect,
    Remove,
    ResizeBuffer,
    ResizePool,
    Rollout,
    RunJob,
    Scale,
)
from karpenter_local.simulation.cluster import VOLUMES, SimulatedCluster
from karpenter_local.simulation.invariants.draining import CRITICAL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from karpenter.api.meta import Resource
    from karpenter.kube.targets import Plain
    from karpenter_local.simulation.mirror import ObjectWrite

NAMESPACE: Final = "default"
_PROTECT_AFTER_SECONDS: Final = 0.2
STARTUP: Final = "example.com/starting"
"""The startup taint of nodes; its value says for how many seconds it stays."""


async def apply(simulated: SimulatedCluster, action: Action) -> None:
    """Do what a user does; what is about something that is not there does nothing."""
    try:
        await _apply(simulated, action)
    except NotFound:
        return


async def _apply(simulated: SimulatedCluster, action: Action) -> None:  # noqa: C901, PLR0912  one case for every action
    client = simulated.sandbox.client
    match action:
        case AddPool():
            await client.create(NodePool, pool_body(action, simulated.cloud.node_class))
        case Deploy():
            await client.create(Deployment, deployment_body(action), namespace=NAMESPACE)
            if action.min_available is not None:
                await client.create(PodDisruptionBudget, _budget_body(action), namespace=NAMESPACE)
        case Scale(name=name, replicas=replicas):
            await _patch(simulated, Deployment, name, {"spec": {"replicas": replicas}})
        case Rollout(name=name):
            version = {"metadata": {"annotations": {"version": f"{action.at:.0f}"}}}
            await _patch(simulated, Deployment, name, {"spec": {"template": version}})
        case Remove(name=name):
            await client.delete(Deployment, name, namespace=NAMESPACE, propagation="Background")
        case RunJob():
            await client.create(Job, _job_body(action), namespace=NAMESPACE)
        case AddDaemon():
            await client.create(DaemonSet, _daemon_body(action), namespace=NAMESPACE)
        case AddStateful():
            await client.create(StatefulSet, _stateful_body(action), namespace=NAMESPACE)
        case ChangeTemplate(pool=pool, version=version):
            labels = {"spec": {"template": {"metadata": {"labels": {"version": str(version)}}}}}
            await client.patch(NodePool, pool, MergePatch(labels))
        case ResizePool(pool=pool, replicas=replicas):
            await client.patch(NodePool, pool, MergePatch({"spec": {"replicas": replicas}}))
        case AddBuffer():
            await client.create(PodTemplate, _template_body(action), namespace=NAMESPACE)
            await client.create(CapacityBuffer, _buffer_body(action), namespace=NAMESPACE)
        case ResizeBuffer(name=name, replicas=replicas):
            change = MergePatch({"spec": {"replicas": replicas}})
            await client.patch(CapacityBuffer, name, change, namespace=NAMESPACE)
        case AddOverlay():
            await client.create(NodeOverlay, _overlay_body(action))
        case DeleteNode(pick=pick, claim=claim):
            names = sorted(simulated.mirror.claims if claim else simulated.mirror.nodes)
            if names:
                name = names[int(pick * len(names))]
                # A node that is deleted before it is registered does not come back.
                unregistered = not claim and not simulated.mirror.nodes[name].metadata.finalizers
                simulated.launches_failed |= unregistered
                await client.delete(NodeClaim if claim else Node, name)
        case Protect():
            await _protect(simulated, action)


async def _protect(simulated: SimulatedCluster, action: Protect) -> None:
    """Annotate a node, or its first pod, and remove the annotation after a while."""
    names = sorted(simulated.mirror.nodes)
    if action.late:
        simulated.on_disrupted = lambda name: _annotate(simulated, action, name)
    elif names:
        await _annotate(simulated, action, names[int(action.pick * len(names))])


async def _annotate(simulated: SimulatedCluster, action: Protect, name: str) -> None:
    pods = sorted(
        pod.name
        for pod in simulated.mirror.pods_on(name)
        if pod.namespace == NAMESPACE
        and all(each.kind != "DaemonSet" for each in pod.metadata.owner_references)
    )
    kind: type[Pod | Node] = Pod if action.pod and pods else Node
    chosen, where = (pods[0], NAMESPACE) if kind is Pod else (name, "")

    async def annotate(value: str | None) -> None:
        note = MergePatch({"metadata": {"annotations": {DO_NOT_DISRUPT: value}}})
        with suppress(NotFound):
            await simulated.sandbox.client.patch(kind, chosen, note, namespace=where)

    await annotate("true")
    simulated.later(action.seconds, lambda: annotate(None))


class UserAgents:
    """
    Programs that users run to react to changes of nodes.

    One removes the startup taint of a node when its time is over; the taint's value is that time. Another
    protects a node right after its disruption has begun, if that was asked for.
    """

    def __init__(self, simulated: SimulatedCluster) -> None:
        self._simulated = simulated
        self._begun: set[str] = set()

    def on_write(self, write: ObjectWrite) -> None:
        """Look for nodes that are ready and have the taint, and for those that are disrupted."""
        before, node = write.before, write.after
        if not isinstance(node, Node):
            return
        protect = self._simulated.on_disrupted
        if protect is not None and write.by and _is_disrupted(node) and not _is_disrupted(before):
            self._simulated.on_disrupted = None
            self._simulated.later(_PROTECT_AFTER_SECONDS, lambda: protect(node.name))
        taint = next((each for each in node.spec.taints if each.key == STARTUP), None)
        ready = any(each.type == "Ready" and each.status == "True" for each in node.status.conditions)
        if taint is not None and ready and node.name not in self._begun:
            self._begun.add(node.name)
            self._simulated.later(float(taint.value), lambda: self._remove(node.name))

    async def _remove(self, name: str) -> None:
        node = self._simulated.mirror.nodes.get(name)
        if node is None:
            return
        left = [
            {"key": each.key, "value": each.value, "effect": each.effect}
            for each in node.spec.taints
            if each.key != STARTUP
        ]
        version = node.metadata.resource_version
        try:
            await self._simulated.sandbox.client.patch(
                Node, name, MergePatch({"spec": {"taints": left}}, version=version)
            )
        except Conflict:
            self._simulated.later(1.0, lambda: self._remove(name))
        except NotFound:
            return


def _is_disrupted(node: Resource | None) -> bool:
    if not isinstance(node, Node) or node.metadata.deletion_timestamp is not None:
        return False
    return any(taint.key == DISRUPTED for taint in node.spec.taints)


async def _patch(simulated: SimulatedCluster, kind: type[Deployment], name: str, change: Plain) -> None:
    await simulated.sandbox.client.patch(kind, name, MergePatch(change), namespace=NAMESPACE)


def pool_body(action: AddPool, node_class: Mapping[str, str]) -> Plain:
    wanted = {
        "kubernetes.io/os": ["linux"],
        "kubernetes.io/arch": ["amd64"],
        "karpenter.sh/capacity-type": [*action.capacity_types],
        **({"topology.kubernetes.io/zone": [action.zone]} if action.zone else {}),
    }
    template: Plain = {
        "nodeClassRef": dict(node_class),
        "requirements": [{"key": key, "operator": "In", "values": values} for key, values in wanted.items()],
        "expireAfter": action.expire_after,
    }
    if action.grace:
        template["terminationGracePeriod"] = action.grace
    labels = {"pool": action.name}
    spec: Plain = {
        "template": {"metadata": {"labels": labels}, "spec": template},
        "disruption": {
            "consolidateAfter": action.consolidate_after,
            "consolidationPolicy": action.policy,
            "budgets": [_budget(each) for each in action.budgets],
        },
    }
    if action.startup:
        taint = {"key": STARTUP, "value": str(action.startup), "effect": "NoSchedule"}
        template["startupTaints"] = [taint]
    if action.cpu_limit:
        # Only pods that ask for it come here, so that what is pending can be told from what is impossible.
        template["taints"] = [{"key": "pool", "value": action.name, "effect": "NoSchedule"}]
        spec["limits"] = {"cpu": str(action.cpu_limit)}
    if action.node_limit:
        spec["limits"] = {"nodes": str(action.node_limit)}
    if action.replicas is not None:
        spec["replicas"] = action.replicas
    if action.weight:
        spec["weight"] = action.weight
    return {"metadata": {"name": action.name}, "spec": spec}


def _budget(text: str) -> Plain:
    """Return the disruption budget of a NodePool that a text such as 0/Drifted or 0@4:2m stands for."""
    nodes, _, reason = text.partition("/")
    nodes, _, window = nodes.partition("@")
    found: Plain = {"nodes": nodes}
    if reason:
        found["reasons"] = [reason]
    if window:
        minutes, _, duration = window.partition(":")
        found |= {"schedule": f"*/{minutes} * * * *", "duration": duration}
    return found


def deployment_body(action: Deploy) -> Plain:
    labels = {"app": action.name}
    spec = _pod(action.milli, action.mebi, grace=action.grace)
    if action.zone:
        spec["nodeSelector"] = {"topology.kubernetes.io/zone": action.zone}
    if action.pool:
        spec["nodeSelector"] = {**spec.get("nodeSelector", {}), "pool": action.pool}
        spec["tolerations"] = [{"key": "pool", "operator": "Exists"}]
    if action.spread:
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": action.spread,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": labels},
            }
        ]
    if action.apart:
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": labels}}
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    metadata: Plain = {"labels": labels}
    if action.keep or action.keep_for:
        metadata["annotations"] = {DO_NOT_DISRUPT: action.keep_for or "true"}
    if action.critical:
        spec["priorityClassName"] = CRITICAL
    template = {"metadata": metadata, "spec": spec}
    return {
        "metadata": {"name": action.name},
        "spec": {"replicas": action.replicas, "selector": {"matchLabels": labels}, "template": template},
    }


def _template_body(action: AddBuffer) -> Plain:
    return {"metadata": {"name": action.name}, "template": {"spec": _pod(action.milli, 64, grace=0)}}


def _buffer_body(action: AddBuffer) -> Plain:
    spec = {"podTemplateRef": {"name": action.name}, "replicas": action.replicas}
    return {"metadata": {"name": action.name}, "spec": spec}


def _overlay_body(action: AddOverlay) -> Plain:
    everything = [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}]
    spec = {"requirements": everything, "priceAdjustment": f"{action.percent:+d}%", "weight": action.weight}
    return {"metadata": {"name": action.name}, "spec": spec}


def _budget_body(action: Deploy) -> Plain:
    spec = {"minAvailable": action.min_available, "selector": {"matchLabels": {"app": action.name}}}
    return {"metadata": {"name": action.name}, "spec": spec}


def _job_body(action: RunJob) -> Plain:
    spec = _pod(action.milli, 64, grace=0)
    spec["restartPolicy"] = "Never"
    notes = {"local.karpenter.sh/run-seconds": str(action.seconds)}
    template = {"metadata": {"annotations": notes, "labels": {"app": action.name}}, "spec": spec}
    many = {"completions": action.completions, "parallelism": action.completions, "backoffLimit": 100}
    return {"metadata": {"name": action.name}, "spec": {"template": template, **many}}


def _daemon_body(action: AddDaemon) -> Plain:
    labels = {"app": action.name}
    spec = _pod(action.milli, 32, grace=0)
    spec["tolerations"] = [{"operator": "Exists"}]
    template = {"metadata": {"labels": labels}, "spec": spec}
    return {
        "metadata": {"name": action.name},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }


def _stateful_body(action: AddStateful) -> Plain:
    labels = {"app": action.name}
    spec = _pod(action.milli, 256, grace=1)
    spec["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    volume = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": VOLUMES,
            "resources": {"requests": {"storage": "10Gi"}},
        },
    }
    return {
        "metadata": {"name": action.name},
        "spec": {
            "serviceName": action.name,
            "replicas": action.replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
            "volumeClaimTemplates": [volume],
        },
    }


def _pod(milli: int, mebi: int, *, grace: int) -> dict[str, Any]:
    requests = {"cpu": f"{milli}m", "memory": f"{mebi}Mi"}
    return {
        "terminationGracePeriodSeconds": grace,
        "containers": [{"name": "app", "image": "pause", "resources": {"requests": requests}}],
    }
