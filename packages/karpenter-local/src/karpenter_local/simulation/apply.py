"""Granting wishes: what users do, done through the API as they would."""

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
from karpenter_local.simulation.world import VOLUMES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from karpenter.kube.rest import Plain
    from karpenter_local.simulation.actions import Wish
    from karpenter_local.simulation.world import World

NAMESPACE: Final = "default"


async def grant(world: World, wish: Wish) -> None:
    """Do what a user does; what is about something that is not there does nothing."""
    try:
        await _grant(world, wish)
    except NotFound:
        return


async def _grant(world: World, wish: Wish) -> None:  # noqa: C901, PLR0912  one case for every wish
    client = world.client
    match wish:
        case AddPool():
            await client.create(NodePool, pool_body(wish, world.sky.node_class))
        case Deploy():
            await client.create(Deployment, deployment_body(wish), namespace=NAMESPACE)
            if wish.min_available is not None:
                await client.create(PodDisruptionBudget, _budget_body(wish), namespace=NAMESPACE)
        case Scale(name=name, replicas=replicas):
            await _patch(world, Deployment, name, {"spec": {"replicas": replicas}})
        case Rollout(name=name):
            version = {"metadata": {"annotations": {"version": f"{wish.at:.0f}"}}}
            await _patch(world, Deployment, name, {"spec": {"template": version}})
        case Remove(name=name):
            await client.delete(Deployment, name, namespace=NAMESPACE, propagation="Background")
        case RunJob():
            await client.create(Job, _job_body(wish), namespace=NAMESPACE)
        case AddDaemon():
            await client.create(DaemonSet, _daemon_body(wish), namespace=NAMESPACE)
        case AddStateful():
            await client.create(StatefulSet, _stateful_body(wish), namespace=NAMESPACE)
        case ChangeTemplate(pool=pool, version=version):
            labels = {"spec": {"template": {"metadata": {"labels": {"version": str(version)}}}}}
            await client.patch(NodePool, pool, MergePatch(labels))
        case ResizePool(pool=pool, replicas=replicas):
            await client.patch(NodePool, pool, MergePatch({"spec": {"replicas": replicas}}))
        case AddBuffer():
            await client.create(PodTemplate, _template_body(wish), namespace=NAMESPACE)
            await client.create(CapacityBuffer, _buffer_body(wish), namespace=NAMESPACE)
        case ResizeBuffer(name=name, replicas=replicas):
            change = MergePatch({"spec": {"replicas": replicas}})
            await client.patch(CapacityBuffer, name, change, namespace=NAMESPACE)
        case AddOverlay():
            await client.create(NodeOverlay, _overlay_body(wish))
        case DeleteNode(pick=pick, claim=claim):
            names = sorted(world.mirror.claims if claim else world.mirror.nodes)
            if names:
                await client.delete(NodeClaim if claim else Node, names[int(pick * len(names))])


async def _patch(world: World, kind: type[Deployment], name: str, change: Plain) -> None:
    await world.client.patch(kind, name, MergePatch(change), namespace=NAMESPACE)


def pool_body(wish: AddPool, node_class: Mapping[str, str]) -> Plain:
    """Return a NodePool."""
    wanted = {
        "kubernetes.io/os": ["linux"],
        "kubernetes.io/arch": ["amd64"],
        "karpenter.sh/capacity-type": [*wish.capacity_types],
    }
    template: Plain = {
        "nodeClassRef": dict(node_class),
        "requirements": [{"key": key, "operator": "In", "values": values} for key, values in wanted.items()],
        "expireAfter": wish.expire_after,
    }
    if wish.grace:
        template["terminationGracePeriod"] = wish.grace
    labels = {"pool": wish.name}
    spec: Plain = {
        "template": {"metadata": {"labels": labels}, "spec": template},
        "disruption": {
            "consolidateAfter": wish.consolidate_after,
            "consolidationPolicy": wish.policy,
            "budgets": [{"nodes": each} for each in wish.budgets],
        },
    }
    if wish.cpu_limit:
        # Only pods that ask for it come here, so that what is pending can be told from what is impossible.
        template["taints"] = [{"key": "pool", "value": wish.name, "effect": "NoSchedule"}]
        spec["limits"] = {"cpu": str(wish.cpu_limit)}
    if wish.node_limit:
        spec["limits"] = {"nodes": str(wish.node_limit)}
    if wish.replicas is not None:
        spec["replicas"] = wish.replicas
    return {"metadata": {"name": wish.name}, "spec": spec}


def deployment_body(wish: Deploy) -> Plain:
    """Return a Deployment."""
    labels = {"app": wish.name}
    spec = _pod(wish.milli, wish.mebi, grace=wish.grace)
    if wish.zone:
        spec["nodeSelector"] = {"topology.kubernetes.io/zone": wish.zone}
    if wish.pool:
        spec["nodeSelector"] = {"pool": wish.pool}
        spec["tolerations"] = [{"key": "pool", "operator": "Exists"}]
    if wish.spread:
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": wish.spread,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": labels},
            }
        ]
    if wish.apart:
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": labels}}
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    metadata: Plain = {"labels": labels}
    if wish.keep:
        metadata["annotations"] = {"karpenter.sh/do-not-disrupt": "true"}
    template = {"metadata": metadata, "spec": spec}
    return {
        "metadata": {"name": wish.name},
        "spec": {"replicas": wish.replicas, "selector": {"matchLabels": labels}, "template": template},
    }


def _template_body(wish: AddBuffer) -> Plain:
    return {"metadata": {"name": wish.name}, "template": {"spec": _pod(wish.milli, 64, grace=0)}}


def _buffer_body(wish: AddBuffer) -> Plain:
    spec = {"podTemplateRef": {"name": wish.name}, "replicas": wish.replicas}
    return {"metadata": {"name": wish.name}, "spec": spec}


def _overlay_body(wish: AddOverlay) -> Plain:
    everything = [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}]
    spec = {"requirements": everything, "priceAdjustment": f"{wish.percent:+d}%", "weight": wish.weight}
    return {"metadata": {"name": wish.name}, "spec": spec}


def _budget_body(wish: Deploy) -> Plain:
    spec = {"minAvailable": wish.min_available, "selector": {"matchLabels": {"app": wish.name}}}
    return {"metadata": {"name": wish.name}, "spec": spec}


def _job_body(wish: RunJob) -> Plain:
    spec = _pod(wish.milli, 64, grace=0)
    spec["restartPolicy"] = "Never"
    notes = {"local.karpenter.sh/run-seconds": str(wish.seconds)}
    template = {"metadata": {"annotations": notes, "labels": {"app": wish.name}}, "spec": spec}
    many = {"completions": wish.completions, "parallelism": wish.completions, "backoffLimit": 100}
    return {"metadata": {"name": wish.name}, "spec": {"template": template, **many}}


def _daemon_body(wish: AddDaemon) -> Plain:
    labels = {"app": wish.name}
    spec = _pod(wish.milli, 32, grace=0)
    spec["tolerations"] = [{"operator": "Exists"}]
    template = {"metadata": {"labels": labels}, "spec": spec}
    return {
        "metadata": {"name": wish.name},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }


def _stateful_body(wish: AddStateful) -> Plain:
    labels = {"app": wish.name}
    spec = _pod(wish.milli, 256, grace=1)
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
        "metadata": {"name": wish.name},
        "spec": {
            "serviceName": wish.name,
            "replicas": wish.replicas,
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
