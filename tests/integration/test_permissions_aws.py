"""What the chart grants on AWS is what the operator does there."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.node import Node
from karpenter.api.nodepool import NodePool
from karpenter.base.ratelimiting import TokenBucket
from karpenter.chart.chart import manifests
from karpenter.chart.tree import Release
from karpenter.chart.values import values_of
from karpenter.kube.client import Client
from karpenter_local.apiserver.inprocess import InProcess
from karpenter_local.virtual import run_virtual
from tests.integration.aws_world import AwsWorld
from tests.integration.calls import Grant, Recording, granted
from tests.integration.test_aws import apply, scale

if TYPE_CHECKING:
    import pytest

    from karpenter_local.cluster import LocalCluster
    from tests.integration.calls import Call


def grants(cloud: str, role: str = "ClusterRole karpenter") -> set[Grant]:
    """Return what a role of the chart grants to an operator on a cloud; nothing, if there is no such role."""
    values = values_of([], [f"settings.clusterName=test,settings.cloudProvider={cloud}"])
    objects = manifests(Release(values=values), definitions=False)
    found = {f"{each['kind']} {each['metadata']['name']}": each.get("rules", []) for each in objects}
    return granted(found.get(role, []))


def record(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> Recording:
    """Remember the calls of the operator that will be started."""
    recording = Recording(InProcess(cluster.server))
    others = cluster.connect

    def connect(agent: str) -> Client:
        if agent != "karpenter":
            return others(agent)
        return Client(
            recording,
            chance=Random(1),  # noqa: S311  jitter
            bucket=TokenBucket(rate=1e9, burst=1e9),
        )

    monkeypatch.setattr(cluster, "connect", connect)
    return recording


def test_least_privilege_on_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every call is granted, and what is granted for AWS alone is needed there."""

    async def scenario() -> set[Call]:
        world = AwsWorld()
        recording = record(world.cluster, monkeypatch)
        async with world:
            await apply(world)
            await scale(world, 2)
            await world.settled(2)
            [node] = await world.nodes()
            await world.client.delete(Node, node.name)

            async def moved() -> bool:
                return node.name not in {each.name for each in await world.nodes()}

            await world.until(moved)
            await world.client.delete(NodePool, "default")
            await world.client.delete(EC2NodeClass, "default")

            async def gone() -> bool:
                return not (await world.client.list(EC2NodeClass)).items

            await world.until(gone, within=600)
        return recording.calls

    calls = run_virtual(scenario())
    system = {grant for grant, namespace in calls if namespace == "kube-system"}
    used = {Grant(*grant[:3]) for grant, namespace in calls if namespace != "kube-system"}
    only_here = grants("aws") - grants("kwok")

    assert used - grants("aws") == set()
    assert only_here - used == set()
    assert Grant("create", "", "nodes") not in grants("aws")
    assert system == grants("aws", "Role karpenter-dns") == {Grant("get", "", "services", "kube-dns")}
    assert grants("kwok", "Role karpenter-dns") == set()
