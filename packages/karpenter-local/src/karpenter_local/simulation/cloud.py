"""
The cloud above a made-up cluster, whichever it is: what worlds, rules and mishaps need of it.

The one in memory is in :mod:`.kwok`, the one on the embedded AWS in :mod:`.aws`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from random import Random

    from karpenter.base.clock import Clock
    from karpenter.cloud.cloudprovider import CloudProvider, Machine
    from karpenter.core.model.catalog import Catalog
    from karpenter.kube.client import Client
    from karpenter_local.simulation.faults import Mishap
    from karpenter_local.simulation.invariants.rule import Ledger, Rule
    from karpenter_local.simulation.network import Wire
    from karpenter_local.simulation.world import World

    Later = Callable[[float, Callable[[], None]], None]
    """Lets something happen after so many seconds."""


class Account(Protocol):
    """What one operator has in the cloud."""

    @property
    def provider(self) -> CloudProvider:
        """The provider of this operator."""
        ...

    async def begin(self) -> None:
        """Make the provider ready. May take long, where the cloud does not answer."""
        ...

    def end(self) -> None:
        """Carry nothing to the cloud from now on."""
        ...


class Sky(Protocol):
    """A cloud."""

    @property
    def node_class(self) -> Mapping[str, str]:
        """How pools refer to the class of machines."""
        ...

    @property
    def catalog(self) -> Catalog:
        """What is sold, and what it costs."""
        ...

    async def begin(self, world: World) -> None:
        """Begin, in a cluster that stands, and make a class of machines there."""
        ...

    async def end(self) -> None:
        """Stop."""
        ...

    def machines(self) -> Sequence[Machine]:
        """Return what really exists, in the order of launch."""
        ...

    def open(self, client: Client, *, clock: Clock, chance: Random, wire: Wire) -> Account:
        """Return what an operator has here that reaches the cluster over a wire."""
        ...

    def strike(self, mishap: Mishap, later: Later) -> bool:
        """Let a mishap happen that is about the cloud; return whether it was."""
        ...

    def rules(self, ledger: Ledger) -> Sequence[Rule]:
        """Return what must hold in this cloud beside what must hold in all."""
        ...

    def relent(self) -> None:
        """Let everything be well from now on."""
        ...
