"""The cloud in memory as the contract suite sees it."""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from random import Random

from karpenter.api.kwoknodeclass import KWOKNodeClass, KWOKNodeClassStatus
from karpenter.api.meta import Condition, ObjectMeta
from karpenter.api.node import Node
from karpenter.api.nodeclaim import NodeClassReference
from karpenter.api.nodepool import NodeClaimTemplate, NodePool, NodePoolSpec, PoolTemplateSpec
from karpenter.cloud.catalogs.load import load_catalog
from karpenter.cloud.cloudprovider import CloudProvider, Machine
from karpenter.cloud.kwok import Behaviour, KwokCloud, KwokProvider, LoseResponse
from karpenter.core.model.catalog import OfferingName
from karpenter_local.virtual import VirtualClock


class Cluster:
    """The nodes and the node class of a cluster, without a cluster."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.ready = "True"

    async def create_node(self, node: Node) -> None:
        self.nodes[node.name] = node

    async def delete_node(self, name: str) -> None:
        self.nodes.pop(name, None)

    async def node_class(self, name: str) -> KWOKNodeClass | None:
        if name != "default":
            return None
        ready = Condition(type="Ready", status=self.ready, reason="Spoiled")
        return KWOKNodeClass(metadata=ObjectMeta(name=name), status=KWOKNodeClassStatus(conditions=(ready,)))


class KwokLaboratory:
    """A cloud in memory that can be done things to."""

    def __init__(self, behaviour: Behaviour, made: Callable[..., KwokProvider] = KwokProvider) -> None:
        self._made = made
        self._cluster = Cluster()
        self.cloud = KwokCloud(
            load_catalog("kwok"),
            nodes=self._cluster,
            clock=VirtualClock(),
            chance=Random(7),  # noqa: S311  chance that can be repeated
            behaviour=behaviour,
        )
        self.provider: CloudProvider = self._client("ours")
        self.node_class = "default"
        kind = self.provider.node_classes[0]
        reference = NodeClassReference(group=kind.group, kind=kind.kind, name="default")
        template = NodeClaimTemplate(spec=PoolTemplateSpec(node_class_ref=reference))
        self.pool = NodePool(metadata=ObjectMeta(name="default"), spec=NodePoolSpec(template=template))

    def _client(self, cluster: str) -> KwokProvider:
        return self._made(self.cloud, classes=self._cluster, cluster=cluster)

    async def restarted(self) -> CloudProvider:
        """Return a new client of the same cloud."""
        return self._client("ours")

    async def other_cluster(self) -> CloudProvider:
        return self._client("theirs")

    async def sell_out(self, offerings: Iterable[OfferingName]) -> None:
        for each in offerings:
            self.cloud.control.sell_out(
                instance_type=each.instance_type, zone=each.zone, capacity_type=each.capacity_type
            )

    async def lose_next_answer(self) -> None:
        self.cloud.control.next("launch", LoseResponse())

    async def drift(self, machine: Machine) -> str:
        self.cloud.control.drift(machine.provider_id, "ImageDrift")
        return "ImageDrift"

    async def spoil_class(self) -> None:
        """Let the class say that it is not ready."""
        self._cluster.ready = "False"

    async def interrupt(self, machine: Machine) -> None:
        self.cloud.control.interrupt(machine.provider_id)

    async def wait(self, seconds: float) -> None:
        await self.cloud.clock.sleep(seconds)


@asynccontextmanager
async def kwok_laboratory(behaviour: Behaviour) -> AsyncIterator[KwokLaboratory]:
    """Start a cloud, and stop what runs in it."""
    laboratory = KwokLaboratory(behaviour)
    yield laboratory
    await laboratory.cloud.close()
