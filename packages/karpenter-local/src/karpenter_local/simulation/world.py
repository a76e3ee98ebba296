"""
A whole world in one event loop: the embedded cluster, a cloud, and one operator or two.

Runs under the virtual clock. Operators come and go while the rest goes on; the mirror sees every write.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Self

from karpenter.api.crd.definitions import DEFINITIONS, render
from karpenter.api.storage import StorageClass
from karpenter.kube.rest import untyped
from karpenter.operator.options import parse_settings
from karpenter_local.cluster import LocalCluster
from karpenter_local.kubelet.settings import Settings as Fleet
from karpenter_local.simulation.kwok import KwokSky
from karpenter_local.simulation.mirror import Mirror
from karpenter_local.simulation.replica import Replica
from karpenter_local.virtual import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    from karpenter.core.model.catalog import Catalog
    from karpenter_local.simulation.cloud import Sky
    from karpenter_local.simulation.network import Heard

_DEFINITIONS: Final = untyped(
    "apiextensions.k8s.io/v1", "customresourcedefinitions", kind="CustomResourceDefinition", namespaced=False
)
VOLUMES: Final = "volumes"
"""The storage class of volumes that are made where their first pod runs."""

_FLEET: Final = Fleet(heartbeat=30.0, lease_seconds=100)
_LARGE: Final = 20
_LARGE_FLEET: Final = Fleet(heartbeat=900.0, lease_seconds=3000)
"""Kubelets of large clusters are heard of less often, so that a day passes in seconds."""


class World:
    """Everything there is."""

    def __init__(
        self,
        *,
        seed: int,
        machines: int = 1,
        settings: Mapping[str, str] | None = None,
        heard: Heard | None = None,
        sky: Callable[[World], Sky] = KwokSky,
    ) -> None:
        """`machines` says about how many there will be; `sky` makes the cloud."""
        self.clock = VirtualClock()
        self.seed = seed
        self.settings = parse_settings(dict(settings or {}))
        self.mirror = Mirror(self.clock)
        self.cluster = LocalCluster(
            self.clock, seed=seed, fleet=_FLEET if machines < _LARGE else _LARGE_FLEET
        )
        self.cluster.server.store.journal = self.mirror
        self.client = self.cluster.client
        self.replicas: list[Replica] = []
        self._heard = heard or (lambda _request, _response: None)
        self._starting: dict[str, asyncio.Task[None]] = {}
        self._born = 0
        self.doomed: set[str] = set()
        """Machines that their cloud has said it will take."""

        self.broken: set[str] = set()
        """Machines that do not work any longer: whoever replaces them need not wait for their pods."""

        self.contested_until = 0.0
        """When two operators at a time cannot matter any longer."""

        self.sky = sky(self)

    async def __aenter__(self) -> Self:
        await self.cluster.__aenter__()
        for each in DEFINITIONS:
            await self.client.create(_DEFINITIONS, render(each))
        await self.sky.begin(self)
        volumes = {
            "metadata": {"name": VOLUMES},
            "provisioner": "ebs.csi.aws.com",
            "volumeBindingMode": "WaitForFirstConsumer",
        }
        await self.client.create(StorageClass, volumes)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in tuple(self.replicas):
            await self.kill(each)
        await self.sky.end()
        await self.cluster.__aexit__(kind, error, trace)

    @property
    def catalog(self) -> Catalog:
        """What the cloud sells."""
        return self.sky.catalog

    @property
    def leader(self) -> Replica | None:
        """The operator that began last."""
        return self.replicas[-1] if self.replicas else None

    @property
    def is_contested(self) -> bool:
        """Whether two operators lead, or did so a moment ago."""
        return len(self.replicas) > 1 or self.clock.monotonic() < self.contested_until

    @property
    def is_time_wrong(self) -> bool:
        """Whether an operator's clock is wrong."""
        return any(each.clock.ahead for each in self.replicas)

    def start(self) -> Replica:
        """Let an operator begin that knows nothing."""
        self._born += 1
        replica = Replica(
            self.cluster.server,
            self.sky,
            name=f"{self.seed}/operator-{self._born}",
            clock=self.clock,
            settings=self.settings,
            heard=self._heard,
        )
        self.replicas.append(replica)
        self._starting[replica.name] = asyncio.get_running_loop().create_task(self._keep_starting(replica))
        return replica

    async def kill(self, replica: Replica) -> None:
        """End an operator at once."""
        if replica not in self.replicas:
            return
        self.replicas.remove(replica)
        starting = self._starting.pop(replica.name)
        starting.cancel()
        await asyncio.wait([starting])
        await replica.kill()

    async def _keep_starting(self, replica: Replica) -> None:
        await replica.start()
