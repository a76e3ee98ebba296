"""
The cloud of a sandbox: what every cloud offers, and the kwok cloud in memory.

The embedded AWS is in :mod:`.aws`, which only those load who use it.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final, Protocol

from karpenter.api.kwoknodeclass import KWOKNodeClass
from karpenter.api.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from karpenter.cloud.catalogs.load import load_catalog
from karpenter.cloud.kwok import Behaviour, KwokCloud, KwokProvider
from karpenter.cloud.kwok.cloudprovider import ObjectClasses, ObjectNodes
from karpenter.kube.errors import AlreadyExists
from karpenter.operator.run import KubeClusterObjects
from karpenter_local.sandbox.options import NODE_CLASS, KwokOptions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from karpenter.base.clock import Clock
    from karpenter.cloud.cloudprovider import CloudProvider, Machine
    from karpenter.cloud.kwok.cloud import KwokControl
    from karpenter.core.model.catalog import Catalog
    from karpenter.kube.client import Client
    from karpenter_local.cluster import LocalCluster
    from karpenter_local.kubelet.hollownodes import HollowNodes
    from karpenter_local.sandbox.cluster import RunningCluster
    from karpenter_local.sandbox.operators import OperatorSeams

_BEHAVIOUR: Final = Behaviour(launch=1.0)


class CloudConnection(Protocol):
    """Connection of one operator to a cloud."""

    @property
    def provider(self) -> CloudProvider: ...

    async def open(self) -> None:
        """Let the provider learn what it has to know; may take long where the cloud does not answer."""
        ...

    def close(self) -> None:
        """Carry nothing to the cloud from now on."""
        ...


class SandboxCloud(Protocol):
    """A cloud."""

    @property
    def node_class(self) -> Mapping[str, str]:
        """The nodeClassRef of the node class that exists from the start."""
        ...

    @property
    def environment(self) -> Mapping[str, str]:
        """What programs must find in their environment to use this cloud."""
        ...

    async def start(self, cluster: RunningCluster) -> None:
        """Start for a cluster that runs, and create a node class there."""
        ...

    async def stop(self) -> None: ...

    def connect(self, client: Client, *, seams: OperatorSeams, chance: Random) -> CloudConnection:
        """Return the connection of an operator that has this client of the cluster."""
        ...

    def count(self) -> int:
        """Return how many machines exist, whatever the cluster says."""
        ...

    def price(self, labels: Mapping[str, str]) -> float:
        """Return what a machine with these labels costs per hour."""
        ...


class KwokSandboxCloud:
    """The cloud in memory."""

    node_class: Mapping[str, str] = {
        "group": "karpenter.kwok.sh",
        "kind": "KWOKNodeClass",
        "name": NODE_CLASS,
    }
    environment: Mapping[str, str] = {}

    def __init__(
        self, options: KwokOptions, cluster: LocalCluster, *, name: str, clock: Clock, seed: int
    ) -> None:
        self.name = name
        self._options = options
        self.catalog: Catalog = load_catalog("kwok") if options.catalog is None else options.catalog
        self.cloud = KwokCloud(
            self.catalog,
            nodes=_NodesWithKubelets(KubeClusterObjects(cluster.connect("kwok")), cluster.hollow_nodes),
            clock=clock,
            chance=Random(f"{seed}/cloud"),  # noqa: S311  the chance of a simulation, not secrets
            behaviour=options.behaviour or _BEHAVIOUR,
        )

    @property
    def control(self) -> KwokControl:
        """What can be done to this cloud: machines break, zones sell out, calls fail."""
        return self.cloud.control

    async def start(self, cluster: RunningCluster) -> None:
        if self._options.node_class:
            await create_kwok_node_class(cluster.client)

    async def stop(self) -> None:
        await self.cloud.close()

    def connect(self, client: Client, *, seams: OperatorSeams, chance: Random) -> KwokConnection:
        del seams, chance
        return KwokConnection(
            KwokProvider(self.cloud, classes=ObjectClasses(KubeClusterObjects(client)), cluster=self.name)
        )

    def machines(self) -> Sequence[Machine]:
        """Return the machines that exist, in the order of launch."""
        return self.cloud.control.machines(self.name)

    def count(self) -> int:
        return len(self.machines())

    def price(self, labels: Mapping[str, str]) -> float:
        """Return what a machine with these labels costs per hour."""
        kind = self.catalog.by_name[labels[INSTANCE_TYPE]]
        prices = [
            offering.price
            for offering in kind.offerings
            if offering.zone == labels.get(ZONE) and offering.capacity_type == labels.get(CAPACITY_TYPE)
        ]
        return min(prices, default=0.0)


class KwokConnection:
    """Connection of one operator to the cloud in memory."""

    def __init__(self, provider: CloudProvider) -> None:
        self.provider = provider

    async def open(self) -> None:
        """Do nothing: the provider needs to learn nothing."""

    def close(self) -> None:
        """Do nothing: a severed transport keeps the operator from the cluster, and the cloud sees that."""


class KwokInOperator:
    """The cloud in memory where ``karpenter run`` makes it: only its node class is of the sandbox."""

    node_class: Mapping[str, str] = KwokSandboxCloud.node_class
    environment: Mapping[str, str] = {}

    def __init__(self, options: KwokOptions) -> None:
        self._options = options

    async def start(self, cluster: RunningCluster) -> None:
        if self._options.node_class:
            await create_kwok_node_class(cluster.client)

    async def stop(self) -> None:
        """Do nothing: the cloud ends with its operator."""

    def connect(self, client: Client, *, seams: OperatorSeams, chance: Random) -> CloudConnection:
        """Refuse: operators of such a sandbox are whole processes."""
        del client, seams, chance
        raise RuntimeError("the operator makes this cloud itself; hint: use Sandbox.serve_operator()")

    def count(self) -> int:
        """Refuse: only the operator knows."""
        raise RuntimeError("the operator has this cloud; hint: count NodeClaims")

    def price(self, labels: Mapping[str, str]) -> float:
        """Refuse: only the operator knows."""
        del labels
        raise RuntimeError("the operator has this cloud; hint: ask karpenter plan")


async def create_kwok_node_class(client: Client, name: str = NODE_CLASS) -> None:
    """Create a KWOKNodeClass, unless it is there."""
    try:
        await client.create(KWOKNodeClass, {"metadata": {"name": name}})
    except AlreadyExists:
        return


class _NodesWithKubelets(ObjectNodes):
    """Nodes of the kwok cloud whose kubelet dies with the machine."""

    def __init__(self, objects: KubeClusterObjects, kubelets: HollowNodes) -> None:
        super().__init__(objects)
        self._kubelets = kubelets

    async def delete_node(self, name: str) -> None:
        """End the kubelet, and ask for the deletion of its Node."""
        if name in self._kubelets.nodes:
            self._kubelets.make(name, "dead")
        await super().delete_node(name)
