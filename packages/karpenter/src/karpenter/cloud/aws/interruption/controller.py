"""
Turns messages of the interruption queue into interruptions of NodeClaims.

A message is deleted once it was acted on; one that was not is received again from SQS. SQS delivers at least
once and in any order, and nothing here depends on either. A message that cannot be read is deleted. What
becomes of one about an instance of no claim is decided in :mod:`karpenter.controllers.interruption`.

:class:`InstanceClaims` finds NodeClaims by the ids of their instances.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import msgspec
import structlog

from karpenter.api.labels import CAPACITY_TYPE, INSTANCE_TYPE, SPOT, ZONE
from karpenter.cloud.aws.instance.types import instance_id
from karpenter.cloud.aws.interruption import messages
from karpenter.cloud.aws.interruption.messages import BadMessage, InterruptionMessage
from karpenter.cloud.aws.labels import RESERVATION_ID
from karpenter.cloud.aws.metrics import LAST_MESSAGE, LAST_RECEIVE, QUEUED, RECEIVED, ProviderMetrics
from karpenter.cloud.aws.unavailableofferings import OfferingKey, UnavailableOfferings
from karpenter.cloud.cloudprovider import Interruption, ProviderId
from karpenter.cloud.errors import CloudError, MachineNotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from karpenter.api.node import Node
    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.base.clock import Clock
    from karpenter.cloud.aws.capacityreservation import CapacityReservationProvider
    from karpenter.cloud.aws.sdk import ApiResponse
    from karpenter.cloud.aws.sqs import SQSProvider
    from karpenter.core.state.cluster import ClusterView

log = structlog.stdlib.get_logger(__name__)

_UNKNOWN: Final = datetime.min.replace(tzinfo=UTC)
"""The time of a message without one: long ago, so that it is not waited for the claim of its instance."""


class _Received(msgspec.Struct):
    """A message that was received and not yet acted on."""

    receipt: str
    message: InterruptionMessage
    left: int
    """How many of its interruptions are not acknowledged."""


class InterruptionQueue:
    """Waits for interruptions."""

    def __init__(
        self,
        sqs: SQSProvider,
        *,
        clock: Clock,
        metrics: ProviderMetrics,
        unavailable: UnavailableOfferings,
        reservations: CapacityReservationProvider,
    ) -> None:
        self._sqs = sqs
        self._clock = clock
        self._metrics = metrics
        self._unavailable = unavailable
        self._reservations = reservations
        self._received: dict[str, _Received] = {}

    async def wait(self, claims: InstanceClaims) -> tuple[Interruption, ...]:
        """
        Wait for messages, and return what they say of instances, those of other clusters too.

        Raises:
            CloudError: there is no such queue, or SQS does not answer.
        """
        found: list[Interruption] = []
        done: list[str] = []
        arrived = await self._sqs.receive()
        at = self._clock.now().timestamp()
        self._metrics.show(LAST_RECEIVE, "queue", [(at, {})])
        if arrived:
            self._metrics.show(LAST_MESSAGE, "queue", [(at, {})])
        for received in arrived:
            interruptions = self._read(received, claims)
            found += interruptions
            if not interruptions:
                done.append(received["ReceiptHandle"])
        for error in await asyncio.gather(*map(self._sqs.delete, done), return_exceptions=True):
            if isinstance(error, CloudError):  # it will be received again, and deleted then
                log.warning("interruption.not_deleted", error=str(error))
            elif error is not None:
                raise error
        return tuple(found)

    async def acknowledge(self, interruption: Interruption) -> None:
        """Delete a message once all interruptions of it were acted on."""
        held = self._received.get(interruption.id)
        if held is None:
            return
        held.left -= 1
        if held.left > 0:
            return
        # A message that is not deleted becomes visible again, so a crash in between loses nothing:
        # https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-visibility-timeout.html
        del self._received[interruption.id]
        await self._sqs.delete(held.receipt)
        if held.message.at is not None:
            late = (self._clock.now() - held.message.at).total_seconds()
            self._metrics.observe(QUEUED, max(0.0, late))

    def _read(self, received: ApiResponse, claims: InstanceClaims) -> list[Interruption]:
        try:
            message = messages.read(received.get("Body", ""))
        except BadMessage as error:
            log.warning("interruption.unreadable", message=received.get("MessageId"), error=str(error))
            return []
        self._metrics.count(RECEIVED, message_type=message.kind)
        if not message.instances:
            return []
        found = [claims.claim_of(each) for each in message.instances]
        for claim in found:
            if claim is not None:
                labels = claim.metadata.labels
                # EC2 takes back what it has no capacity of: the offering would be interrupted again soon.
                # https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-interruptions.html
                if message.kind == messages.SPOT_INTERRUPTED and labels.get(CAPACITY_TYPE) == SPOT:
                    key = OfferingKey(labels.get(INSTANCE_TYPE, ""), labels.get(ZONE, ""), SPOT)
                    self._unavailable.mark([key])
                elif message.kind == messages.RESERVATION_INTERRUPTED and labels.get(RESERVATION_ID):
                    self._reservations.used_up(labels[RESERVATION_ID])
        number = received["MessageId"]
        self._received[number] = _Received(received["ReceiptHandle"], message, len(found))
        return [
            Interruption(
                # The rules of EventBridge match all instances of the account, those of other clusters too:
                # https://karpenter.sh/docs/concepts/disruption/#interruption
                provider_id=ProviderId(claim.status.provider_id if claim is not None else ""),
                kind=message.kind,
                id=number,
                at=message.at or _UNKNOWN,
                # A rebalance recommendation says that an interruption is more likely, not that there is one:
                # https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/rebalance-recommendations.html
                drains=message.kind != messages.REBALANCE,
            )
            for claim in found
        ]


class InstanceClaims:
    """Finds claims and nodes by the ids of their instances."""

    def __init__(self, view: Callable[[], ClusterView]) -> None:
        self._view = view
        self._claims: tuple[Mapping[str, NodeClaim], dict[str, NodeClaim]] | None = None

    def claim_of(self, instance: str) -> NodeClaim | None:
        """Return the claim of an instance; None when it belongs to no claim of this cluster."""
        claims = self._view().claims
        if self._claims is None or self._claims[0] is not claims:
            by_instance = {found: each for each in claims.values() if (found := _instance_of(each))}
            self._claims = (claims, by_instance)
        return self._claims[1].get(instance)

    def nodes_of(self, claim: NodeClaim) -> tuple[Node, ...]:
        wanted = claim.status.provider_id
        return tuple(each for each in self._view().nodes.values() if each.spec.provider_id == wanted)


def _instance_of(claim: NodeClaim) -> str:
    try:
        return instance_id(claim.status.provider_id)
    except MachineNotFound:
        return ""
