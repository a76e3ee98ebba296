"""
The cluster of one simulated run: a sandbox in virtual time, seen through a mirror of all its writes.

Operators come and go while the rest goes on. Each has seams of its own (:class:`FaultySeams`) at which
:mod:`.inject` lets calls, watches and clocks go wrong. What is true of the run and in no object, such as
which machines the cloud is about to take, is kept here for the invariants.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

from karpenter.api.storage import StorageClass
from karpenter_local.kubelet.settings import KubeletSettings
from karpenter_local.sandbox.options import ClusterOptions, KwokOptions
from karpenter_local.sandbox.sandbox import Sandbox
from karpenter_local.simulation.kwok import SimulatedKwok, kwok_options
from karpenter_local.simulation.mirror import Mirror
from karpenter_local.simulation.network import FaultyTransport
from karpenter_local.virtual import WrongClock

if TYPE_CHECKING:
    from collections.abc import Mapping
    from random import Random
    from types import TracebackType

    from karpenter.base.clock import Clock
    from karpenter.cloud.aws.sdk import AwsApi
    from karpenter.core.model.catalog import Catalog
    from karpenter.kube.rest import Transport
    from karpenter_local.aws.site import ClusterAccount
    from karpenter_local.sandbox.operators import Replica
    from karpenter_local.sandbox.options import CloudOptions
    from karpenter_local.simulation.cloud import SimulatedCloud
    from karpenter_local.simulation.network import OnWrite

CLUSTER: Final = "simulation"
"""The name by which machines are tagged."""

VOLUMES: Final = "volumes"
"""The storage class of volumes that are made where their first pod runs."""

_KUBELETS: Final = KubeletSettings(heartbeat=30.0, lease_seconds=100)
_LARGE: Final = 20
_KUBELETS_OF_LARGE: Final = KubeletSettings(heartbeat=900.0, lease_seconds=3000)
"""Kubelets of large clusters report less often, so that a day passes in seconds."""


class FaultySeams:
    """What stands between one operator and everything else, and can go wrong."""

    def __init__(
        self, transport: Transport, *, clock: Clock, chance: Random, on_write: OnWrite, cloud: SimulatedCloud
    ) -> None:
        self.transport = FaultyTransport(transport, chance=chance, on_write=on_write)
        self.clock = WrongClock(clock)
        self._chance = chance
        self._cloud = cloud

    def aws(self, site: ClusterAccount) -> AwsApi:
        """Return calls to AWS that fail as the simulated cloud says."""
        return self._cloud.aws(site, chance=self._chance, transport=self.transport)

    def sever(self) -> None:
        """Carry nothing from now on."""
        self.transport.sever()


class SimulatedCluster:
    """A sandbox, and what is true of it beyond its objects. Entering starts it without an operator."""

    def __init__(
        self,
        *,
        seed: int,
        machines: int = 1,
        settings: Mapping[str, str] | None = None,
        on_write: OnWrite | None = None,
        cloud: CloudOptions | None = None,
    ) -> None:
        """`machines` says about how many there will be; `on_write` hears of the writes of operators."""
        options = cloud or kwok_options()
        self.sandbox = Sandbox(
            name=CLUSTER,
            seed=seed,
            cluster=ClusterOptions(kubelets=_KUBELETS if machines < _LARGE else _KUBELETS_OF_LARGE),
            cloud=options,
            operators=0,
            settings=settings,
            seams=self._make_seams,
        )
        self.clock = self.sandbox.clock
        self.mirror = Mirror(self.clock)
        self.sandbox.cluster.server.store.journal = self.mirror
        self._on_write = on_write or (lambda _request, _response: None)
        self.taken: set[str] = set()
        """Machines that their cloud has said it will take."""

        self.broken: set[str] = set()
        """Machines that do not work any longer: their replacement need not wait for their pods."""

        self.contested_until = 0.0
        """When two operators at a time cannot matter any longer."""

        self.cloud: SimulatedCloud = _simulated_cloud(self, options)

    async def __aenter__(self) -> Self:
        await self.sandbox.__aenter__()
        await self.cloud.start()
        volumes = {
            "metadata": {"name": VOLUMES},
            "provisioner": "ebs.csi.aws.com",
            "volumeBindingMode": "WaitForFirstConsumer",
        }
        await self.sandbox.client.create(StorageClass, volumes)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.sandbox.__aexit__(kind, error, trace)

    @property
    def catalog(self) -> Catalog:
        """What the cloud sells."""
        return self.cloud.catalog

    @property
    def replicas(self) -> list[Replica]:
        """The operators that run, in the order in which they were started."""
        return self.sandbox.replicas

    @property
    def is_contested(self) -> bool:
        """Whether two operators lead, or did so a moment ago."""
        return len(self.replicas) > 1 or self.clock.monotonic() < self.contested_until

    @property
    def is_time_wrong(self) -> bool:
        """Whether the clock of an operator is wrong."""
        return any(each.clock.ahead for each in self.seams())

    def seams(self) -> list[FaultySeams]:
        """Return the seams of the operators that run, in the order in which those were started."""
        return [found for each in self.replicas if isinstance(found := each.seams, FaultySeams)]

    def _make_seams(self, transport: Transport, *, clock: Clock, chance: Random) -> FaultySeams:
        return FaultySeams(transport, clock=clock, chance=chance, on_write=self._on_write, cloud=self.cloud)


def _simulated_cloud(simulated: SimulatedCluster, options: CloudOptions) -> SimulatedCloud:
    if isinstance(options, KwokOptions):
        return SimulatedKwok(simulated)
    from karpenter_local.simulation.aws.cloud import SimulatedAws  # noqa: PLC0415  it may not be installed

    return SimulatedAws(simulated)
