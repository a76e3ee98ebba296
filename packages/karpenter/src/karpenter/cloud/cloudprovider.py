"""
The interface between the operator and any cloud.

A :class:`CloudProvider` turns NodeClaims into machines, and says which machines there are and which instance
types a NodePool may use; it decides nothing else. NodeClaims and NodePools come as values. What else a
provider needs of its environment is in :class:`ProviderContext`; its access to Kubernetes is narrow on
purpose: a provider reads node classes, and a cloud that makes its own nodes, as kwok does, creates and
deletes those.

Three interfaces are optional, and the operator asks for them with ``isinstance``. A provider that hears of
interruptions before they happen is :class:`Interruptible`; one that has to finish something before a node may
be used is a :class:`HoldsRegistration`; one that has controllers of its own, such as for its node classes, is
a :class:`HasControllers`. A controller of a provider changes nothing in Kubernetes by itself: it returns a
:class:`~karpenter.core.effects.Step`, effects and when to look again, which the operator performs.

Errors are in :mod:`.errors`. ``karpenter_local.testing.provider_contract`` tests that a provider keeps what
is said here, and docs/guides/write-a-provider.md shows how to write one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar, runtime_checkable

import msgspec

from karpenter.api.labels import node_class_label
from karpenter.api.meta import Resource
from karpenter.base.clock import Clock
from karpenter.base.ratelimiting import OPEN, Fence
from karpenter.core.model.resources import Resources
from karpenter.core.state.cluster import ClusterView, NodeClass, StateEvent
from karpenter.telemetry.metrics import Metrics, MetricSpec

if TYPE_CHECKING:
    from karpenter.api.node import Node
    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.api.nodepool import NodePool
    from karpenter.core.effects import Step
    from karpenter.core.model.catalog import Catalog
    from karpenter.telemetry.metrics.instruments import Instrument


ProviderId: TypeAlias = str
"""The id of a machine, as ``spec.providerID`` of its node has it, such as ``kwok://node-1``."""


class NodeClassKind(msgspec.Struct, frozen=True):
    """A kind of node class that a provider supports."""

    group: str
    kind: str

    @property
    def label(self) -> str:
        """The label of claims and nodes that has the name of their class."""
        return node_class_label(self.group, self.kind)


class RepairPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """A condition of a node that means, when it lasts, that the node is unhealthy."""

    condition_type: str
    condition_status: str
    toleration: timedelta


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """A machine in the cloud, as the provider reports it."""

    provider_id: ProviderId
    claim_uid: str = ""
    """The uid of the claim that it was launched for; empty if the cloud does not know."""

    labels: Mapping[str, str] = {}
    """The labels of its node: at least instance type, zone, capacity type, arch and os."""

    annotations: Mapping[str, str] = {}
    capacity: Resources = {}
    allocatable: Resources = {}
    image_id: str = ""
    created: datetime | None = None
    deleting: bool = False
    """Whether it is being terminated; it still exists, and still costs."""


class CloudProvider(Protocol):
    """Turns claims into machines."""

    @property
    def name(self) -> str:
        """One word, such as ``kwok``: the label of metrics, and the name in the registry."""
        ...

    @property
    def node_classes(self) -> tuple[NodeClassKind, ...]:
        """The kinds of node class that it supports, the usual one first; others are left alone."""
        ...

    @property
    def repair_policies(self) -> tuple[RepairPolicy, ...]:
        """Which conditions of a node mean that its machine should be repaired; may be empty."""
        ...

    async def launch(self, claim: NodeClaim) -> Machine:
        """
        Launch the cheapest machine that satisfies the requirements of a claim and fits its requests.

        Idempotent per claim uid, also across restarts: as long as a machine of that uid exists, it is
        returned and nothing is launched. So a caller that lost the answer calls again.

        Raises:
            InsufficientCapacity: naming the offerings that were tried.
            NodeClassNotReady: the claim's class cannot launch.
            LaunchRefused: the request is wrong; the user has to change something.
            LaunchFailed: anything else; a machine may exist.
            Throttled: too many calls.
        """
        ...

    async def terminate(self, provider_id: ProviderId) -> None:
        """
        Begin to terminate a machine; harmless when it has begun. Returns before the machine is gone.

        Raises:
            MachineNotFound: it is gone. Callers call again until this is raised.
            Throttled, CloudUnreachable: call again.
        """
        ...

    async def get(self, provider_id: ProviderId) -> Machine:
        """
        Return a machine as it is now, not as a cache remembers it.

        Raises:
            MachineNotFound: it is gone, or never was, or is another cluster's.
            Throttled, CloudUnreachable: call again.
        """
        ...

    async def list(self) -> tuple[Machine, ...]:
        """
        Return every machine of this cluster, with those marked that are being terminated.

        A machine is in the list from the moment that its launch returned.

        Raises:
            Throttled, CloudUnreachable: call again. An incomplete list is never returned.
        """
        ...

    async def catalog(self, pool: NodePool) -> Catalog:
        """
        Return all instance types of a NodePool, with offerings marked that are not available.

        The same value is returned as long as nothing has changed, so that callers can tell.

        Raises:
            NodeClassNotReady: the instance types depend on a class that is missing or not ready.
            Throttled, CloudUnreachable: call again.
        """
        ...

    async def drift(self, claim: NodeClaim) -> str:
        """
        Return in one word, such as ``ImageDrift``, why a machine does not match its node class any more.

        Empty when it matches. Drift from the NodePool is decided elsewhere.

        Raises:
            MachineNotFound: the machine is gone.
            Throttled, CloudUnreachable: call again.
        """
        ...


class Interruption(msgspec.Struct, frozen=True, kw_only=True):
    """A message that the cloud will take a machine away, or may do so soon."""

    provider_id: ProviderId
    """Empty where the provider knows of no claim with this machine, yet or at all."""

    kind: str
    """In snake case, such as ``spot_interrupted``: the reason of the metric and in the event."""

    id: str
    """Different for different messages about one machine."""

    at: datetime
    """When the cloud sent it."""

    drains: bool = True
    """Whether the claim is deleted, so that its pods move in time; False is for information only."""

    forceful: bool = False
    """Whether there is no time to drain."""


# isinstance checks that the members exist, not their signatures: a provider has no base class.
@runtime_checkable
class Interruptible(Protocol):
    """A provider that hears of interruptions."""

    async def interruptions(self) -> tuple[Interruption, ...]:
        """
        Wait for interruptions, and return them.

        An interruption that is not acknowledged is returned again after a while, also after a restart.

        Raises:
            Throttled, CloudUnreachable: call again.
        """
        ...

    async def acknowledge(self, interruption: Interruption) -> None:
        """Note that an interruption was acted on, so that it is not returned again."""
        ...


class Hold(msgspec.Struct, frozen=True, kw_only=True):
    """Why a node may not be registered yet."""

    because: str
    look_again: float = 5.0
    """Seconds until the provider is asked again."""


@runtime_checkable
class HoldsRegistration(Protocol):
    """A provider that has something to finish before a node may be used."""

    async def registration_holds(self, claim: NodeClaim, node: Node) -> tuple[Hold, ...]:
        """Return what is missing before the node may be registered; empty when nothing is."""
        ...


R = TypeVar("R", bound=Resource)


class ClusterObjects(Protocol):
    """
    The objects of the cluster that a provider may read, create or delete.

    Every method may raise :class:`CloudUnreachable` when the API server does not answer; a request that it
    refuses is an error of the provider and propagates.
    """

    async def get(self, kind: type[R], name: str, *, namespace: str = "") -> R | None:
        """Return an object of the whole cluster, or of a namespace; None when there is none."""
        ...

    async def list(self, kind: type[R]) -> tuple[R, ...]: ...

    async def create(self, made: Resource) -> None:
        """Create an object. One of that name that is there already counts as created."""
        ...

    async def delete(self, kind: type[Resource], name: str) -> None:
        """Ask for the deletion of an object. One that is not there counts as deleted."""
        ...


class ProviderSetting(msgspec.Struct, frozen=True):
    """A setting that only one provider has, as flags and documentation show it."""

    name: str
    """The flag, without dashes; in capitals and with underscores, it is the environment variable."""

    default: str
    help: str

    @property
    def variable(self) -> str:
        return self.name.upper().replace("-", "_")

    @property
    def field(self) -> str:
        return self.name.replace("-", "_")

    @property
    def is_switch(self) -> bool:
        """Whether it is true or false, so that its flag needs no value."""
        return self.default in {"true", "false"}


class ProviderContext(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments that a provider is created with."""

    clock: Clock
    chance: Random
    """Seeded in simulations, so that they can be repeated."""

    cluster: str
    """The name of the cluster; clouds tag machines with it."""

    objects: ClusterObjects
    settings: Mapping[str, str] = {}
    """Settings of the provider, by environment variable, such as ``INSTANCE_TYPES_FILE_PATH``."""

    ca_bundle: str | None = None
    """What our own client trusts the API server by, in base64; None where that is not known."""

    version: Callable[[], Awaitable[str]] | None = None
    """Asks the API server for its version, such as ``1.33``; None where it cannot be asked."""

    fence: Fence = OPEN
    """To be checked before each attempt of a call that changes something in the cloud."""


Connect: TypeAlias = Callable[[ProviderContext], AbstractAsyncContextManager[CloudProvider]]
"""
Creates a provider: entered, it is ready to be called; left, it has stopped everything that it runs.

This is what an entry point of the group ``karpenter.providers`` names.
"""


class ControllerContext(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments that the controllers of a provider are created with."""

    view: Callable[[], ClusterView]
    """Returns the current state of the cluster."""

    metrics: Metrics
    """The metrics of the operator, those that the provider has declared among them."""


@runtime_checkable
class SingletonController(Protocol):
    """A controller that runs once in a while, for the whole cluster."""

    @property
    def name(self) -> str: ...

    async def look(self) -> Step:
        """Reconcile once; return effects, and after how many seconds to run again."""
        ...


class ObjectController(Protocol):
    """A controller that reconciles one object at a time, when it changes."""

    @property
    def name(self) -> str: ...

    @property
    def workers(self) -> int:
        """How many objects are reconciled at once."""
        ...

    @property
    def kinds(self) -> tuple[type[Resource | NodeClass], ...]:
        """The kinds of objects whose events `wakes` is called with."""
        ...

    def wakes(self, event: StateEvent, before: Resource | NodeClass | None) -> Iterable[str]:
        """Return the keys of the objects that an event is about."""
        ...

    async def reconcile(self, key: str) -> Step:
        """Reconcile one object; return effects, and after how many seconds to do so again, if at all."""
        ...


ProviderController: TypeAlias = SingletonController | ObjectController


@runtime_checkable
class HasControllers(Protocol):
    """A provider with controllers of its own."""

    @property
    def metrics(self) -> tuple[MetricSpec[Instrument], ...]: ...

    def controllers(self, context: ControllerContext) -> tuple[ProviderController, ...]:
        """Return the controllers, which run while the operator leads; called once, before the first runs."""
        ...
