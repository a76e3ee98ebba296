"""
The cloud in memory: its machines, its offerings, and the nodes that its machines become.

Providers of several clusters act on one cloud through synchronous methods; what takes time, such as a machine
becoming a node, the cloud does by itself. It outlives the operators that use it.

:class:`OfferingInventory` says which offerings have capacity, :class:`KwokInterruptionQueue` keeps
interruptions until they are acknowledged, and :class:`KwokControl` lets tests and simulations cause faults:

    control.sell_out(zone="test-zone-a")            # launches there fail, until restock()
    control.next("launch", LoseResponse())          # the machine is launched, the response never comes
    control.interrupt(provider_id)                  # announced now, the machine is gone two minutes later
    control.kill(provider_id)                       # gone, without an interruption
    control.drift(provider_id, "ImageDrift")        # does not match its node class any longer
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import msgspec
import structlog

from karpenter.api.labels import HOSTNAME, NO_EXECUTE, UNREGISTERED
from karpenter.api.meta import ObjectMeta
from karpenter.api.node import Node, NodeSpec, NodeStatus, Taint
from karpenter.base.queue import Backoff
from karpenter.base.ratelimiting import LeaseNotHeld
from karpenter.cloud.cloudprovider import Interruption, Machine
from karpenter.cloud.errors import InsufficientCapacity, MachineNotFound
from karpenter.cloud.kwok.faults import Fault, FaultScript, Rule
from karpenter.core.model.catalog import Catalog, Choice, InstanceType, Offering, OfferingName, labels_of
from karpenter.core.model.resources import render_resources

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
    from random import Random

    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.base.clock import Clock
    from karpenter.cloud.kwok.cloudprovider import NodeMaker

log = structlog.stdlib.get_logger(__name__)

SCHEME: Final = "kwok://"
"""The prefix of the provider ids of this cloud; the rest is the name of the node."""

FAKE_NODE: Final = "kwok.x-k8s.io/node"
"""The label and annotation of nodes that the kwok controller keeps ready: https://kwok.sigs.k8s.io/"""

# The annotation by which eks-node-viewer shows prices:
# https://github.com/awslabs/eks-node-viewer
PRICE: Final = "eks-node-viewer/instance-price"
PARTITION: Final = "kwok-partition"

# Names of Nodes are DNS subdomains:
# https://kubernetes.io/docs/concepts/overview/working-with-objects/names/#dns-subdomain-names
_LONGEST_NAME: Final = 253
_LETTERS: Final = "bcdfghjklmnpqrstvwxz"

NOTICED_SECONDS: float = 60.0
"""Seconds until the Node of a machine is deleted that was killed."""

RETRIES: Final = Backoff(first=0.5, cap=30.0, jitter=0.2)
"""The waits between attempts to create or delete a Node."""


class Behaviour(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds that operations of the cloud take."""

    launch: float = 0.0
    """From the request for a machine to the answer."""

    call: float = 0.0
    """From any other request to its answer."""

    shutdown: float = 0.0
    """From the termination of a machine until it is gone."""

    jitter: float = 0.0
    """By what share each of these may be shorter or longer, at random."""

    notice: float = 120.0
    """From the announcement of an interruption until the machine is gone."""

    visibility_timeout: float = 20.0
    """From returning an interruption until it is returned again, if it is not acknowledged."""

    sold_out_for: float = 180.0
    """How long the provider skips an offering without capacity."""


NOW: Final = Behaviour()


class KwokInstance(msgspec.Struct, kw_only=True):
    """A machine, and what the cloud knows about it."""

    machine: Machine
    cluster: str
    node: Node

    reservation: str = ""
    drift: str = ""


class LaunchResult(msgspec.Struct, frozen=True):
    """A launched machine, and the offerings without capacity that were tried before."""

    machine: Machine
    unavailable: tuple[OfferingName, ...]


class KwokCloud:
    """A cloud in memory."""

    def __init__(
        self,
        catalog: Catalog,
        *,
        nodes: NodeMaker,
        clock: Clock,
        chance: Random,
        behaviour: Behaviour = NOW,
    ) -> None:
        self.clock = clock
        self.chance = chance
        self.behaviour = behaviour
        self.inventory = OfferingInventory(catalog)
        self.faults = FaultScript()
        self.queue = KwokInterruptionQueue(clock, visibility_timeout=behaviour.visibility_timeout)
        self.control = KwokControl(self)
        self._nodes = nodes
        self._instances: dict[str, KwokInstance] = {}
        self._by_claim: dict[tuple[str, str], str] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._announced = 0

    def __iter__(self) -> Iterator[KwokInstance]:
        return iter(tuple(self._instances.values()))

    async def pass_time(self, seconds: float) -> None:
        """Wait for so many seconds, with jitter."""
        jitter = self.behaviour.jitter
        share = 1 + self.chance.uniform(-jitter, jitter) if jitter else 1.0
        await self.clock.sleep(seconds * share)

    def find(self, provider_id: str, *, cluster: str | None = None) -> KwokInstance:
        """
        Return an instance, if it is that cluster's.

        Raises:
            MachineNotFound: there is none.
        """
        found = self._instances.get(provider_id)
        if found is None or cluster not in {None, found.cluster}:
            raise MachineNotFound(provider_id)
        return found

    def of_claim(self, cluster: str, uid: str) -> KwokInstance | None:
        provider_id = self._by_claim.get((cluster, uid))
        return self._instances[provider_id] if provider_id else None

    def launch(
        self, cluster: str, claim: NodeClaim, choices: Iterable[Choice], *, joins_after: float | None
    ) -> LaunchResult:
        """
        Launch the first of the `choices` that has capacity; its node registers after a while, or never.

        Raises:
            InsufficientCapacity: naming all of them.
        """
        unavailable: list[OfferingName] = []
        for choice in choices:
            if self.inventory.has(choice):
                instance = self._instance(cluster, claim, choice)
                self.add(instance, joins_after=joins_after)
                return LaunchResult(instance.machine, tuple(unavailable))
            unavailable.append(choice.name)
        raise InsufficientCapacity(offerings=unavailable)

    def add(self, instance: KwokInstance, *, joins_after: float | None = None) -> None:
        """Add an instance; with `joins_after`, its node registers after so many seconds."""
        machine = instance.machine
        self._instances[machine.provider_id] = instance
        if machine.claim_uid:
            self._by_claim[instance.cluster, machine.claim_uid] = machine.provider_id
        self.inventory.take(instance.reservation)
        if joins_after is not None:
            self._spawn(self._join(instance, joins_after))

    def terminate(self, instance: KwokInstance) -> None:
        """Terminate an instance, unless it is being terminated."""
        if instance.machine.deleting:
            return
        instance.machine = msgspec.structs.replace(instance.machine, deleting=True)
        if self.behaviour.shutdown:
            self._spawn(self._remove_later(instance, self.behaviour.shutdown))
        else:
            self.remove(instance)

    def remove(self, instance: KwokInstance, *, noticed_after: float = 0.0) -> None:
        """Remove an instance; its node is deleted after a while."""
        machine = instance.machine
        if self._instances.pop(machine.provider_id, None) is None:
            return
        self._by_claim.pop((instance.cluster, machine.claim_uid), None)
        self.inventory.give_back(instance.reservation)
        self._spawn(self._leave(instance, noticed_after))

    def announce(
        self, instance: KwokInstance, kind: str, *, taken_after: float | None, drains: bool = True
    ) -> None:
        """Announce an interruption, and remove the machine after so many seconds."""
        self._announced += 1
        interruption = Interruption(
            provider_id=instance.machine.provider_id,
            kind=kind,
            id=f"interruption-{self._announced}",
            at=self.clock.now(),
            drains=drains,
        )
        self.queue.put(instance.cluster, interruption)
        if taken_after is not None:
            self._spawn(self._remove_later(instance, taken_after))

    async def close(self) -> None:
        """Cancel everything that runs. Machines stay as they are."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _instance(self, cluster: str, claim: NodeClaim, choice: Choice) -> KwokInstance:
        machine = Machine(
            provider_id=SCHEME + node_name(claim.name, self.chance),
            claim_uid=claim.metadata.uid,
            labels=labels_of(choice, claim),
            capacity=choice.kind.capacity,
            allocatable=choice.kind.allocatable,
            created=self.clock.now(),
        )
        log.debug("machine.launched", machine=machine.provider_id, offering=str(choice.name), cluster=cluster)
        return KwokInstance(
            machine=machine,
            cluster=cluster,
            node=node_of(machine, claim, choice.offering.price),
            reservation=choice.offering.reservation_id,
        )

    async def _join(self, instance: KwokInstance, seconds: float) -> None:
        await self.clock.sleep(seconds)
        # The API server may be down while a machine joins; a kubelet would retry, too.
        await self._retry(
            lambda: self._nodes.create_node(instance.node),
            action="create",
            node=instance.node.name,
            needed=lambda: self._is_alive(instance),
        )
        if not self._is_alive(instance):  # it was removed while its node was being created
            await self._leave(instance, 0.0)

    async def _leave(self, instance: KwokInstance, seconds: float) -> None:
        await self.clock.sleep(seconds)
        name = instance.node.name
        await self._retry(
            lambda: self._nodes.delete_node(name), action="delete", node=name, needed=lambda: True
        )

    async def _remove_later(self, instance: KwokInstance, seconds: float) -> None:
        await self.pass_time(seconds)
        self.remove(instance)

    def _is_alive(self, instance: KwokInstance) -> bool:
        return instance.machine.provider_id in self._instances

    async def _retry(
        self, act: Callable[[], Awaitable[None]], *, action: str, node: str, needed: Callable[[], bool]
    ) -> None:
        """Call the API server until it succeeds, or until that is not needed any longer."""
        attempts = 0
        while needed():
            try:
                return await act()
            except LeaseNotHeld as error:
                log.warning("node.not_changed", action=action, node=node, error=str(error))
                return None
            except Exception as error:  # noqa: BLE001  any error is retried
                attempts += 1
                log.warning("node.not_changed", action=action, node=node, error=str(error), attempts=attempts)
            await self.clock.sleep(RETRIES.delay(attempts, self.chance))
        return None

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class KwokControl:
    """Causes faults."""

    def __init__(self, cloud: KwokCloud) -> None:
        self._cloud = cloud

    def machines(self, cluster: str | None = None) -> tuple[Machine, ...]:
        """Return the machines that exist, of one cluster or of all, in the order of launch."""
        return tuple(each.machine for each in self._cloud if cluster in {None, each.cluster})

    def sell(self, catalog: Catalog) -> None:
        """Offer another catalogue from now on, such as one with other prices."""
        self._cloud.inventory.sell(catalog)

    def sell_out(self, *, instance_type: str = "", zone: str = "", capacity_type: str = "") -> None:
        """Let launches of the selected offerings fail; an empty field selects all."""
        self._cloud.inventory.sell_out(
            OfferingSelector(instance_type=instance_type, zone=zone, capacity_type=capacity_type)
        )

    def restock(self, *, instance_type: str = "", zone: str = "", capacity_type: str = "") -> None:
        """Undo the sell_out with the same arguments; without arguments, all of them."""
        selector = OfferingSelector(instance_type=instance_type, zone=zone, capacity_type=capacity_type)
        self._cloud.inventory.restock(selector if selector != OfferingSelector() else None)

    def next(self, method: str, *faults: Fault | None) -> None:
        """Set the faults of the next calls of `method`, one each; None is a call without a fault."""
        self._cloud.faults.script(method, *faults)

    def follow(self, rule: Rule | None) -> None:
        """Let a rule choose the fault of each call that has no scripted one."""
        self._cloud.faults.rule = rule

    def interrupt(
        self, provider_id: str, *, kind: str = "spot_interrupted", notice: float | None = None
    ) -> None:
        """
        Announce an interruption, and terminate the machine after the notice.

        Raises:
            MachineNotFound: there is no such machine.
        """
        after = self._cloud.behaviour.notice if notice is None else notice
        self._cloud.announce(self._cloud.find(provider_id), kind, taken_after=after)

    def recommend_rebalance(self, provider_id: str) -> None:
        """
        Announce that a machine may be interrupted some time; nothing follows.

        Raises:
            MachineNotFound: there is no such machine.
        """
        instance = self._cloud.find(provider_id)
        self._cloud.announce(instance, "rebalance_recommendation", taken_after=None, drains=False)

    def kill(self, provider_id: str, *, noticed_after: float = NOTICED_SECONDS) -> None:
        """
        Remove a machine without an interruption; its Node is deleted later.

        Raises:
            MachineNotFound: there is no such machine.
        """
        self._cloud.remove(self._cloud.find(provider_id), noticed_after=noticed_after)

    def drift(self, provider_id: str, reason: str = "ImageDrift") -> None:
        """
        Let a machine drift for a reason; an empty reason ends the drift.

        Raises:
            MachineNotFound: there is no such machine.
        """
        self._cloud.find(provider_id).drift = reason

    def behave(self) -> None:
        """Drop all faults, and give every offering capacity."""
        self._cloud.faults.clear()
        self._cloud.inventory.restock(None)


class OfferingSelector(msgspec.Struct, frozen=True, kw_only=True):
    """Selects offerings by instance type, zone and capacity type; an empty field selects all."""

    instance_type: str = ""
    zone: str = ""
    capacity_type: str = ""

    def selects(self, name: OfferingName) -> bool:
        return (
            self.instance_type in {"", name.instance_type}
            and self.zone in {"", name.zone}
            and self.capacity_type in {"", name.capacity_type}
        )


class OfferingInventory:
    """The offerings, and which of them have capacity."""

    def __init__(self, catalog: Catalog) -> None:
        self._empty: set[OfferingSelector] = set()
        self._used: Counter[str] = Counter()
        self.sell(catalog)

    def sell(self, catalog: Catalog) -> None:
        """Offer another catalogue from now on, such as one with other prices."""
        self._catalog = catalog
        self._current: Catalog | None = None
        self._capacity = {
            each.reservation_id: each.reservation_capacity or 0
            for kind in catalog.types
            for each in kind.offerings
            if each.reservation_id
        }

    def sell_out(self, selector: OfferingSelector) -> None:
        self._empty.add(selector)

    def restock(self, selector: OfferingSelector | None) -> None:
        """Let launches of these offerings succeed again; of all, when no selector is passed."""
        self._empty = {each for each in self._empty if selector is not None and each != selector}

    def has(self, choice: Choice) -> bool:
        if any(selector.selects(choice.name) for selector in self._empty):
            return False
        reservation = choice.offering.reservation_id
        return not reservation or self._left(reservation) > 0

    def take(self, reservation: str) -> None:
        if reservation:
            self._used[reservation] += 1
            self._current = None

    def give_back(self, reservation: str) -> None:
        if reservation:
            self._used[reservation] -= 1
            self._current = None

    def catalog(self) -> Catalog:
        """Return the catalogue, with what is left of reservations; the same value until that changes."""
        if not self._capacity:
            return self._catalog
        if self._current is None:
            types = tuple(self._counted(kind) for kind in self._catalog.types)
            self._current = msgspec.structs.replace(self._catalog, types=types)
        return self._current

    def _counted(self, kind: InstanceType) -> InstanceType:
        if not any(offering.reservation_id for offering in kind.offerings):
            return kind
        offerings = tuple(self._with_count(each) if each.reservation_id else each for each in kind.offerings)
        return msgspec.structs.replace(kind, offerings=offerings)

    def _with_count(self, offering: Offering) -> Offering:
        left = self._left(offering.reservation_id)
        return msgspec.structs.replace(
            offering, reservation_capacity=left, available=offering.available and left > 0
        )

    def _left(self, reservation: str) -> int:
        return max(0, self._capacity.get(reservation, 0) - self._used[reservation])


class _Queued(msgspec.Struct):
    interruption: Interruption
    cluster: str
    hidden_until: float = 0.0


class KwokInterruptionQueue:
    """
    Interruptions by cluster, until they are acknowledged.

    As with SQS, an interruption that is not acknowledged is returned again after a while.
    """

    def __init__(self, clock: Clock, *, visibility_timeout: float) -> None:
        self._clock = clock
        self._visibility_timeout = visibility_timeout
        self._queued: dict[str, _Queued] = {}
        self._changed = asyncio.Event()

    def put(self, cluster: str, interruption: Interruption) -> None:
        self._queued[interruption.id] = _Queued(interruption, cluster)
        self._changed.set()

    def take(self, cluster: str) -> tuple[Interruption, ...]:
        """Return the visible interruptions of a cluster, and hide them for a while."""
        now = self._clock.monotonic()
        visible = [each for each in self._of(cluster) if each.hidden_until <= now]
        for each in visible:
            each.hidden_until = now + self._visibility_timeout
        return tuple(each.interruption for each in visible)

    def acknowledge(self, interruption: Interruption) -> None:
        self._queued.pop(interruption.id, None)

    async def wait(self, cluster: str) -> None:
        self._changed.clear()
        now = self._clock.monotonic()
        soonest = min((each.hidden_until for each in self._of(cluster)), default=None)
        try:
            async with asyncio.timeout(None if soonest is None else max(0.0, soonest - now)):
                await self._changed.wait()
        except TimeoutError:
            return

    def _of(self, cluster: str) -> list[_Queued]:
        return [each for each in self._queued.values() if each.cluster == cluster]


def node_name(claim: str, chance: Random) -> str:
    word = "".join(chance.choices(_LETTERS, k=5))
    end = f"-{word}-{chance.getrandbits(32)}"
    return f"kwok-{claim}"[: _LONGEST_NAME - len(end)] + end


def node_of(machine: Machine, claim: NodeClaim, price: float) -> Node:
    """Return the Node of a machine, as its kubelet registers it: with the unregistered taint."""
    return Node(
        metadata=ObjectMeta(
            name=machine.provider_id.removeprefix(SCHEME),
            labels={
                **machine.labels,
                **claim.metadata.labels,
                HOSTNAME: claim.name,
                FAKE_NODE: "fake",
                PRICE: f"{price:f}",
                PARTITION: "a",
            },
            annotations={**claim.metadata.annotations, FAKE_NODE: "fake"},
        ),
        spec=NodeSpec(provider_id=machine.provider_id, taints=(Taint(key=UNREGISTERED, effect=NO_EXECUTE),)),
        status=NodeStatus(
            capacity={**render_resources(machine.capacity)},
            allocatable={**render_resources(machine.allocatable)},
            phase="Pending",
        ),
    )
