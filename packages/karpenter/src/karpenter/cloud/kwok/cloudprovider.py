"""
The CloudProvider of the cloud in memory.

:class:`KwokProvider` caches nothing but which offerings had no capacity lately: what must survive a restart
is in the cloud, or in Kubernetes. :func:`connect` creates a cloud for one operator; since that dies with its
process, :func:`restore` reads the machines back from the NodeClaims and Nodes of the cluster. Tests, demos
and simulations whose cloud outlives the operator create the parts themselves.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Final, NoReturn, Protocol, TypeVar

from karpenter.api.kwoknodeclass import KWOKNodeClass
from karpenter.api.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from karpenter.api.node import Node
from karpenter.api.nodeclaim import NodeClaim
from karpenter.base.duration import DurationError, parse_duration
from karpenter.base.quantity import QuantityError
from karpenter.cloud.catalogs.load import KWOK, load_catalog
from karpenter.cloud.cloudprovider import (
    ClusterObjects,
    Interruption,
    Machine,
    NodeClassKind,
    ProviderContext,
    RepairPolicy,
)
from karpenter.cloud.errors import (
    CloudError,
    CloudUnreachable,
    InsufficientCapacity,
    LaunchFailed,
    LaunchRefused,
    NodeClassNotReady,
)
from karpenter.cloud.kwok.cloud import SCHEME, Behaviour, KwokCloud, KwokInstance, node_of
from karpenter.cloud.kwok.faults import Fail, Fault, Hang, LoseResponse, NeverJoin, ProviderCall, Slow
from karpenter.cloud.offerings import InsufficientCapacityCache, mark_unavailable
from karpenter.core.model.catalog import Catalog, Choice, OfferingName, choices
from karpenter.core.model.requirement import RequirementError
from karpenter.core.model.resources import parse_resources

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping

    from karpenter.api.nodepool import NodePool


T = TypeVar("T")

NODE_CLASS: Final = NodeClassKind(KWOKNodeClass.api_version.partition("/")[0], KWOKNodeClass.kind)
REPAIRS: Final = tuple(
    RepairPolicy(condition_type="Ready", condition_status=status, toleration=timedelta(minutes=10))
    for status in ("False", "Unknown")
)


class KwokProvider:
    """Launches, finds and terminates the machines of one cluster."""

    name: str = "kwok"
    node_classes = (NODE_CLASS,)
    repair_policies = REPAIRS

    def __init__(self, cloud: KwokCloud, *, classes: NodeClassReader, cluster: str) -> None:
        self.cloud = cloud
        self._classes = classes
        self._cluster = cluster
        self._unavailable = InsufficientCapacityCache(
            monotonic=cloud.clock.monotonic, ttl=cloud.behaviour.sold_out_for
        )
        self._returned: tuple[Catalog, frozenset[OfferingName], Catalog] | None = None

    async def launch(self, claim: NodeClaim) -> Machine:
        """Launch the cheapest machine that satisfies a claim, or return the one that the claim has."""
        ready = await self._class_of(claim)
        seconds = self.cloud.behaviour.launch
        return await self._call(
            "launch", claim.name, lambda fault: self._launch(claim, ready, fault), seconds
        )

    async def terminate(self, provider_id: str) -> None:
        await self._call(
            "terminate",
            provider_id,
            lambda _: self.cloud.terminate(self.cloud.find(provider_id, cluster=self._cluster)),
        )

    async def get(self, provider_id: str) -> Machine:
        return await self._call(
            "get", provider_id, lambda _: self.cloud.find(provider_id, cluster=self._cluster).machine
        )

    async def list(self) -> tuple[Machine, ...]:
        return await self._call("list", "", lambda _: self.cloud.control.machines(self._cluster))

    async def catalog(self, pool: NodePool) -> Catalog:
        """Return the catalogue, with offerings marked that had no capacity lately."""
        return await self._call("catalog", pool.name, lambda _: self._catalog())

    async def drift(self, claim: NodeClaim) -> str:
        """Return the reason for drift that :class:`KwokControl` has set, if any."""
        provider_id = claim.status.provider_id
        return await self._call(
            "drift", provider_id, lambda _: self.cloud.find(provider_id, cluster=self._cluster).drift
        )

    async def interruptions(self) -> tuple[Interruption, ...]:
        while True:
            found = await self._call("interruptions", "", lambda _: self.cloud.queue.take(self._cluster))
            if found:
                return found
            await self.cloud.queue.wait(self._cluster)

    async def acknowledge(self, interruption: Interruption) -> None:
        """Delete an interruption that was acted on."""
        self.cloud.queue.acknowledge(interruption)

    def _launch(self, claim: NodeClaim, ready: timedelta | CloudError, fault: Fault | None) -> Machine:
        existing = self.cloud.of_claim(self._cluster, claim.metadata.uid)
        if existing is not None:
            return existing.machine
        if isinstance(ready, CloudError):
            raise ready
        compatible = self._choices(claim)
        skipped = self._unavailable.now()
        try:
            launched = self.cloud.launch(
                self._cluster,
                claim,
                [choice for choice in compatible if choice.name not in skipped],
                joins_after=None if isinstance(fault, NeverJoin) else ready.total_seconds(),
            )
        except InsufficientCapacity as error:
            self._unavailable.remember(error.offerings)
            raise InsufficientCapacity(offerings=[choice.name for choice in compatible]) from None
        self._unavailable.remember(launched.unavailable)
        return launched.machine

    def _choices(self, claim: NodeClaim) -> tuple[Choice, ...]:
        try:
            return choices(self.cloud.inventory.catalog(), claim, self.cloud.chance.shuffle)
        except (RequirementError, QuantityError) as error:
            raise LaunchRefused(reason="InvalidClaim", message=str(error)) from error

    async def _class_of(self, claim: NodeClaim) -> timedelta | CloudError:
        """Return the nodeRegistrationDelay of the claim's class, or why the class cannot launch."""
        name = claim.spec.node_class_ref.name
        try:
            found = await self._classes.node_class(name)
        except CloudUnreachable as error:
            return LaunchFailed(f"node class {name} cannot be read: {error}")
        if found is None or found.metadata.deletion_timestamp is not None:
            return InsufficientCapacity(because=f"node class {name} does not exist")
        condition = next((each for each in found.status.conditions if each.type == "Ready"), None)
        if condition is None or condition.status == "Unknown":
            return LaunchRefused(
                reason="NodeClassReadinessUnknown",
                message=f"node class {name} does not say yet if it is ready",
            )
        if condition.status != "True":
            return NodeClassNotReady(node_class=name, because=condition.message or condition.reason)
        try:
            return parse_duration(found.spec.node_registration_delay or "0s")
        except DurationError as error:
            return NodeClassNotReady(node_class=name, because=f"nodeRegistrationDelay: {error}")

    def _catalog(self) -> Catalog:
        sold, skipped = self.cloud.inventory.catalog(), self._unavailable.now()
        if self._returned is None or self._returned[0] is not sold or self._returned[1] != skipped:
            self._returned = (sold, skipped, mark_unavailable(sold, skipped))
        return self._returned[2]

    async def _call(
        self, method: str, subject: str, act: Callable[[Fault | None], T], seconds: float | None = None
    ) -> T:
        """Carry out a call halfway through the time that it takes, or apply its fault."""
        seconds = self.cloud.behaviour.call if seconds is None else seconds
        # The fault is chosen when the call begins, so that concurrent calls keep the order of the script.
        fault = self.cloud.faults.pick(ProviderCall(method=method, subject=subject, cluster=self._cluster))
        await self.cloud.pass_time(seconds / 2)
        match fault:
            case Fail(error):
                # It may be raised many times, and would keep the frames of each, and what these hold.
                raise error.with_traceback(None)
            case Hang():
                await _never()
            case Slow(more):
                await self.cloud.clock.sleep(more)
        result = act(fault)
        await self.cloud.pass_time(seconds / 2)
        if isinstance(fault, LoseResponse):
            if fault.hangs:
                await _never()
            lost = LaunchFailed if method == "launch" else CloudUnreachable
            raise lost("the answer of the cloud was lost")
        return result


async def _never() -> NoReturn:
    await asyncio.Future[None]()
    raise AssertionError("this wait does not end")


def restore(cloud: KwokCloud, cluster: str, claims: Iterable[NodeClaim], nodes: Iterable[Node]) -> None:
    """
    Add the machines that the claims and nodes of a cluster name.

    A machine whose node was not registered yet registers now; one whose registered node is gone is gone, too.
    """
    by_id = {node.spec.provider_id: node for node in nodes if node.spec.provider_id.startswith(SCHEME)}
    for claim in claims:
        if not claim.status.provider_id.startswith(SCHEME):
            continue
        node = by_id.pop(claim.status.provider_id, None)
        if node is not None:
            _add(cloud, cluster, _machine_of_claim(claim), node)
        elif not _was_registered(claim):
            machine = _machine_of_claim(claim)
            _add(cloud, cluster, machine, node_of(machine, claim, _price(cloud, machine)), joins_after=0.0)
    for node in by_id.values():
        _add(cloud, cluster, _machine_of_node(node), node)


def _add(
    cloud: KwokCloud, cluster: str, machine: Machine, node: Node, *, joins_after: float | None = None
) -> None:
    reservation = machine.labels.get(cloud.inventory.catalog().reservation_label, "")
    instance = KwokInstance(machine=machine, cluster=cluster, node=node, reservation=reservation)
    cloud.add(instance, joins_after=joins_after)


def _machine_of_claim(claim: NodeClaim) -> Machine:
    return Machine(
        provider_id=claim.status.provider_id,
        claim_uid=claim.metadata.uid,
        labels=claim.metadata.labels,
        capacity=parse_resources(claim.status.capacity),
        allocatable=parse_resources(claim.status.allocatable),
        image_id=claim.status.image_id,
        created=claim.metadata.creation_timestamp,
    )


def _machine_of_node(node: Node) -> Machine:
    owners = [owner.uid for owner in node.metadata.owner_references if owner.kind == "NodeClaim"]
    return Machine(
        provider_id=node.spec.provider_id,
        claim_uid=owners[0] if owners else "",
        labels=node.metadata.labels,
        capacity=parse_resources(node.status.capacity),
        allocatable=parse_resources(node.status.allocatable),
        created=node.metadata.creation_timestamp,
    )


def _price(cloud: KwokCloud, machine: Machine) -> float:
    """Return the price of a machine; zero if its offering does not exist any longer."""
    kind = cloud.inventory.catalog().by_name.get(machine.labels.get(INSTANCE_TYPE, ""))
    offered = (machine.labels.get(ZONE), machine.labels.get(CAPACITY_TYPE))
    sold = kind.offerings if kind else ()
    return next((each.price for each in sold if (each.zone, each.capacity_type) == offered), 0.0)


def _was_registered(claim: NodeClaim) -> bool:
    return any(each.type == "Registered" and each.status == "True" for each in claim.status.conditions)


class NodeMaker(Protocol):
    """Creates and deletes Nodes. An error that it raises is retried."""

    async def create_node(self, node: Node) -> None:
        """Create the Node of a machine. One of that name that is there already counts as created."""
        ...

    async def delete_node(self, name: str) -> None:
        """Ask for the deletion of a Node whose machine is gone. One that is not there counts as deleted."""
        ...


class NodeClassReader(Protocol):
    """Reads node classes."""

    async def node_class(self, name: str) -> KWOKNodeClass | None: ...


class ObjectNodes:
    """A NodeMaker on the cluster's objects."""

    def __init__(self, objects: ClusterObjects) -> None:
        self._objects = objects

    async def create_node(self, node: Node) -> None:
        await self._objects.create(node)

    async def delete_node(self, name: str) -> None:
        await self._objects.delete(Node, name)


class ObjectClasses:
    """A NodeClassReader on the cluster's objects."""

    def __init__(self, objects: ClusterObjects) -> None:
        self._objects = objects
        self._reads: dict[str, asyncio.Task[KWOKNodeClass | None]] = {}

    async def node_class(self, name: str) -> KWOKNodeClass | None:
        """Return a class as it is now; launches at the same time read it once."""
        read = self._reads.get(name)
        if read is None:
            read = self._reads[name] = asyncio.create_task(self._objects.get(KWOKNodeClass, name))
            read.add_done_callback(lambda _: self._reads.pop(name))
        return await asyncio.shield(read)


# The settings of upstream's kwok provider:
# https://github.com/kubernetes-sigs/karpenter/tree/v1.14.1/kwok
CATALOG: Final = "INSTANCE_TYPES_FILE_PATH"
"""The setting that names the catalogue: a file, or a built-in one."""

DEFAULT_CLUSTER: Final = "default"
"""The name of a cluster that has none."""

LATENCIES: Final = {"launch": "KWOK_LAUNCH_LATENCY", "shutdown": "KWOK_SHUTDOWN_LATENCY"}
"""Settings of latencies, such as ``1s``."""


class BadKwokSetting(ValueError):  # noqa: N818  says what is wrong
    """A setting of the provider cannot be used."""


@asynccontextmanager
async def connect(context: ProviderContext) -> AsyncIterator[KwokProvider]:
    """
    Create a cloud in memory for one cluster.

    Raises:
        InvalidCatalog: the catalogue cannot be read.
        BadKwokSetting: a latency is not a duration.
        CloudUnreachable: the cluster cannot be asked for its machines.
    """
    cloud = KwokCloud(
        load_catalog(context.settings.get(CATALOG) or KWOK),
        nodes=ObjectNodes(context.objects),
        clock=context.clock,
        chance=context.chance,
        behaviour=_behaviour(context.settings),
    )
    cluster = context.cluster or DEFAULT_CLUSTER
    restore(cloud, cluster, await context.objects.list(NodeClaim), await context.objects.list(Node))
    try:
        yield KwokProvider(cloud, classes=ObjectClasses(context.objects), cluster=cluster)
    finally:
        await cloud.close()


def _behaviour(settings: Mapping[str, str]) -> Behaviour:
    seconds = {}
    for field, setting in LATENCIES.items():
        try:
            seconds[field] = parse_duration(settings.get(setting) or "0s").total_seconds()
        except DurationError as error:
            raise BadKwokSetting(f"setting {setting}: {error}") from None
    return Behaviour(**seconds)
