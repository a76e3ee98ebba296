"""
The world of the cloud in memory: its machines, what it sells, and what becomes of each machine.

It belongs to nobody's operator. Providers come and go and act on it through a few synchronous methods, each
of which happens at one moment; what takes time afterwards, such as a machine becoming a node, the world
does by itself. Machines of several clusters live in it side by side.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import msgspec
import structlog

from karpenter.api.node import Node
from karpenter.base.aio.backoff import Backoff
from karpenter.cloud.errors import InsufficientCapacity, MachineNotFound
from karpenter.cloud.interface import Interruption, Machine
from karpenter.cloud.kwok.behaviour import Behaviour
from karpenter.cloud.kwok.control import KwokControl
from karpenter.cloud.kwok.faults import Faults
from karpenter.cloud.kwok.joining import SCHEME, node_name, node_of
from karpenter.cloud.kwok.mailbox import Mailbox
from karpenter.cloud.kwok.stock import Stock
from karpenter.cloud.market import labels_of
from karpenter.cloud.offerings import OfferingName

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
    from random import Random
    from typing import Any

    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.base.clock import Clock
    from karpenter.cloud.kwok.seams import NodeMaker
    from karpenter.cloud.market import Choice
    from karpenter.core.model.catalog import Catalog

log = structlog.stdlib.get_logger(__name__)

RETRIES: Final = Backoff(first=0.5, cap=30.0, jitter=0.2)
"""How long the cloud waits before it asks the cluster again."""

NOW: Final = Behaviour()


class Instance(msgspec.Struct, kw_only=True):
    """A machine as its cloud knows it."""

    machine: Machine
    cluster: str
    node: Node
    """What it becomes in the cluster."""

    reservation: str = ""
    drift: str = ""


class Bought(msgspec.Struct, frozen=True):
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
        self.stock = Stock(catalog)
        self.faults = Faults()
        self.mailbox = Mailbox(clock, told_again=behaviour.told_again)
        self.control = KwokControl(self)
        self._nodes = nodes
        self._instances: dict[str, Instance] = {}
        self._by_claim: dict[tuple[str, str], str] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._news = 0

    def __iter__(self) -> Iterator[Instance]:
        """Every instance, in the order of their launch."""
        return iter(tuple(self._instances.values()))

    async def pass_time(self, seconds: float) -> None:
        """Wait for about so long."""
        jitter = self.behaviour.jitter
        share = 1 + self.chance.uniform(-jitter, jitter) if jitter else 1.0
        await self.clock.sleep(seconds * share)

    def find(self, provider_id: str, *, cluster: str | None = None) -> Instance:
        """
        Return an instance, if it is that cluster's.

        Raises:
            MachineNotFound: there is none.
        """
        found = self._instances.get(provider_id)
        if found is None or cluster not in {None, found.cluster}:
            raise MachineNotFound(provider_id)
        return found

    def of_claim(self, cluster: str, uid: str) -> Instance | None:
        """Return the instance that was launched for a claim, as long as there is one."""
        provider_id = self._by_claim.get((cluster, uid))
        return self._instances[provider_id] if provider_id else None

    def buy(
        self, cluster: str, claim: NodeClaim, choices: Iterable[Choice], *, joins_after: float | None
    ) -> Bought:
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
                return Bought(instance.machine, tuple(sold_out))
            sold_out.append(choice.name)
        raise InsufficientCapacity(offerings=sold_out)

    def add(self, instance: Instance, *, joins_after: float | None = None) -> None:
        """Take an instance into the world; with `joins_after`, it becomes a node after so many seconds."""
        machine = instance.machine
        self._instances[machine.provider_id] = instance
        if machine.claim_uid:
            self._by_claim[instance.cluster, machine.claim_uid] = machine.provider_id
        self.stock.take(instance.reservation)
        if joins_after is not None:
            self._spawn(self._join(instance, joins_after))

    def end(self, instance: Instance) -> None:
        """Begin the end of an instance, if it has not begun."""
        if instance.machine.deleting:
            return
        instance.machine = msgspec.structs.replace(instance.machine, deleting=True)
        if self.behaviour.shutdown:
            self._spawn(self._vanish_later(instance, self.behaviour.shutdown))
        else:
            self.vanish(instance)

    def vanish(self, instance: Instance, *, noticed_after: float = 0.0) -> None:
        """Let an instance be gone. The cluster notices after a while, and its node goes too."""
        machine = instance.machine
        if self._instances.pop(machine.provider_id, None) is None:
            return
        self._by_claim.pop((instance.cluster, machine.claim_uid), None)
        self.stock.give_back(instance.reservation)
        self._spawn(self._leave(instance, noticed_after))

    def announce(
        self, instance: Instance, kind: str, *, taken_after: float | None, drains: bool = True
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

    def _instance(self, cluster: str, claim: NodeClaim, choice: Choice) -> Instance:
        machine = Machine(
            provider_id=SCHEME + node_name(claim.name, self.chance),
            claim_uid=claim.metadata.uid,
            labels=labels_of(choice, claim),
            capacity=choice.kind.capacity,
            allocatable=choice.kind.allocatable,
            created=self.clock.now(),
        )
        log.debug("machine.launched", machine=machine.provider_id, offering=str(choice.name), cluster=cluster)
        return Instance(
            machine=machine,
            cluster=cluster,
            node=node_of(machine, claim, choice.offering.price),
            reservation=choice.offering.reservation_id,
        )

    async def _join(self, instance: Instance, seconds: float) -> None:
        await self.clock.sleep(seconds)
        await self._insist(
            lambda: self._nodes.create_node(instance.node),
            wish="create",
            node=instance.node.name,
            needed=lambda: self._is_alive(instance),
        )
        if not self._is_alive(instance):  # it went while its node was being made
            await self._leave(instance, 0.0)

    async def _leave(self, instance: Instance, seconds: float) -> None:
        await self.clock.sleep(seconds)
        name = instance.node.name
        await self._insist(
            lambda: self._nodes.delete_node(name), wish="delete", node=name, needed=lambda: True
        )

    async def _vanish_later(self, instance: Instance, seconds: float) -> None:
        await self.pass_time(seconds)
        self.vanish(instance)

    def _is_alive(self, instance: Instance) -> bool:
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
