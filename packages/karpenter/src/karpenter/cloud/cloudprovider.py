"""
What a cloud has to be able to do for us: nine promises.

:class:`CloudProvider` is the seam between the operator and any cloud. A provider turns claims into machines,
says which machines there are, and what can be bought; it decides nothing else. It knows claims and pools as
values; what it needs of Kubernetes beyond that comes in through :mod:`.surroundings`.

Two seams are optional. A provider that hears of interruptions before they happen is :class:`Interruptible`;
one that has to finish something before a node may be used is a :class:`HoldsRegistration`. The operator asks
with ``isinstance``.

Errors are in :mod:`.errors`. ``karpenter_local.testing.provider_contract`` holds the promises as tests, and
docs/guides/write-a-provider.md shows how to keep them.

What a provider finds around it: a clock, chance, the cluster's name, settings, and a door to Kubernetes.

The door is narrow on purpose. A provider reads node classes, and a cloud that makes its own nodes, as kwok
does, creates and deletes those. The operator wires it to its client; tests wire it to a dictionary.

What a provider has to do for a cluster beyond keeping its promises, as work that the operator runs for it.

A cloud has duties of its own: to say in a node class what it selects, to tag, to take away what nobody needs
any longer. A provider that :class:`HasChores` hands them to the operator, which runs them while it leads.

A chore changes nothing in Kubernetes by itself: it returns a :class:`~karpenter.core.effects.Step`, effects
and when to look again, which is carried out as every other decision is. What it does in its cloud is its own
business. An error of a provider means that it is tried again, later each time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar, runtime_checkable

import msgspec

from karpenter.api.labels import node_class_label
from karpenter.api.meta import Resource
from karpenter.base.clock import Clock
from karpenter.core.model.resources import Resources
from karpenter.core.state.view import ClusterView
from karpenter.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karpenter.api.node import Node
    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.api.nodepool import NodePool
    from karpenter.core.effects import Step
    from karpenter.core.model.catalog import Catalog
    from karpenter.core.state.cluster import Event
    from karpenter.core.state.view import NodeClass
    from karpenter.telemetry.metrics import Declared
    from karpenter.telemetry.metrics.store import Instrument


ProviderId: TypeAlias = str
"""What a cloud calls a machine, as ``spec.providerID`` of its node spells it, such as ``kwok://node-1``."""


class NodeClassKind(msgspec.Struct, frozen=True):
    """A kind of node class that a provider understands."""

    group: str
    kind: str

    @property
    def label(self) -> str:
        """The label by which claims and nodes name their class of this kind."""
        return node_class_label(self.group, self.kind)


class RepairPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """A condition of a node that means that it is broken, when it lasts."""

    condition_type: str
    condition_status: str
    toleration: timedelta
    """How long the condition is put up with."""


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """What runs in the cloud, as the provider reports it."""

    provider_id: ProviderId
    claim_uid: str = ""
    """The claim that it was launched for; empty if the cloud cannot tell."""

    labels: Mapping[str, str] = {}
    """What its node will be labelled with: at least instance type, zone, capacity type, arch and os."""

    annotations: Mapping[str, str] = {}
    capacity: Resources = {}
    allocatable: Resources = {}
    image_id: str = ""
    created: datetime | None = None
    deleting: bool = False
    """Whether it is on its way out; it is then still there, and still costs."""


class CloudProvider(Protocol):
    """Turns claims into machines."""

    @property
    def name(self) -> str:
        """One word, such as ``kwok``: the label of metrics, and the name in the registry."""
        ...

    @property
    def node_classes(self) -> tuple[NodeClassKind, ...]:
        """The kinds of node class that it understands, the usual one first; others are left alone."""
        ...

    @property
    def repair_policies(self) -> tuple[RepairPolicy, ...]:
        """Which conditions of a node mean that its machine should be replaced; may be empty."""
        ...

    async def launch(self, claim: NodeClaim) -> Machine:
        """
        Start one machine for a claim: one that satisfies its requirements and holds its requests, for little.

        Idempotent per claim uid, also across restarts of ours: as long as a machine of that uid exists, it is
        the answer and nothing is started. So whoever lost an answer asks again.

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
        Begin the end of a machine. Harmless when it has begun; returns before the machine is gone.

        Raises:
            MachineNotFound: it is gone. Callers ask until they are told so.
            Throttled, CloudUnreachable: ask again.
        """
        ...

    async def get(self, provider_id: ProviderId) -> Machine:
        """
        Return a machine as it is now, not as a cache remembers it.

        Raises:
            MachineNotFound: it is gone, or never was, or is another cluster's.
            Throttled, CloudUnreachable: ask again.
        """
        ...

    async def list(self) -> tuple[Machine, ...]:
        """
        Return every machine of this cluster, those on their way out included and marked.

        A machine is in the list from the moment that its launch is answered.

        Raises:
            Throttled, CloudUnreachable: ask again. Half a list is never returned.
        """
        ...

    async def catalog(self, pool: NodePool) -> Catalog:
        """
        Return everything that a pool may buy, what is sold out included and marked as not available.

        The same value comes back as long as nothing has changed, so that whoever computes from it can tell.

        Raises:
            NodeClassNotReady: what can be bought depends on a class that is missing or not ready.
            Throttled, CloudUnreachable: ask again.
        """
        ...

    async def drift(self, claim: NodeClaim) -> str:
        """
        Return in one word, such as ``ImageDrift``, why a launched machine is not what its class asks for now.

        Empty when it is. The pool's own requirements are not the provider's business.

        Raises:
            MachineNotFound: the machine is gone.
            Throttled, CloudUnreachable: ask again.
        """
        ...


class Interruption(msgspec.Struct, frozen=True, kw_only=True):
    """News of a machine that the cloud will take away, or would rather have back."""

    provider_id: ProviderId
    kind: str
    """In snake case, such as ``spot_interrupted``: the reason of the metric and in the event."""

    id: str
    """Tells two news of one machine apart."""

    at: datetime
    """When the cloud told."""

    drains: bool = True
    """Whether the claim is to be deleted, so that its pods move in time; False is for information only."""

    forceful: bool = False
    """Whether there is no time to drain."""


@runtime_checkable
class Interruptible(Protocol):
    """A provider that hears of interruptions."""

    async def interruptions(self) -> tuple[Interruption, ...]:
        """
        Wait for news, and return them.

        What is not acknowledged is told again after a while, also to whoever comes after a restart.

        Raises:
            Throttled, CloudUnreachable: ask again.
        """
        ...

    async def acknowledge(self, interruption: Interruption) -> None:
        """Say that news were acted on and need not be told again."""
        ...


class Hold(msgspec.Struct, frozen=True, kw_only=True):
    """Why a node may not be used yet."""

    because: str
    look_again: float = 5.0
    """Seconds until it is worth asking again."""


@runtime_checkable
class HoldsRegistration(Protocol):
    """A provider that has something to do before a node may be used."""

    async def registration_holds(self, claim: NodeClaim, node: Node) -> tuple[Hold, ...]:
        """Return what is missing before pods may come to the node; empty when nothing is."""
        ...


R = TypeVar("R", bound=Resource)


class ClusterObjects(Protocol):
    """
    The objects of the cluster that a provider may look at or make.

    Every method may raise :class:`CloudUnreachable` when the API server does not answer; what it refuses for
    good is an error of the provider and propagates.
    """

    async def get(self, kind: type[R], name: str, *, namespace: str = "") -> R | None:
        """Return an object of the whole cluster, or of a namespace; None when there is none."""
        ...

    async def list(self, kind: type[R]) -> tuple[R, ...]:
        """Return all objects of a kind."""
        ...

    async def create(self, made: Resource) -> None:
        """Create an object. One of that name that is there already counts as created."""
        ...

    async def delete(self, kind: type[Resource], name: str) -> None:
        """Ask for the deletion of an object. One that is not there counts as deleted."""
        ...


class Knob(msgspec.Struct, frozen=True):
    """A setting that only one provider has, as commands and documentation show it."""

    name: str
    """The flag, without dashes; in capitals and with underscores, it is the environment variable."""

    default: str
    help: str

    @property
    def variable(self) -> str:
        """The environment variable."""
        return self.name.upper().replace("-", "_")

    @property
    def field(self) -> str:
        """The name in code."""
        return self.name.replace("-", "_")

    @property
    def is_switch(self) -> bool:
        """Whether it is true or false, so that its flag needs no value."""
        return self.default in {"true", "false"}


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a provider is given."""

    clock: Clock
    chance: Random
    """Seeded by whoever wants the same history twice."""

    cluster: str
    """Whose machines these are; clouds tag them with it."""

    objects: ClusterObjects
    settings: Mapping[str, str] = {}
    """Settings of the provider's own, by environment variable, such as ``INSTANCE_TYPES_FILE_PATH``."""

    ca_bundle: str | None = None
    """What our own client trusts the API server by, in base64; None where that is not known."""

    version: Callable[[], Awaitable[str]] | None = None
    """Asks the API server for its version, such as ``1.33``; None where nobody can."""


Connect: TypeAlias = Callable[[Surroundings], AbstractAsyncContextManager[CloudProvider]]
"""
How a provider begins: entered, it is ready to be asked; left, it has stopped whatever it runs.

This is what an entry point of the group ``karpenter.providers`` names.
"""


class Office(msgspec.Struct, frozen=True, kw_only=True):
    """What chores find when they begin."""

    view: Callable[[], ClusterView]
    """What is known of the cluster at the moment of asking."""

    metrics: Metrics
    """Instruments, those that the provider has declared among them."""


@runtime_checkable
class Chore(Protocol):
    """Something that is done once in a while."""

    @property
    def name(self) -> str:
        """What logs call it."""
        ...

    async def look(self) -> Step:
        """Go over everything once; return what is due, and after how many seconds to look again."""
        ...


class Care(Protocol):
    """Something that is done for one object at a time, when it changes."""

    @property
    def name(self) -> str:
        """What logs call it."""
        ...

    @property
    def workers(self) -> int:
        """How many objects are looked at at once."""
        ...

    def wakes(self, event: Event, before: Resource | NodeClass | None) -> Iterable[str]:
        """Return the keys of the objects that an event is about."""
        ...

    async def reconcile(self, key: str) -> Step:
        """Look at one object; return what is due, and after how many seconds to look again, if at all."""
        ...


Duty: TypeAlias = Chore | Care


@runtime_checkable
class HasChores(Protocol):
    """A provider with duties of its own."""

    @property
    def metrics(self) -> tuple[Declared[Instrument], ...]:
        """The metrics that only this provider has."""
        ...

    def chores(self, office: Office) -> tuple[Duty, ...]:
        """Return what has to be done while the operator leads; asked once, before anything is done."""
        ...
