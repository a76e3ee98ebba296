"""What the chart grants the operator is what the operator does: nothing is missing, and nothing is spare."""

from __future__ import annotations

import asyncio
from random import Random
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
from karpenter.operator.options import parse_settings
from karpenter.operator.run import OperatorProcess, OperatorTarget
from karpenter_local.apiserver.inprocess import InProcess
from karpenter_local.virtual import run_virtual
from tests.integration.calls import Grant, Recording, granted
from tests.integration.world import REF, World
from tests.unit.operator.leading import leading

if TYPE_CHECKING:
    from karpenter.kube.client import Client
    from karpenter.operator.operator import Operator

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


class Installed(World):
    """A world whose operator is the process that the chart starts, with the chart's environment."""

    def __init__(self, settings: dict[str, Any]) -> None:
        values = values_of([{"settings": settings}], [])
        self.objects = manifests(Release(values=values), definitions=False)
        super().__init__()
        self.settings = parse_settings({"metrics-port": "0", "health-probe-port": "0"}, self._environment())
        self.recording = Recording(InProcess(self.cluster.server))
        self._task: asyncio.Task[None] | None = None

    def rules(self, kind: str) -> list[dict[str, Any]]:
        """Return the rules of the operator's role of a kind."""
        return next(
            each["rules"]
            for each in self.objects
            if (each["kind"], each["metadata"]["name"]) == (kind, "karpenter")
        )

    async def start(self, client: Client | None = None) -> Operator:
        """Start the process and wait until it leads."""
        del client
        process = OperatorProcess(
            self.recording,
            which=OperatorTarget(provider="kwok", cluster="test"),
            settings=self.settings,
            namespace=NAMESPACE,
            clock=self.clock,
            chance=Random(1),  # noqa: S311  a test's dice
            environ=self._environment(),
            threads=False,
            host="127.0.0.1",
        )
        self._task = await leading(process)
        assert process.operator is not None
        return process.operator

    async def stop(self) -> None:
        """Tell the process to stop, and wait until it has."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def _environment(self) -> dict[str, str]:
        [deployment] = [each for each in self.objects if each["kind"] == "Deployment"]
        [container] = deployment["spec"]["template"]["spec"]["containers"]
        return {each["name"]: each["value"] for each in container["env"] if "value" in each}


async def everything_happens(world: Installed) -> None:
    """Let machines come and go in every way that writes something else."""
    await world.pool(
        template={"spec": {"terminationGracePeriod": "2m"}}, disruption={"consolidateAfter": "1h"}
    )
    guard = {"selector": {"matchLabels": {"app": "held"}}, "maxUnavailable": 0}
    await world.client.create(
        PodDisruptionBudget, {"metadata": {"name": "held"}, "spec": guard}, namespace="default"
    )
    await world.deploy("free", replicas=2)
    await world.deploy("held", replicas=1)
    # Never fits, so that the same is said of it again and again.
    await world.deploy("huge", replicas=1, cpu="9000")

    async def others_run() -> bool:
        return await world.running() == 3

    await world.until(others_run)
    before = {node.name for node in await world.nodes()}
    for name in before:
        await world.client.delete(Node, name)

    async def moved() -> bool:
        names = {node.name for node in await world.nodes()}
        return not names & before and await others_run()

    await world.until(moved, within=600)
    await asyncio.sleep(330)  # by then the same is said again
    await world.client.delete(NodePool, "default")
    await world.until(world.empty, within=900)


async def gates_are_used(world: Installed) -> None:
    """Let overlays, buffers and static pools do something."""
    wanted = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m-256x-amd64-linux"]}
    overlay = {"metadata": {"name": "cheap"}, "spec": {"requirements": [wanted], "price": "0.1", "weight": 5}}
    await world.client.create(NodeOverlay, overlay)
    pod = {"containers": [{"name": "a", "image": "a", "resources": {"requests": {"cpu": "1"}}}]}
    await world.client.create(
        PodTemplate, {"metadata": {"name": "web"}, "template": {"spec": pod}}, namespace="default"
    )
    await world.client.create(
        CapacityBuffer,
        {"metadata": {"name": "spare"}, "spec": {"podTemplateRef": {"name": "web"}, "replicas": 1}},
        namespace="default",
    )
    await world.client.create(
        NodePool,
        {
            "metadata": {"name": "static"},
            "spec": {
                "replicas": 1,
                "template": {
                    "spec": {
                        "nodeClassRef": REF,
                        "requirements": [
                            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}
                        ],
                    }
                },
            },
        },
    )
    await asyncio.sleep(60)
    await world.client.delete(NodePool, "static")


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
        async with Installed(settings) as world:
            if settings is EVERYTHING:
                await gates_are_used(world)
            await everything_happens(world)
        own = granted(world.rules("Role"))
        named = {(grant.verb, grant.group, grant.resource) for grant in own if grant.name}
        used_here, used_anywhere = set(), set()
        for (verb, group, resource, name), namespace in world.recording.calls:
            if group == "coordination.k8s.io":
                assert namespace == NAMESPACE
                known = (verb, group, resource) in named
                used_here.add(Grant(verb, group, resource, name if known else ""))
            else:
                used_anywhere.add(Grant(verb, group, resource))

        assert {"missing": used_here - own, "spare": own - used_here} == {"missing": set(), "spare": set()}
        cluster = granted(world.rules("ClusterRole"))
        assert {"missing": used_anywhere - cluster, "spare": cluster - used_anywhere} == {
            "missing": set(),
            "spare": set(),
        }

    run_virtual(scenario())
