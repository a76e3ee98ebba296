"""
The cloud above the stage, whichever it is: what a tour needs of it, and the one in memory.

The one on the embedded AWS is in :mod:`.aws`.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from random import Random
from typing import TYPE_CHECKING, Final, Protocol

from karpenter.api.kwoknodeclass import KWOKNodeClass
from karpenter.api.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from karpenter.cloud.catalogs.load import load_catalog
from karpenter.cloud.kwok import Behaviour, KwokCloud, KwokProvider
from karpenter.cloud.kwok.cloudprovider import ObjectClasses, ObjectNodes
from karpenter.operator.run import KubeClusterObjects

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from contextlib import AbstractAsyncContextManager

    from karpenter.base.clock import Clock
    from karpenter.cloud.cloudprovider import CloudProvider
    from karpenter.kube.client import Client
    from karpenter_local.cluster import LocalCluster

CLUSTER: Final = "demo"
CLASS: Final = "default"


class Sky(Protocol):
    """A cloud above the stage."""

    @property
    def node_class(self) -> Mapping[str, str]:
        """How pools refer to the class of machines."""
        ...

    def begin(
        self, cluster: LocalCluster, client: Client, *, clock: Clock, seed: int
    ) -> AbstractAsyncContextManager[CloudProvider]:
        """Let the cloud begin for a cluster that stands, and make a class of machines there."""
        ...

    def machines(self) -> int:
        """Return how many machines really exist."""
        ...

    def price(self, labels: Mapping[str, str]) -> float:
        """Return what a machine with these labels costs per hour."""
        ...


class KwokSky:
    """The cloud in memory."""

    node_class: Mapping[str, str] = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": CLASS}

    def __init__(self) -> None:
        self._catalog = load_catalog("kwok")
        self._cloud: KwokCloud | None = None

    @asynccontextmanager
    async def begin(
        self, cluster: LocalCluster, client: Client, *, clock: Clock, seed: int
    ) -> AsyncIterator[CloudProvider]:
        """Let the cloud begin."""
        self._cloud = KwokCloud(
            self._catalog,
            nodes=ObjectNodes(KubeClusterObjects(cluster.connect("kwok"))),
            clock=clock,
            chance=Random(seed),  # noqa: S311  the demo's dice, not a secret
            behaviour=Behaviour(launch=2.0),
        )
        await cluster.client.create(KWOKNodeClass, {"metadata": {"name": CLASS}})
        try:
            yield KwokProvider(self._cloud, classes=ObjectClasses(KubeClusterObjects(client)), cluster=CLUSTER)
        finally:
            await self._cloud.close()

    def machines(self) -> int:
        """Return how many machines really exist."""
        return len(self._cloud.control.machines(CLUSTER)) if self._cloud is not None else 0

    def price(self, labels: Mapping[str, str]) -> float:
        """Return what a machine with these labels costs per hour."""
        kind = self._catalog.by_name[labels[INSTANCE_TYPE]]
        prices = [
            offering.price
            for offering in kind.offerings
            if offering.zone == labels.get(ZONE) and offering.capacity_type == labels.get(CAPACITY_TYPE)
        ]
        return min(prices, default=0.0)
