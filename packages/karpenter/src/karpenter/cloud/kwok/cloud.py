"""
The world of the cloud in memory: its machines, what it sells, and what becomes of each machine.

It belongs to nobody's operator. Providers come and go and act on it through a few synchronous methods, each
of which happens at one moment; what takes time afterwards, such as a machine becoming a node, the world
does by itself. Machines of several clusters live in it side by side.

What the cloud has left to sell: all but what was sold out on request, and reservations used up.

How fast the cloud in memory is.

The Node that a machine becomes.

It comes as a kubelet would bring it: with the taint that keeps pods off until the operator has seen it,
with the labels of its machine and of its claim, and with the room of its instance type.

News of interruptions, kept until someone says that they were acted on.

As with a real queue, news that were told and not acknowledged are told again after a while, to whoever asks
then.

The hand of whoever tests, shows or simulates: what the cloud in memory can be made to do.

    control.sell_out(zone="test-zone-a")            # launches there fail, until restock()
    control.next("launch", LoseAnswer())            # the machine is made, the answer never comes
    control.interrupt(provider_id)                  # news now, and the machine is gone two minutes later
    control.kill(provider_id)                       # gone, without a word
    control.drift(provider_id, "ImageDrift")        # not what its class asks for any longer
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Final

import msgspec
import structlog

from karpenter.api.labels import HOSTNAME, NO_EXECUTE, UNREGISTERED
from karpenter.api.meta import ObjectMeta
from karpenter.api.node import Node, NodeSpec, NodeStatus, Taint
from karpenter.base.queue import Backoff
from karpenter.cloud.cloudprovider import Interruption, Machine
from karpenter.cloud.errors import InsufficientCapacity, MachineNotFound
from karpenter.cloud.kwok.faults import FaultScript
from karpenter.cloud.offerings import OfferingName, labels_of
from karpenter.core.model.resources import render_resources

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
    from random import Random
    from typing import Any

    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.base.clock import Clock
    from karpenter.cloud.kwok.cloudprovider import NodeMaker
    from karpenter.cloud.kwok.faults import Fault, Rule
    from karpenter.cloud.offerings import Choice
    from karpenter.core.model.catalog import Catalog, InstanceType, Offering


class Behaviour(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds that things take; all of them none, unless told otherwise."""

    launch: float = 0.0
    """From the request for a machine to the answer."""

    call: float = 0.0
    """From any other request to its answer."""

    shutdown: float = 0.0
    """From the beginning of a machine's end until it is gone."""

    jitter: float = 0.0
    """By what share each of these may be shorter or longer, by chance."""

    notice: float = 120.0
    """From the news of an interruption until the machine is taken away."""

    told_again: float = 20.0
    """From telling news that nobody acknowledges until they are told again."""

    sold_out_for: float = 180.0
    """How long the provider does not try again what was sold out."""


SCHEME: Final = "kwok://"
"""How the provider ids of this cloud begin; the rest is the name of the node."""

FAKE_NODE: Final = "kwok.x-k8s.io/node"
"""Label and annotation by which the kwok controller knows the nodes that it keeps alive."""

PRICE: Final = "eks-node-viewer/instance-price"
PARTITION: Final = "kwok-partition"

_LONGEST_NAME: Final = 253
_LETTERS: Final = "bcdfghjklmnpqrstvwxz"


def node_name(claim: str, chance: Random) -> str:
    """Return a name that no other node has."""
    word = "".join(chance.choices(_LETTERS, k=5))
    end = f"-{word}-{chance.getrandbits(32)}"
    return f"kwok-{claim}"[: _LONGEST_NAME - len(end)] + end


def node_of(machine: Machine, claim: NodeClaim, price: float) -> Node:
    """Return the Node that a machine becomes, as it looks when it joins."""
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


class OfferingSelector(msgspec.Struct, frozen=True, kw_only=True):
    """Some offerings: those of a type, a zone or a capacity type; whatever is left empty does not matter."""

    instance_type: str = ""
    zone: str = ""
    capacity_type: str = ""

    def holds(self, name: OfferingName) -> bool:
        """Say whether an offering is one of these."""
        return (
            self.instance_type in {"", name.instance_type}
            and self.zone in {"", name.zone}
            and self.capacity_type in {"", name.capacity_type}
        )


class OfferingInventory:
    """What is sold, at which price, and how much of it is left."""

    def __init__(self, catalog: Catalog) -> None:
        self._empty: set[OfferingSelector] = set()
        self._used: Counter[str] = Counter()
        self.sell(catalog)

    def sell(self, catalog: Catalog) -> None:
        """Sell something else from now on, such as the same at other prices."""
        self._catalog = catalog
        self._shown: Catalog | None = None
        self._held = {
            each.reservation_id: each.reservation_capacity or 0
            for kind in catalog.types
            for each in kind.offerings
            if each.reservation_id
        }

    def sell_out(self, shelf: OfferingSelector) -> None:
        """Let launches of these offerings fail."""
        self._empty.add(shelf)

    def restock(self, shelf: OfferingSelector | None) -> None:
        """Let launches of these offerings succeed again; of all, when none are named."""
        self._empty = {each for each in self._empty if shelf is not None and each != shelf}

    def has(self, choice: Choice) -> bool:
        """Say whether one more can be had."""
        if any(shelf.holds(choice.name) for shelf in self._empty):
            return False
        reservation = choice.offering.reservation_id
        return not reservation or self._left(reservation) > 0

    def take(self, reservation: str) -> None:
        """Use up one machine of a reservation."""
        if reservation:
            self._used[reservation] += 1
            self._shown = None

    def give_back(self, reservation: str) -> None:
        """Return a machine of a reservation."""
        if reservation:
            self._used[reservation] -= 1
            self._shown = None

    def catalog(self) -> Catalog:
        """Return what is sold, with what is left of reservations; the same value until that changes."""
        if not self._held:
            return self._catalog
        if self._shown is None:
            types = tuple(self._counted(kind) for kind in self._catalog.types)
            self._shown = msgspec.structs.replace(self._catalog, types=types)
        return self._shown

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
        return max(0, self._held.get(reservation, 0) - self._used[reservation])


NOTICED: float = 60.0
"""Seconds after which a cluster notices that a machine is gone."""


class KwokControl:
    """Makes the cloud misbehave."""

    def __init__(self, cloud: KwokCloud) -> None:
        self._cloud = cloud

    def machines(self, cluster: str | None = None) -> tuple[Machine, ...]:
        """Return what really exists, of one cluster or of all, in the order of launch."""
        return tuple(each.machine for each in self._cloud if cluster in {None, each.cluster})

    def sell(self, catalog: Catalog) -> None:
        """Sell something else from now on, such as the same at other prices."""
        self._cloud.stock.sell(catalog)

    def sell_out(self, *, instance_type: str = "", zone: str = "", capacity_type: str = "") -> None:
        """Let launches of these offerings fail; whatever is left empty does not matter."""
        self._cloud.stock.sell_out(
            OfferingSelector(instance_type=instance_type, zone=zone, capacity_type=capacity_type)
        )

    def restock(self, *, instance_type: str = "", zone: str = "", capacity_type: str = "") -> None:
        """Undo the sell_out of the same words; with no words, all of them."""
        shelf = OfferingSelector(instance_type=instance_type, zone=zone, capacity_type=capacity_type)
        self._cloud.stock.restock(shelf if shelf != OfferingSelector() else None)

    def next(self, method: str, *faults: Fault | None) -> None:
        """Let the next calls of `method` go wrong in turn; None is a call that goes well."""
        self._cloud.faults.write(method, *faults)

    def follow(self, rule: Rule | None) -> None:
        """Let a rule decide what goes wrong with each call that no script is written for."""
        self._cloud.faults.rule = rule

    def interrupt(
        self, provider_id: str, *, kind: str = "spot_interrupted", notice: float | None = None
    ) -> None:
        """
        Tell of an interruption, and take the machine away after the notice.

        Raises:
            MachineNotFound: there is no such machine.
        """
        after = self._cloud.behaviour.notice if notice is None else notice
        self._cloud.announce(self._cloud.find(provider_id), kind, taken_after=after)

    def recommend_rebalance(self, provider_id: str) -> None:
        """
        Tell that a machine may be interrupted some time; nothing follows.

        Raises:
            MachineNotFound: there is no such machine.
        """
        instance = self._cloud.find(provider_id)
        self._cloud.announce(instance, "rebalance_recommendation", taken_after=None, drains=False)

    def kill(self, provider_id: str, *, noticed_after: float = NOTICED) -> None:
        """
        Let a machine be gone without a word; its Node goes when the cluster notices.

        Raises:
            MachineNotFound: there is no such machine.
        """
        self._cloud.vanish(self._cloud.find(provider_id), noticed_after=noticed_after)

    def drift(self, provider_id: str, reason: str = "ImageDrift") -> None:
        """
        Let a machine drift for a reason; for none, let it be what its class asks for again.

        Raises:
            MachineNotFound: there is no such machine.
        """
        self._cloud.find(provider_id).drift = reason

    def behave(self) -> None:
        """Let everything go well from now on: faults are forgotten, and everything is in stock."""
        self._cloud.faults.clear()
        self._cloud.stock.restock(None)


class _Letter(msgspec.Struct):
    news: Interruption
    cluster: str
    hidden_until: float = 0.0


class KwokInterruptionQueue:
    """News by cluster."""

    def __init__(self, clock: Clock, *, told_again: float) -> None:
        self._clock = clock
        self._told_again = told_again
        self._letters: dict[str, _Letter] = {}
        self._changed = asyncio.Event()

    def put(self, cluster: str, news: Interruption) -> None:
        """Keep news for a cluster, and wake whoever waits."""
        self._letters[news.id] = _Letter(news, cluster)
        self._changed.set()

    def take(self, cluster: str) -> tuple[Interruption, ...]:
        """Return what can be told to a cluster now, and hide it for a while."""
        now = self._clock.monotonic()
        told = [each for each in self._of(cluster) if each.hidden_until <= now]
        for each in told:
            each.hidden_until = now + self._told_again
        return tuple(each.news for each in told)

    def acknowledge(self, news: Interruption) -> None:
        """Forget news."""
        self._letters.pop(news.id, None)

    async def wait(self, cluster: str) -> None:
        """Wait until there may be something to take."""
        self._changed.clear()
        now = self._clock.monotonic()
        soonest = min((each.hidden_until for each in self._of(cluster)), default=None)
        try:
            async with asyncio.timeout(None if soonest is None else max(0.0, soonest - now)):
                await self._changed.wait()
        except TimeoutError:
            return

    def _of(self, cluster: str) -> list[_Letter]:
        return [each for each in self._letters.values() if each.cluster == cluster]


log = structlog.stdlib.get_logger(__name__)

RETRIES: Final = Backoff(first=0.5, cap=30.0, jitter=0.2)
"""How long the cloud waits before it asks the cluster again."""

NOW: Final = Behaviour()


class KwokInstance(msgspec.Struct, kw_only=True):
    """A machine as its cloud knows it."""

    machine: Machine
    cluster: str
    node: Node
    """What it becomes in the cluster."""

    reservation: str = ""
    drift: str = ""


class LaunchResult(msgspec.Struct, frozen=True):
    """What came of a launch: a machine, and what was sold out before it was found."""

    machine: Machine
    sold_out: tuple[OfferingName, ...]


class KwokCloud:
    """A cloud whose machines exist because it says so."""

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
        self.stock = OfferingInventory(catalog)
        self.faults = FaultScript()
        self.mailbox = KwokInterruptionQueue(clock, told_again=behaviour.told_again)
        self.control = KwokControl(self)
        self._nodes = nodes
        self._instances: dict[str, KwokInstance] = {}
        self._by_claim: dict[tuple[str, str], str] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._news = 0

    def __iter__(self) -> Iterator[KwokInstance]:
        """Every instance, in the order of their launch."""
        return iter(tuple(self._instances.values()))

    async def pass_time(self, seconds: float) -> None:
        """Wait for about so long."""
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
        """Return the instance that was launched for a claim, as long as there is one."""
        provider_id = self._by_claim.get((cluster, uid))
        return self._instances[provider_id] if provider_id else None

    def buy(
        self, cluster: str, claim: NodeClaim, choices: Iterable[Choice], *, joins_after: float | None
    ) -> LaunchResult:
        """
        Launch the first of the `choices` that is in stock; it becomes a node after a while, or never.

        Raises:
            InsufficientCapacity: naming all of them.
        """
        sold_out: list[OfferingName] = []
        for choice in choices:
            if self.stock.has(choice):
                instance = self._instance(cluster, claim, choice)
                self.add(instance, joins_after=joins_after)
                return LaunchResult(instance.machine, tuple(sold_out))
            sold_out.append(choice.name)
        raise InsufficientCapacity(offerings=sold_out)

    def add(self, instance: KwokInstance, *, joins_after: float | None = None) -> None:
        """Take an instance into the world; with `joins_after`, it becomes a node after so many seconds."""
        machine = instance.machine
        self._instances[machine.provider_id] = instance
        if machine.claim_uid:
            self._by_claim[instance.cluster, machine.claim_uid] = machine.provider_id
        self.stock.take(instance.reservation)
        if joins_after is not None:
            self._spawn(self._join(instance, joins_after))

    def end(self, instance: KwokInstance) -> None:
        """Begin the end of an instance, if it has not begun."""
        if instance.machine.deleting:
            return
        instance.machine = msgspec.structs.replace(instance.machine, deleting=True)
        if self.behaviour.shutdown:
            self._spawn(self._vanish_later(instance, self.behaviour.shutdown))
        else:
            self.vanish(instance)

    def vanish(self, instance: KwokInstance, *, noticed_after: float = 0.0) -> None:
        """Let an instance be gone. The cluster notices after a while, and its node goes too."""
        machine = instance.machine
        if self._instances.pop(machine.provider_id, None) is None:
            return
        self._by_claim.pop((instance.cluster, machine.claim_uid), None)
        self.stock.give_back(instance.reservation)
        self._spawn(self._leave(instance, noticed_after))

    def announce(
        self, instance: KwokInstance, kind: str, *, taken_after: float | None, drains: bool = True
    ) -> None:
        """Tell the cluster of an interruption, and take the machine away after so many seconds."""
        self._news += 1
        news = Interruption(
            provider_id=instance.machine.provider_id,
            kind=kind,
            id=f"news-{self._news}",
            at=self.clock.now(),
            drains=drains,
        )
        self.mailbox.put(instance.cluster, news)
        if taken_after is not None:
            self._spawn(self._vanish_later(instance, taken_after))

    async def close(self) -> None:
        """Stop whatever is under way. Machines stay as they are."""
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
        await self._insist(
            lambda: self._nodes.create_node(instance.node),
            wish="create",
            node=instance.node.name,
            needed=lambda: self._is_alive(instance),
        )
        if not self._is_alive(instance):  # it went while its node was being made
            await self._leave(instance, 0.0)

    async def _leave(self, instance: KwokInstance, seconds: float) -> None:
        await self.clock.sleep(seconds)
        name = instance.node.name
        await self._insist(
            lambda: self._nodes.delete_node(name), wish="delete", node=name, needed=lambda: True
        )

    async def _vanish_later(self, instance: KwokInstance, seconds: float) -> None:
        await self.pass_time(seconds)
        self.vanish(instance)

    def _is_alive(self, instance: KwokInstance) -> bool:
        return instance.machine.provider_id in self._instances

    async def _insist(
        self, act: Callable[[], Awaitable[None]], *, wish: str, node: str, needed: Callable[[], bool]
    ) -> None:
        """Ask the cluster until it does, or until that is not needed any longer."""
        attempts = 0
        while needed():
            try:
                return await act()
            except Exception as error:  # noqa: BLE001  whatever the cluster says, a cloud tries again
                attempts += 1
                log.warning("node.not_changed", wish=wish, node=node, error=str(error), attempts=attempts)
            await self.clock.sleep(RETRIES.delay(attempts, self.chance))
        return None

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
