"""Machines of the cloud in memory are nodes of the embedded cluster."""

from random import Random

from karpenter.api.kwoknodeclass import KWOKNodeClass
from karpenter.api.meta import ObjectMeta
from karpenter.api.node import Node
from karpenter.cloud.catalogs.load import load_catalog
from karpenter.cloud.kwok import KwokCloud, KwokProvider
from karpenter.kube.client import Client
from karpenter.kube.errors import NotFound
from karpenter_local.cluster import LocalCluster
from karpenter_local.virtual import VirtualClock, run_virtual
from tests.unit.cloud.kwok.world import claim


class ApiServer:
    """Nodes on an API server, and one class."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def create_node(self, node: Node) -> None:
        await self._client.create(Node, node)

    async def delete_node(self, name: str) -> None:
        try:
            await self._client.delete(Node, name)
        except NotFound:
            return

    async def node_class(self, name: str) -> KWOKNodeClass | None:
        return KWOKNodeClass(metadata=ObjectMeta(name=name))


async def live() -> tuple[Node, list[str]]:
    """Launch a machine, wait until its node is ready, end it, and return the node and what is left."""
    async with LocalCluster(VirtualClock(), seed=1) as cluster:
        server = ApiServer(cluster.client)
        chance = Random(1)  # noqa: S311  chance that can be repeated
        cloud = KwokCloud(load_catalog("kwok"), nodes=server, clock=cluster.clock, chance=chance)
        provider = KwokProvider(cloud, classes=server, cluster="ours")
        machine = await provider.launch(claim())
        await cluster.clock.sleep(30.0)
        node = await cluster.client.get(Node, machine.provider_id.removeprefix("kwok://"))
        await provider.terminate(machine.provider_id)
        await cluster.clock.sleep(30.0)
        left = [each.name for each in (await cluster.client.list(Node)).items]
        await cloud.close()
    return node, left


def test_a_machine_joins_and_leaves() -> None:
    """A launched machine becomes a ready node of its size, still tainted; an ended one takes it along."""
    node, left = run_virtual(live())

    assert [each.status for each in node.status.conditions if each.type == "Ready"] == ["True"]
    assert "karpenter.sh/unregistered" in {taint.key for taint in node.spec.taints}
    assert node.status.capacity["cpu"] == "2"
    assert node.status.allocatable["cpu"] == "1900m"
    assert left == []
