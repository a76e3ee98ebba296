"""
The cluster of one simulated run: a sandbox in virtual time, seen through a mirror of all its writes.

Operators come and go while the rest goes on. Each has seams of its own (:class:`FaultySeams`) at which
:mod:`.inject` lets calls, watches and clocks go wrong. What is true of the run and in no object, such as
which machines the cloud is about to take, is kept here for the invariants.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, Self

from karpenter.api.storage import StorageClass
from karpenter.base.duration import parse_duration
from karpenter_local.kubelet.settings import KubeletSettings
from karpenter_local.sandbox.options import CloudOptions, ClusterOptions, KwokOptions
from karpenter_local.sandbox.sandbox import Sandbox
from karpenter_local.simulation.cloud import CallsAws, SimulatedCloud
from karpenter_local.simulation.invariants.history import ClusterHistory
from karpenter_local.simulation.invariants.invariant import cores
from karpenter_local.simulation.kwok import SimulatedKwok, kwok_options
from karpenter_local.simulation.mirror import Mirror
from karpenter_local.simulation.network import FaultyTransport, OnWrite
from karpenter_local.virtual import WrongClock

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping
    from random import Random
    from types import TracebackType

    from karpenter.api.node import Node
    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.base.clock import Clock
    from karpenter.cloud.aws.sdk import AwsApi
    from karpenter.core.model.catalog import Catalog
    from karpenter.kube.transport import Transport
    from karpenter_local.aws.site import ClusterAccount
    from karpenter_local.sandbox.operators import Replica

_ROUNDING_SECONDS: Final = 3.0
"""Seconds by which times that are written in whole seconds may be early."""

CLUSTER: Final = "simulation"
"""The name by which machines are tagged."""

VOLUMES: Final = "volumes"
"""The storage class of volumes that are made where their first pod runs."""

_KUBELETS: Final = KubeletSettings(heartbeat=30.0, lease_seconds=100)
_LARGE_CLUSTER_MACHINES: Final = 20
_KUBELETS_OF_LARGE_CLUSTER: Final = KubeletSettings(heartbeat=900.0, lease_seconds=3000)
"""Kubelets of large clusters report less often, so that a day passes in seconds."""


class FaultySeams:
    """Transport, clock and AWS of one operator, which can fail."""

    def __init__(
        self, transport: Transport, *, clock: Clock, chance: Random, on_write: OnWrite, cloud: SimulatedCloud
    ) -> None:
        self.transport = FaultyTransport(transport, chance=chance, on_write=on_write)
        self.clock = WrongClock(clock)
        self._chance = chance
        self._cloud = cloud

    def aws(self, site: ClusterAccount) -> AwsApi:
        """Return calls to AWS that fail as the simulated cloud says."""
        assert isinstance(self._cloud, CallsAws)
        return self._cloud.aws(site, chance=self._chance, transport=self.transport)

    def sever(self) -> None:
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
        elects: bool = False,
    ) -> None:
        """
        `machines` says about how many there will be; `on_write` hears of the writes of operators.

        If it `elects`, operators compete for a Lease.
        """
        options = cloud or kwok_options()
        self.sandbox = Sandbox(
            name=CLUSTER,
            seed=seed,
            cluster=ClusterOptions(
                kubelets=_KUBELETS if machines < _LARGE_CLUSTER_MACHINES else _KUBELETS_OF_LARGE_CLUSTER
            ),
            cloud=options,
            operators=0,
            settings=settings,
            seams=self._make_seams,
            elects=elects,
        )
        self.clock = self.sandbox.clock
        self.mirror = Mirror(self.clock)
        self.sandbox.cluster.server.store.journal = self.mirror
        self._on_write = on_write or (lambda _request, _response: None)
        self.taken: dict[str, float] = {}
        """Machines that their cloud has said it will take, and when it said so."""

        self.broken: set[str] = set()
        """Machines that do not work any longer: their replacement need not wait for their pods."""

        self.contested_until = 0.0
        """When two operators at a time cannot matter any longer."""

        self.launched: dict[str, float] = {}
        """Every instance that AWS ever launched, and when."""

        self.ended: set[str] = set()
        """Instances that AWS ended by itself."""

        self.lags: list[tuple[float, float, float]] = []
        """From when and until when EC2 hid what it had just launched, and for how long after its launch."""

        self.wrong_until = 0.0
        """When the clock of an operator was last wrong; times that were written until then may be, too."""

        self.faulty_until = float("inf")
        """When the last fault ended, or would."""

        self.launches_failed = False
        """Whether machines were launched that never join, or launches that were never answered."""

        self.on_disrupted: Callable[[str], Coroutine[Any, Any, None]] | None = None
        """What users do to the next node whose disruption has begun."""

        self._later: set[asyncio.Task[None]] = set()
        self.history = ClusterHistory(self)
        self.mirror.subscribe(self.history.on_write)

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
        for task in tuple(self._later):
            task.cancel()
        await self.sandbox.__aexit__(kind, error, trace)

    def later(self, seconds: float, act: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Let something happen after a while, as long as the cluster runs."""

        async def wait() -> None:
            await asyncio.sleep(seconds)
            await act()

        task = asyncio.get_running_loop().create_task(wait())
        self._later.add(task)
        task.add_done_callback(self._later.discard)

    @property
    def catalog(self) -> Catalog:
        return self.cloud.catalog

    @property
    def replicas(self) -> list[Replica]:
        """The operators that run, in the order in which they were started."""
        return self.sandbox.replicas

    @property
    def is_contested(self) -> bool:
        """Whether two operators lead, or did so a moment ago."""
        two = len(self.replicas) > 1 and not self.sandbox.elects
        return two or self.clock.monotonic() < self.contested_until

    @property
    def calm_for(self) -> float:
        """For how many seconds nothing has gone wrong."""
        return self.clock.monotonic() - self.faulty_until

    @property
    def leading(self) -> FaultySeams | None:
        """The seams of the operator that leads: the one with the Lease, or else the one started last."""
        holders = {each.get("holderIdentity", "") for each in self.mirror.leases.values()}
        found = [each for each in self.replicas if each.name in holders] or self.replicas
        seams = found[-1].seams if found else None
        return seams if isinstance(seams, FaultySeams) else None

    @property
    def is_time_wrong(self) -> bool:
        return any(each.clock.ahead for each in self.seams())

    @property
    def interrupts(self) -> bool:
        """Whether every message of the cloud arrives; on AWS they may be late, or garbled."""
        return isinstance(self.cloud, SimulatedKwok)

    def seams(self) -> list[FaultySeams]:
        """Return the seams of the operators that run, in the order in which those were started."""
        return [found for each in self.replicas if isinstance(found := each.seams, FaultySeams)]

    def seams_of(self, replica: str) -> FaultySeams | None:
        found = next((each.seams for each in self.replicas if each.name == replica), None)
        return found if isinstance(found, FaultySeams) else None

    def node_of(self, claim: NodeClaim) -> Node | None:
        wanted = claim.status.provider_id
        return next((each for each in self.mirror.nodes.values() if each.spec.provider_id == wanted), None)

    def hidden(self, instance: str) -> tuple[float, float]:
        """Return when an instance was launched, and until when EC2 may have hidden it, if it did."""
        launched = self.launched.get(instance, 0.0)
        until = [min(end, launched + lag) for begin, end, lag in self.lags if begin < launched + lag]
        return launched, max((launched, *until))

    def goes_anyway(self, claim: NodeClaim) -> bool:
        """Whether a claim may be deleted for another reason than that a command disrupts it."""
        return claim.status.provider_id in self.broken or self.goes_unrepaired(claim)

    def goes_unrepaired(self, claim: NodeClaim) -> bool:
        """Whether a claim may be deleted though no command disrupts it and nothing repairs its node."""
        provider_id = claim.status.provider_id
        machines = {each.provider_id for each in self.cloud.machines() if not each.deleting}
        if provider_id not in machines or provider_id in self.taken:
            return True
        node = self.node_of(claim)
        if node is None or node.metadata.deletion_timestamp is not None:
            return True
        over = self.overdue(claim)
        return over is not None and (over > -_ROUNDING_SECONDS or self.is_time_wrong)

    def overdue(self, claim: NodeClaim) -> float | None:
        """Return for how long a claim is older than it may be, in seconds; None if it never is."""
        born = claim.metadata.creation_timestamp
        if claim.spec.expire_after == "Never" or born is None:
            return None
        return (self.clock.now() - born - parse_duration(claim.spec.expire_after)).total_seconds()

    def cores_of_daemons(self) -> int:
        """Return what all daemons of a node ask for; those of the simulation run on every node."""
        table = self.sandbox.cluster.server.store.table("daemonsets.apps")
        found = [each.object()["spec"]["template"]["spec"]["containers"] for each in table.entries.values()]
        return sum(cores(each["resources"]["requests"]) for containers in found for each in containers)

    def cores_of_buffers(self) -> list[tuple[int, int]]:
        """Return what one pod of each CapacityBuffer asks for, and of how many pods it is."""
        store, found = self.sandbox.cluster.server.store, []
        for buffer in self.mirror.buffers.values():
            template = buffer.spec.pod_template_ref
            entry = store.get("podtemplates", f"default/{template.name}") if template is not None else None
            containers = entry.object()["template"]["spec"]["containers"] if entry is not None else ()
            asked = sum(cores(each["resources"]["requests"]) for each in containers)
            found.append((asked, buffer.spec.replicas or 0))
        return found

    def _make_seams(self, transport: Transport, *, clock: Clock, chance: Random) -> FaultySeams:
        return FaultySeams(transport, clock=clock, chance=chance, on_write=self._on_write, cloud=self.cloud)


def _simulated_cloud(simulated: SimulatedCluster, options: CloudOptions) -> SimulatedCloud:
    if isinstance(options, KwokOptions):
        return SimulatedKwok(simulated)
    from karpenter_local.simulation.aws.cloud import SimulatedAws  # noqa: PLC0415  it may not be installed

    return SimulatedAws(simulated)
