"""
EventBridge events of EC2 and AWS Health, offered to the rules of the account.

:mod:`.eventbridge` decides which queues they reach.
"""

from __future__ import annotations

from typing import Any, Final

from moto.moto_api._internal import mock_random
from moto.sqs.models import Message, sqs_backends

from karpenter_local.aws.account import ACCOUNTS, Account
from karpenter_local.aws.eventbridge import publish
from karpenter_local.aws.events import MessageSent

EC2: Final = "aws.ec2"
HEALTH: Final = "aws.health"

_TWICE_SHARE: Final = 0.5
_DELAY_SECONDS: Final = (0, 0, 1, 5, 30)
"""Seconds by which mail is late where the post is bad, so that it comes in another order."""


def announce_interruption(account: Account, instance: str) -> None:
    """Tell that a spot instance will be taken away."""
    detail = {"instance-id": instance, "instance-action": "terminate"}
    announce(account, EC2, "EC2 Spot Instance Interruption Warning", detail, _arn(account, instance))


def announce_rebalance(account: Account, instance: str) -> None:
    """Tell that a spot instance may be taken away some time."""
    detail = {"instance-id": instance}
    announce(account, EC2, "EC2 Instance Rebalance Recommendation", detail, _arn(account, instance))


def announce_state(account: Account, instance: str, state: str) -> None:
    detail = {"instance-id": instance, "state": state}
    announce(account, EC2, "EC2 Instance State-change Notification", detail, _arn(account, instance))


def announce_maintenance(account: Account, instance: str) -> None:
    """Tell that the hardware under an instance will be retired."""
    detail = {
        "eventArn": f"arn:aws:health:{account.region}::event/EC2/{mock_random.uuid4()}",
        "service": "EC2",
        "eventTypeCode": "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED",
        "eventTypeCategory": "scheduledChange",
        "startTime": account.now().strftime("%a, %d %b %Y %H:%M:%S GMT"),
        "affectedEntities": [{"entityValue": instance}],
    }
    announce(account, HEALTH, "AWS Health Event", detail, instance)


def announce(account: Account, source: str, kind: str, detail: dict[str, Any], resource: str) -> None:
    publish(
        account,
        {
            "version": "0",
            "id": str(mock_random.uuid4()),
            "detail-type": kind,
            "source": source,
            "account": account.number,
            "time": account.now().strftime("%Y-%m-%dT%H:%M:%SZ"),
            "region": account.region,
            "resources": [resource],
            "detail": detail,
        },
    )


def post(account: Account, body: str) -> None:
    """Put a text into every queue of the account; where the post is bad, late and perhaps twice."""
    for name in tuple(sqs_backends[account.number][account.region].queues):
        _deliver(account, name, body)
    account.tell(MessageSent())


def deliver(account: Account, queue: str, body: str) -> None:
    """Put a text into a queue; where the post is bad, late and perhaps twice."""
    _deliver(account, queue, body)
    account.tell(MessageSent())


def _deliver(account: Account, queue: str, body: str) -> None:
    first = _send(account, queue, body)
    if account.post is not None and account.post.random() < _TWICE_SHARE:
        _send(account, queue, body).id = first.id  # SQS may hand out the same message twice


def _send(account: Account, queue: str, body: str) -> Any:
    sent: Any = sqs_backends[account.number][account.region].send_message(queue, body)
    sent.__class__ = _Timed
    sent.number = account.number
    if account.post is not None:
        sent.change_visibility(account.post.choice(_DELAY_SECONDS))
    return sent


def has_mail(account: Account) -> bool:
    queues = tuple(sqs_backends[account.number][account.region].queues.values())
    return any(queue.messages for queue in queues)


class _Timed(Message):
    """A message that is hidden by the time of its account, which may be virtual."""

    number: str
    """Of the account. Messages are copied, and accounts must not be."""

    def change_visibility(self, visibility_timeout: int) -> None:
        """Hide the message for so many seconds."""
        self.visible_at = self._now() + float(visibility_timeout)

    @property
    def visible(self) -> bool:
        return self._now() >= self.visible_at

    def _now(self) -> float:
        return ACCOUNTS[self.number].now().timestamp()


def _arn(account: Account, instance: str) -> str:
    return f"arn:aws:ec2:{account.region}:{account.number}:instance/{instance}"
