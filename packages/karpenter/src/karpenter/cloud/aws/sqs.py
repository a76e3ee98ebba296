"""
Receives and deletes messages of the interruption queue.

What a message says is read in :mod:`.interruption.messages`, and what follows from it is decided in
:mod:`.interruption.controller`. This module only knows SQS, and keeps why the queue cannot be used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from karpenter.cloud.aws.errors import AccessDenied, AwsApiError, ResourceNotFound
from karpenter.cloud.aws.metrics import DELETED, ProviderMetrics

if TYPE_CHECKING:
    from karpenter.base.clock import Clock
    from karpenter.cloud.aws.sdk import ApiResponse, AwsApi

# SQS returns at most 10 messages, and waits for at most 20 seconds:
# https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_ReceiveMessage.html
MAX_MESSAGES: Final = 10
LONG_POLL_SECONDS: Final = 20
"""Seconds that SQS waits for a message before it answers that there is none."""

# A message that an operator received and did not delete, because it crashed, comes back after this:
# https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-visibility-timeout.html
VISIBILITY_TIMEOUT: Final = 20
"""Seconds after which SQS returns a message again that was not deleted."""


class SQSProvider:
    """The interruption queue in SQS."""

    def __init__(
        self,
        aws: AwsApi,
        name: str,
        *,
        clock: Clock,
        metrics: ProviderMetrics,
        long_poll: int = LONG_POLL_SECONDS,
    ) -> None:
        """With a `long_poll` of zero this process waits between calls, not SQS: virtual time needs it."""
        self._aws = aws
        self._name = name
        self._clock = clock
        self._metrics = metrics
        self._long_poll = long_poll
        self._url = ""
        self._errors: dict[str, AwsApiError] = {}

    @property
    def error(self) -> AwsApiError | None:
        """Why the queue cannot be used: it does not exist, or a permission is missing; None when it can."""
        return next(iter(self._errors.values()), None)

    async def receive(self) -> list[ApiResponse]:
        """
        Wait for messages, and return them; none if none came.

        Raises:
            CloudError: there is no such queue, or SQS does not answer.
        """
        if not self._url:
            response = await self._call("GetQueueUrl", QueueName=self._name)
            self._url = response["QueueUrl"]
        try:
            response = await self._call(
                "ReceiveMessage",
                QueueUrl=self._url,
                MaxNumberOfMessages=MAX_MESSAGES,
                WaitTimeSeconds=self._long_poll,
                VisibilityTimeout=VISIBILITY_TIMEOUT,
            )
        except ResourceNotFound:
            self._url = ""  # a queue that is created again may have another URL
            raise
        messages: list[ApiResponse] = response.get("Messages", [])
        if not messages and not self._long_poll:
            await self._clock.sleep(1.0)
        return messages

    async def delete(self, receipt: str) -> None:
        """
        Delete a message.

        Raises:
            CloudError: SQS does not do it; the message will be received again.
        """
        await self._call("DeleteMessage", QueueUrl=self._url, ReceiptHandle=receipt)
        self._metrics.count(DELETED)

    async def _call(self, operation: str, **parameters: Any) -> ApiResponse:
        """Call SQS, and keep the error of a queue that cannot be used."""
        waits = operation == "ReceiveMessage" and self._long_poll
        try:
            response = await (self._aws.long_poll if waits else self._aws.call)(
                "sqs", operation, **parameters
            )
        except (ResourceNotFound, AccessDenied) as error:
            self._errors[operation] = error
            raise
        self._errors.pop(operation, None)
        return response
