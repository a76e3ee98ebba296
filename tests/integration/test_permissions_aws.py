"""What the chart grants on AWS is what the operator does there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.node import Node
from karpenter.api.nodepool import NodePool
from karpenter.chart.chart import manifests
from karpenter.chart.tree import Release
from karpenter.chart.values import values_of
from karpenter_local.virtual import run_virtual
from tests.integration.calls import Call, Grant, Recording, granted
from tests.integration.sandboxes import aws_sandbox, through
from tests.integration.test_aws import apply, scale

if TYPE_CHECKING:
    from karpenter.kube.transport import Transport


def grants(cloud: str, role: str = "ClusterRole karpenter") -> set[Grant]:
    """Return what a role of the chart grants to an operator on a cloud; nothing, if there is no such role."""
    values = values_of([], [f"settings.clusterName=test,settings.cloudProvider={cloud}"])
    objects = manifests(Release(values=values), definitions=False)
    found = {f"{each['kind']} {each['metadata']['name']}": each.get("rules", []) for each in objects}
    return granted(found.get(role, []))


def test_least_privilege_on_aws() -> None:
    """Every call is granted, and what is granted for AWS alone is needed there."""

    async def scenario() -> set[Call]:
        recorded: list[Recording] = []

        def record(inner: Transport) -> Recording:
            recorded.append(Recording(inner))
            return recorded[-1]

        async with aws_sandbox(seams=through(record)) as sandbox:
            await apply(sandbox)
            await scale(sandbox, 2)
            await sandbox.until_running(2)
            [node] = await sandbox.nodes()
            await sandbox.client.delete(Node, node.name)

            async def moved() -> bool:
                return node.name not in {each.name for each in await sandbox.nodes()}

            await sandbox.until(moved)
            await sandbox.client.delete(NodePool, "default")
            await sandbox.client.delete(EC2NodeClass, "default")

            async def gone() -> bool:
                return not (await sandbox.client.list(EC2NodeClass)).items

            await sandbox.until(gone, within=600)
        (recording,) = recorded
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
