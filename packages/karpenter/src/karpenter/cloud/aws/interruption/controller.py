"""
The interruption queue: messages in, interruptions of machines of ours out.

A message is deleted once it was acted on, so one that we fail to act on is told again by SQS. Messages may
come twice, late or in any order: what follows from them does not depend on it. One that nobody can read is
thrown away, and so is one about machines that are not ours.

Which claim has which instance, as the operator knows it at the moment.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import msgspec
import structlog

from karpenter.api.labels import CAPACITY_TYPE, INSTANCE_TYPE, SPOT, ZONE
from karpenter.cloud.aws.errors import AccessDenied, ResourceNotFound
from karpenter.cloud.aws.instance.instance import instance_id
from karpenter.cloud.aws.interruption import messages
from karpenter.cloud.aws.interruption.messages import BadMessage, InterruptionMessage
from karpenter.cloud.aws.labels import RESERVATION_ID
from karpenter.cloud.aws.metrics import DELETED, QUEUED, RECEIVED
from karpenter.cloud.aws.unavailableofferings import OfferingKey
from karpenter.cloud.cloudprovider import Interruption
from karpenter.cloud.errors import CloudError, MachineNotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from karpenter.api.node import Node
    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.base.clock import Clock
    from karpenter.cloud.aws.capacityreservation import CapacityReservationProvider
    from karpenter.cloud.aws.errors import AwsApiError
    from karpenter.cloud.aws.metrics import ProviderMetrics
    from karpenter.cloud.aws.sdk import ApiResponse, AwsApi
    from karpenter.cloud.aws.unavailableofferings import UnavailableOfferings
    from karpenter.core.state.view import ClusterView


log = structlog.stdlib.get_logger(__name__)

MOST: Final = 10
"""Messages at once, which is the most that SQS hands out."""

LONG_POLL: Final = 20
"""Seconds that SQS waits for a message before it says that there is none."""

HIDDEN_FOR: Final = 20
"""Seconds after which SQS tells a message again that was not deleted."""


class _Open(msgspec.Struct):
    """A message that was told and not yet acted on."""

    receipt: str
    news: InterruptionMessage
    left: int
    """Interruptions of it that nobody has acknowledged."""


class InterruptionQueue:
    """Gets news from SQS."""

    def __init__(
        self,
        aws: AwsApi,
        name: str,
        *,
        clock: Clock,
        meters: ProviderMetrics,
        unavailable: UnavailableOfferings,
        reservations: CapacityReservationProvider,
        long_poll: int = LONG_POLL,
    ) -> None:
        """With a `long_poll` of zero, we wait between two questions and not SQS: a simulation needs that."""
        self._aws = aws
        self._name = name
        self._clock = clock
        self._meters = meters
        self._unavailable = unavailable
        self._reservations = reservations
        self._long_poll = long_poll
        self._url = ""
        self._open: dict[str, _Open] = {}
        self._troubles: dict[str, AwsApiError] = {}

    @property
    def trouble(self) -> AwsApiError | None:
        """Why the queue cannot be used: it is not there, or we are not allowed to; None when it can."""
        return next(iter(self._troubles.values()), None)

    async def wait(self, roster: InstanceClaims) -> tuple[Interruption, ...]:
        """
        Wait for messages, and return what they tell of machines of ours.

        Raises:
            CloudError: there is no such queue, or SQS does not answer.
        """
        told = await self._receive()
        if not told and not self._long_poll:
            await self._clock.sleep(1.0)
        found: list[Interruption] = []
        done: list[str] = []
        for message in told:
            interruptions = self._read(message, roster)
            found += interruptions
            if not interruptions:
                done.append(message["ReceiptHandle"])
        for error in await asyncio.gather(*map(self._delete, done), return_exceptions=True):
            if isinstance(error, CloudError):  # it will be told again, and thrown away then
                log.warning("interruption.not_deleted", error=str(error))
            elif error is not None:
                raise error
        return tuple(found)

    async def acknowledge(self, interruption: Interruption) -> None:
        """Delete a message once everything that it tells was acted on."""
        held = self._open.get(interruption.id)
        if held is None:
            return
        held.left -= 1
        if held.left > 0:
            return
        del self._open[interruption.id]
        await self._delete(held.receipt)
        if held.news.at is not None:
            late = (self._clock.now() - held.news.at).total_seconds()
            self._meters.observe(QUEUED, max(0.0, late))

    async def _receive(self) -> list[ApiResponse]:
        if not self._url:
            answer = await self._ask("GetQueueUrl", QueueName=self._name)
            self._url = answer["QueueUrl"]
        try:
            answer = await self._ask(
                "ReceiveMessage",
                QueueUrl=self._url,
                MaxNumberOfMessages=MOST,
                WaitTimeSeconds=self._long_poll,
                VisibilityTimeout=HIDDEN_FOR,
            )
        except ResourceNotFound:
            self._url = ""  # it may have been made anew
            raise
        told: list[ApiResponse] = answer.get("Messages", [])
        return told

    def _read(self, message: ApiResponse, roster: InstanceClaims) -> list[Interruption]:
        """Return what a message tells of machines of ours; nothing when it can be deleted at once."""
        try:
            news = messages.read(message.get("Body", ""))
        except BadMessage as error:
            log.warning("interruption.unreadable", message=message.get("MessageId"), error=str(error))
            return []
        self._meters.count(RECEIVED, message_type=news.kind)
        claims = [claim for each in news.instances if (claim := roster.claim_of(each)) is not None]
        for claim in claims:
            self._note(news.kind, claim)
        number = message["MessageId"]
        if claims:
            self._open[number] = _Open(message["ReceiptHandle"], news, len(claims))
        return [
            Interruption(
                provider_id=claim.status.provider_id,
                kind=news.kind,
                id=number,
                at=news.at or self._clock.now(),
                drains=news.kind != messages.REBALANCE,
            )
            for claim in claims
        ]

    def _note(self, kind: str, claim: NodeClaim) -> None:
        """Remember that what is taken away is not to be had for a while."""
        labels = claim.metadata.labels
        if kind == messages.SPOT_INTERRUPTED and labels.get(CAPACITY_TYPE) == SPOT:
            place = OfferingKey(labels.get(INSTANCE_TYPE, ""), labels.get(ZONE, ""), SPOT)
            self._unavailable.mark([place])
        elif kind == messages.RESERVATION_INTERRUPTED and labels.get(RESERVATION_ID):
            self._reservations.used_up(labels[RESERVATION_ID])

    async def _delete(self, receipt: str) -> None:
        await self._ask("DeleteMessage", QueueUrl=self._url, ReceiptHandle=receipt)
        self._meters.count(DELETED)

    async def _ask(self, operation: str, **parameters: Any) -> ApiResponse:
        """Ask SQS, and remember what is wrong for good."""
        waits = operation == "ReceiveMessage" and self._long_poll
        try:
            answer = await (self._aws.listen if waits else self._aws.ask)("sqs", operation, **parameters)
        except (ResourceNotFound, AccessDenied) as error:
            self._troubles[operation] = error
            raise
        self._troubles.pop(operation, None)
        return answer


class InstanceClaims:
    """Finds claims and nodes by the ids of their instances."""

    def __init__(self, view: Callable[[], ClusterView]) -> None:
        self._view = view
        self._claims: tuple[Mapping[str, NodeClaim], dict[str, NodeClaim]] | None = None

    def claim_of(self, instance: str) -> NodeClaim | None:
        """Return the claim of an instance; None when it is none of ours."""
        claims = self._view().claims
        if self._claims is None or self._claims[0] is not claims:
            self._claims = (claims, {number: each for each in claims.values() if (number := _number(each))})
        return self._claims[1].get(instance)

    def nodes_of(self, claim: NodeClaim) -> tuple[Node, ...]:
        """Return the nodes that say that they are the machine of a claim."""
        wanted = claim.status.provider_id
        return tuple(each for each in self._view().nodes.values() if each.spec.provider_id == wanted)


def _number(claim: NodeClaim) -> str:
    try:
        return instance_id(claim.status.provider_id)
    except MachineNotFound:
        return ""
