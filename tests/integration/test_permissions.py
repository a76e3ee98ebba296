"""What the chart grants the operator is what the operator does: nothing is missing, and nothing is spare."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from karpenter.api.capacitybuffer import CapacityBuffer
from karpenter.api.cluster import PodDisruptionBudget
from karpenter.api.node import Node
from karpenter.api.nodeoverlay import NodeOverlay
from karpenter.api.nodepool import NodePool
from karpenter.api.pod import PodTemplate
from karpenter.chart.chart import manifests
from karpenter.chart.tree import Release
from karpenter.chart.values import values_of
from karpenter_local.sandbox.options import KwokOptions
from karpenter_local.sandbox.sandbox import Sandbox
from karpenter_local.virtual import run_virtual
from tests.integration.calls import Grant, Recording, granted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

NAMESPACE = "kube-system"
SPREAD = (
    "{podTopologySpread: {defaultConstraints: [{maxSkew: 5,"
    " topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: ScheduleAnyway}]}}"
)
BASIC: dict[str, Any] = {"clusterName": "test", "cloudProvider": "kwok"}
GATES = ("nodeOverlay", "capacityBuffer", "staticCapacity", "nodeRepair", "spotToSpotConsolidation")
EVERYTHING = {
    **BASIC,
    "schedulerConfig": SPREAD,
    "ignoreDRARequests": False,
    "steerScaleDown": True,
    "featureGates": dict.fromkeys(GATES, True),
}


class Installed:
    """What the chart installs, with some settings."""

    def __init__(self, settings: dict[str, Any]) -> None:
        values = values_of([{"settings": settings}], [])
        self.objects = manifests(Release(values=values), definitions=False)

    def rules(self, kind: str) -> list[dict[str, Any]]:
        """Return the rules of the operator's role of a kind."""
        return next(
            each["rules"]
            for each in self.objects
            if (each["kind"], each["metadata"]["name"]) == (kind, "karpenter")
        )

    def environment(self) -> dict[str, str]:
        [deployment] = [each for each in self.objects if each["kind"] == "Deployment"]
        [container] = deployment["spec"]["template"]["spec"]["containers"]
        return {each["name"]: each["value"] for each in container["env"] if "value" in each}


@asynccontextmanager
async def running(chart: Installed) -> AsyncIterator[tuple[Sandbox, Recording]]:
    """Run the process that the chart starts, with the chart's environment, and record its calls."""
    sandbox = Sandbox(name="test", cloud=KwokOptions(in_operator=True), operators=0)
    async with sandbox:
        recording = Recording(sandbox.running.transport())
        serving = sandbox.serve_operator(
            chart.environment(),
            options={"metrics-port": "0", "health-probe-port": "0"},
            namespace=NAMESPACE,
            transport=recording,
        )
        async with serving:
            yield sandbox, recording


async def everything_happens(sandbox: Sandbox) -> None:
    """Let machines come and go in every way that writes something else."""
    await sandbox.create_node_pool(
        template={"spec": {"terminationGracePeriod": "2m"}}, disruption={"consolidateAfter": "1h"}
    )
    guard = {"selector": {"matchLabels": {"app": "held"}}, "maxUnavailable": 0}
    await sandbox.client.create(
        PodDisruptionBudget, {"metadata": {"name": "held"}, "spec": guard}, namespace="default"
    )
    await sandbox.deploy("free", replicas=2)
    await sandbox.deploy("held", replicas=1)
    # Never fits, so that the same is said of it again and again.
    await sandbox.deploy("huge", replicas=1, cpu="9000")

    async def others_run() -> bool:
        return await sandbox.running_pods() == 3

    await sandbox.until(others_run)
    before = {node.name for node in await sandbox.nodes()}
    for name in before:
        await sandbox.client.delete(Node, name)

    async def moved() -> bool:
        names = {node.name for node in await sandbox.nodes()}
        return not names & before and await others_run()

    await sandbox.until(moved, within=600)
    await asyncio.sleep(330)  # by then the same is said again
    await sandbox.client.delete(NodePool, "default")

    async def gone() -> bool:
        return not await sandbox.node_claims() and not await sandbox.nodes()

    await sandbox.until(gone, within=900)


async def gates_are_used(sandbox: Sandbox) -> None:
    """Let overlays, buffers and static pools do something."""
    wanted = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m-256x-amd64-linux"]}
    overlay = {"metadata": {"name": "cheap"}, "spec": {"requirements": [wanted], "price": "0.1", "weight": 5}}
    await sandbox.client.create(NodeOverlay, overlay)
    pod = {"containers": [{"name": "a", "image": "a", "resources": {"requests": {"cpu": "1"}}}]}
    await sandbox.client.create(
        PodTemplate, {"metadata": {"name": "web"}, "template": {"spec": pod}}, namespace="default"
    )
    await sandbox.client.create(
        CapacityBuffer,
        {"metadata": {"name": "spare"}, "spec": {"podTemplateRef": {"name": "web"}, "replicas": 1}},
        namespace="default",
    )
    await sandbox.client.create(
        NodePool,
        {
            "metadata": {"name": "static"},
            "spec": {
                "replicas": 1,
                "template": {
                    "spec": {
                        "nodeClassRef": dict(sandbox.cloud.node_class),
                        "requirements": [
                            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}
                        ],
                    }
                },
            },
        },
    )
    await asyncio.sleep(60)
    await sandbox.client.delete(NodePool, "static")


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(BASIC, id="with every gate as it is by default"),
        pytest.param(EVERYTHING, id="with every gate open"),
    ],
)
def test_least_privilege(settings: dict[str, Any]) -> None:
    """Every call is granted, and every grant is needed by a call."""

    async def scenario() -> None:
        chart = Installed(settings)
        async with running(chart) as (sandbox, recording):
            if settings is EVERYTHING:
                await gates_are_used(sandbox)
            await everything_happens(sandbox)
        own = granted(chart.rules("Role"))
        named = {(grant.verb, grant.group, grant.resource) for grant in own if grant.name}
        used_here, used_anywhere = set(), set()
        for (verb, group, resource, name), namespace in recording.calls:
            if group == "coordination.k8s.io":
                assert namespace == NAMESPACE
                known = (verb, group, resource) in named
                used_here.add(Grant(verb, group, resource, name if known else ""))
            else:
                used_anywhere.add(Grant(verb, group, resource))

        assert {"missing": used_here - own, "spare": own - used_here} == {"missing": set(), "spare": set()}
        cluster = granted(chart.rules("ClusterRole"))
        assert {"missing": used_anywhere - cluster, "spare": cluster - used_anywhere} == {
            "missing": set(),
            "spare": set(),
        }

    run_virtual(scenario())
