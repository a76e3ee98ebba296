"""Performs the actions of users through the API, as they would."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from karpenter.api.capacitybuffer import CapacityBuffer
from karpenter.api.cluster import PodDisruptionBudget
from karpenter.api.node import Node
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodeoverlay import NodeOverlay
from karpenter.api.nodepool import NodePool
from karpenter.api.pod import PodTemplate
from karpenter.api.workloads import DaemonSet, Deployment, Job, StatefulSet
from karpenter.kube.errors import NotFound
from karpenter.kube.rest import MergePatch
from karpenter_local.simulation.actions import (
    AddBuffer,
    AddDaemon,
    AddOverlay,
    AddPool,
    AddStateful,
    ChangeTemplate,
    DeleteNode,
    Deploy,
    Remove,
    ResizeBuffer,
    ResizePool,
    Rollout,
    RunJob,
    Scale,
)
from karpenter_local.simulation.cluster import VOLUMES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from karpenter.kube.rest import Plain
    from karpenter_local.simulation.actions import Action
    from karpenter_local.simulation.cluster import SimulatedCluster

NAMESPACE: Final = "default"


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
                await client.delete(NodeClaim if claim else Node, names[int(pick * len(names))])


async def _patch(simulated: SimulatedCluster, kind: type[Deployment], name: str, change: Plain) -> None:
    await simulated.sandbox.client.patch(kind, name, MergePatch(change), namespace=NAMESPACE)


def pool_body(action: AddPool, node_class: Mapping[str, str]) -> Plain:
    """Return a NodePool."""
    wanted = {
        "kubernetes.io/os": ["linux"],
        "kubernetes.io/arch": ["amd64"],
        "karpenter.sh/capacity-type": [*action.capacity_types],
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
            "budgets": [{"nodes": each} for each in action.budgets],
        },
    }
    if action.cpu_limit:
        # Only pods that ask for it come here, so that what is pending can be told from what is impossible.
        template["taints"] = [{"key": "pool", "value": action.name, "effect": "NoSchedule"}]
        spec["limits"] = {"cpu": str(action.cpu_limit)}
    if action.node_limit:
        spec["limits"] = {"nodes": str(action.node_limit)}
    if action.replicas is not None:
        spec["replicas"] = action.replicas
    return {"metadata": {"name": action.name}, "spec": spec}


def deployment_body(action: Deploy) -> Plain:
    """Return a Deployment."""
    labels = {"app": action.name}
    spec = _pod(action.milli, action.mebi, grace=action.grace)
    if action.zone:
        spec["nodeSelector"] = {"topology.kubernetes.io/zone": action.zone}
    if action.pool:
        spec["nodeSelector"] = {"pool": action.pool}
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
    if action.keep:
        metadata["annotations"] = {"karpenter.sh/do-not-disrupt": "true"}
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
