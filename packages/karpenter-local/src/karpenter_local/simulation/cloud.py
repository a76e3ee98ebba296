"""
The cloud of a simulated run, whichever it is: what invariants and faults need of it.

The kwok cloud is in :mod:`.kwok`, the embedded AWS in :mod:`.aws`. Both are started by the sandbox; here is
what goes wrong with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from random import Random

    from karpenter.cloud.aws.sdk import AwsApi
    from karpenter.cloud.cloudprovider import Machine
    from karpenter.core.model.catalog import Catalog
    from karpenter_local.aws.site import ClusterAccount
    from karpenter_local.simulation.faults import InjectedFault
    from karpenter_local.simulation.invariants.invariant import CloudCall, Invariant, ViolationLog
    from karpenter_local.simulation.network import FaultyTransport

    Later = Callable[[float, Callable[[], None]], None]
    """Calls a function after so many seconds."""


class SimulatedCloud(Protocol):
    """A cloud that can go wrong."""

    @property
    def node_class(self) -> Mapping[str, str]: ...

    @property
    def catalog(self) -> Catalog: ...

    async def start(self) -> None:
        """Begin to follow a cloud that runs."""
        ...

    def machines(self) -> Sequence[Machine]:
        """Return the machines that exist, in the order of launch."""
        ...

    def is_drifted(self, provider_id: str) -> bool:
        """Say whether a machine is not what its class asks for any longer."""
        ...

    def follow(self, on_call: Callable[[CloudCall], None]) -> None:
        """Tell of every launch and termination that an operator asks for."""
        ...

    def inject(self, fault: InjectedFault, later: Later) -> bool:
        """Inject a fault of the cloud; return whether it was one."""
        ...

    def recover(self) -> None: ...

    def invariants(self, violations: ViolationLog) -> Sequence[Invariant]:
        """Return what must hold in this cloud beside what must hold in all."""
        ...


@runtime_checkable
class CallsAws(Protocol):
    """A simulated cloud that operators call by the API of AWS."""

    def aws(self, site: ClusterAccount, *, chance: Random, transport: FaultyTransport) -> AwsApi: ...
