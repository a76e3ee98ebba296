"""
The cluster of ``karpenter console --demo``: a sandbox in real time whose workloads grow and shrink.

There are two NodePools, on demand and spot, and workloads of different shapes. Every few seconds one of them
is scaled; machines come, fill, drain and go, and now and then a spot machine is taken back. Chance decides
what happens, the same way every time.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple

from karpenter.api.cluster import Namespace
from karpenter.api.labels import CAPACITY_TYPE, SPOT, ZONE
from karpenter.api.workloads import DaemonSet
from karpenter.cloud.kwok import Behaviour
from karpenter.kube.errors import KubeError
from karpenter_local.demo.scenes import requirements
from karpenter_local.sandbox.options import KwokOptions
from karpenter_local.sandbox.sandbox import Sandbox

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from karpenter.core.model.catalog import Catalog
    from karpenter.kube.client import Client

SEED: Final = 1
_CHANGE_SECONDS: Final = 6.0
_CHANGES_PER_INTERRUPTION: Final = 8
_LAUNCH_SECONDS: Final = 3.0


class DemoWorkload(NamedTuple):
    """A Deployment of the demo."""

    namespace: str
    team: str
    name: str
    cpu: str
    memory: str
    least: int
    most: int
    spot: bool = False
    """Whether its pods run on spot machines."""


WORKLOADS: Final = (
    DemoWorkload("shop", "storefront", "web", "500m", "512Mi", 24, 60),
    DemoWorkload("shop", "payments", "api", "1", "1Gi", 12, 30),
    DemoWorkload("shop", "storefront", "cache", "500m", "3Gi", 6, 12),
    DemoWorkload("search", "discovery", "index", "2", "4Gi", 4, 9),
    DemoWorkload("data", "insights", "batch", "1500m", "1Gi", 3, 24, spot=True),
    DemoWorkload("data", "insights", "report", "750m", "2Gi", 3, 18, spot=True),
)
_AGENT: Final = {"requests": {"cpu": "100m", "memory": "128Mi"}}


@asynccontextmanager
async def demo_cluster() -> AsyncIterator[tuple[Client, Catalog]]:
    """Start the cluster and its workloads; yield a client of it, and what its cloud sells."""
    cloud = KwokOptions(behaviour=Behaviour(launch=_LAUNCH_SECONDS))
    async with Sandbox(name="demo", seed=SEED, clock="real", cloud=cloud) as sandbox:
        await _create(sandbox)
        task = asyncio.get_running_loop().create_task(_change(sandbox))
        try:
            yield sandbox.client, sandbox.kwok.catalog
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def _create(sandbox: Sandbox) -> None:
    """Create the NodePools, and the workloads at their least."""
    for name, way in (("general", "on-demand"), ("spot", SPOT)):
        await sandbox.create_node_pool(
            name,
            disruption={"consolidateAfter": "10s", "budgets": [{"nodes": "30%"}]},
            limits={"cpu": "200"},
            template={"spec": {"requirements": requirements(way)}},
        )
    for name in sorted({each.namespace for each in WORKLOADS}):
        await sandbox.client.create(Namespace, {"metadata": {"name": name}})
    # Create a DaemonSet, which every machine has a pod of.
    labels = {"app": "agent", "team": "platform"}
    containers = [{"name": "app", "image": "pause", "resources": _AGENT}]
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
    spec = {"selector": {"matchLabels": {"app": "agent"}}, "template": template}
    await sandbox.client.create(
        DaemonSet, {"metadata": {"name": "agent"}, "spec": spec}, namespace="kube-system"
    )
    for each in WORKLOADS:
        resources = {"requests": {"cpu": each.cpu, "memory": each.memory}}
        spread = {
            "maxSkew": 2,
            "topologyKey": ZONE,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": each.name}},
        }
        await sandbox.deploy(
            each.name,
            replicas=each.least,
            namespace=each.namespace,
            metadata={"labels": {"app": each.name, "team": each.team}},
            nodeSelector={CAPACITY_TYPE: SPOT if each.spot else "on-demand"},
            terminationGracePeriodSeconds=2,
            topologySpreadConstraints=[spread],
            containers=[{"name": "app", "image": "pause", "resources": resources}],
        )


async def _change(sandbox: Sandbox) -> None:
    """Scale workloads, and take spot machines back, for as long as the demo runs."""
    chance = Random(SEED)  # noqa: S311  the chance of a demo, not secrets
    number = 0
    while True:
        await asyncio.sleep(_CHANGE_SECONDS)
        number += 1
        with suppress(KubeError):
            if number % _CHANGES_PER_INTERRUPTION == 0:
                spot = [each for each in sandbox.kwok.machines() if each.labels.get(CAPACITY_TYPE) == SPOT]
                if spot:
                    sandbox.kwok.control.interrupt(chance.choice(spot).provider_id)
            else:
                each = chance.choice(WORKLOADS)
                count = chance.randint(each.least, each.most)
                await sandbox.scale(each.name, count, namespace=each.namespace)
