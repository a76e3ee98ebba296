"""
The operator's client of the cloud in memory.

It keeps the promises of :class:`~karpenter.cloud.interface.CloudProvider`, and has no memory but for what was
sold out lately: whatever must survive a restart is the cloud's, or Kubernetes'.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Final, NoReturn, TypeVar

from karpenter.api.kwok import KWOKNodeClass
from karpenter.base.duration import DurationError, parse_duration
from karpenter.base.quantity import QuantityError
from karpenter.cloud.errors import (
    CloudError,
    CloudUnreachable,
    InsufficientCapacity,
    LaunchFailed,
    LaunchRefused,
    NodeClassNotReady,
)
from karpenter.cloud.interface import NodeClassKind, RepairPolicy
from karpenter.cloud.kwok.faults import Call, Fail, Hang, LoseAnswer, NeverJoin, Slow
from karpenter.cloud.market import choices
from karpenter.cloud.offerings import SoldOut, without
from karpenter.core.model.labels import RequirementError

if TYPE_CHECKING:
    from collections.abc import Callable

    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.api.nodepool import NodePool
    from karpenter.cloud.interface import Interruption, Machine
    from karpenter.cloud.kwok.cloud import KwokCloud
    from karpenter.cloud.kwok.faults import Fault
    from karpenter.cloud.kwok.seams import NodeClassReader
    from karpenter.cloud.market import Choice
    from karpenter.cloud.offerings import OfferingName
    from karpenter.core.model.catalog import Catalog

T = TypeVar("T")

NODE_CLASS: Final = NodeClassKind(KWOKNodeClass.api_version.partition("/")[0], KWOKNodeClass.kind)
REPAIRS: Final = tuple(
    RepairPolicy(condition_type="Ready", condition_status=status, toleration=timedelta(minutes=10))
    for status in ("False", "Unknown")
)


class KwokProvider:
    """Turns claims into machines of the cloud in memory, for one cluster."""

    name: str = "kwok"
    node_classes = (NODE_CLASS,)
    repair_policies = REPAIRS

    def __init__(self, cloud: KwokCloud, *, classes: NodeClassReader, cluster: str) -> None:
        self.cloud = cloud
        self._classes = classes
        self._cluster = cluster
        self._sold_out = SoldOut(monotonic=cloud.clock.monotonic, remembered=cloud.behaviour.sold_out_for)
        self._shown: tuple[Catalog, frozenset[OfferingName], Catalog] | None = None

    async def launch(self, claim: NodeClaim) -> Machine:
        """Start the cheapest machine that will do, or return the one that the claim has."""
        ready = await self._class_of(claim)
        seconds = self.cloud.behaviour.launch
        return await self._ask("launch", claim.name, lambda fault: self._launch(claim, ready, fault), seconds)

    async def terminate(self, provider_id: str) -> None:
        """Begin the end of a machine."""
        await self._ask(
            "terminate",
            provider_id,
            lambda _: self.cloud.end(self.cloud.find(provider_id, cluster=self._cluster)),
        )

    async def get(self, provider_id: str) -> Machine:
        """Return a machine."""
        return await self._ask(
            "get", provider_id, lambda _: self.cloud.find(provider_id, cluster=self._cluster).machine
        )

    async def list(self) -> tuple[Machine, ...]:
        """Return all machines of the cluster."""
        return await self._ask("list", "", lambda _: self.cloud.control.machines(self._cluster))

    async def catalog(self, pool: NodePool) -> Catalog:
        """Return everything that is sold, what failed lately marked as not available."""
        return await self._ask("catalog", pool.name, lambda _: self._catalog())

    async def drift(self, claim: NodeClaim) -> str:
        """Return why a machine is not what its class asks for: only if someone said so."""
        provider_id = claim.status.provider_id
        return await self._ask(
            "drift", provider_id, lambda _: self.cloud.find(provider_id, cluster=self._cluster).drift
        )

    async def interruptions(self) -> tuple[Interruption, ...]:
        """Wait for news of interruptions."""
        while True:
            found = await self._ask("interruptions", "", lambda _: self.cloud.mailbox.take(self._cluster))
            if found:
                return found
            await self.cloud.mailbox.wait(self._cluster)

    async def acknowledge(self, interruption: Interruption) -> None:
        """Say that news were acted on."""
        self.cloud.mailbox.acknowledge(interruption)

    def _launch(self, claim: NodeClaim, ready: timedelta | CloudError, fault: Fault | None) -> Machine:
        existing = self.cloud.of_claim(self._cluster, claim.metadata.uid)
        if existing is not None:
            return existing.machine
        if isinstance(ready, CloudError):
            raise ready
        would_do = self._choices(claim)
        skipped = self._sold_out.now()
        try:
            bought = self.cloud.buy(
                self._cluster,
                claim,
                [choice for choice in would_do if choice.name not in skipped],
                joins_after=None if isinstance(fault, NeverJoin) else ready.total_seconds(),
            )
        except InsufficientCapacity as error:
            self._sold_out.remember(error.offerings)
            raise InsufficientCapacity(offerings=[choice.name for choice in would_do]) from None
        self._sold_out.remember(bought.sold_out)
        return bought.machine

    def _choices(self, claim: NodeClaim) -> tuple[Choice, ...]:
        try:
            return choices(self.cloud.stock.catalog(), claim, self.cloud.chance)
        except (RequirementError, QuantityError) as error:
            raise LaunchRefused(reason="InvalidClaim", message=str(error)) from error

    async def _class_of(self, claim: NodeClaim) -> timedelta | CloudError:
        """Return how long a machine of the claim's class takes to become a node, or why there can be none."""
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
        sold, skipped = self.cloud.stock.catalog(), self._sold_out.now()
        if self._shown is None or self._shown[0] is not sold or self._shown[1] != skipped:
            self._shown = (sold, skipped, without(sold, skipped))
        return self._shown[2]

    async def _ask(
        self, method: str, subject: str, act: Callable[[Fault | None], T], seconds: float | None = None
    ) -> T:
        """Let a call happen halfway through the time that it takes, or go wrong."""
        seconds = self.cloud.behaviour.call if seconds is None else seconds
        fault = self.cloud.faults.pick(Call(method=method, subject=subject, cluster=self._cluster))
        await self.cloud.pass_time(seconds / 2)
        match fault:
            case Fail(error):
                raise error
            case Hang():
                await _never()
            case Slow(more):
                await self.cloud.clock.sleep(more)
        result = act(fault)
        await self.cloud.pass_time(seconds / 2)
        if isinstance(fault, LoseAnswer):
            if fault.hangs:
                await _never()
            lost = LaunchFailed if method == "launch" else CloudUnreachable
            raise lost("the answer of the cloud was lost")
        return result


async def _never() -> NoReturn:
    await asyncio.Future[None]()
    raise AssertionError("nobody ends this wait")
