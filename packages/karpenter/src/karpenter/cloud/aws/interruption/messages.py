"""
Reads a message of the interruption queue.

EventBridge sends events of EC2 and of AWS Health, each in the same envelope; the kind of an event follows
from its version, source and detail type. An event of any other kind is ignored: the rules that feed a queue
are written by users, and change.

https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/monitoring-instance-state-changes.html and
https://docs.aws.amazon.com/health/latest/ug/aws-health-concepts-and-terms.html

Pure: text in, a value out.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from karpenter.api.meta import explain

SPOT_INTERRUPTED: Final = "spot_interrupted"
REBALANCE: Final = "rebalance_recommendation"
STOPPED: Final = "instance_stopped"
TERMINATED: Final = "instance_terminated"
RESERVATION_INTERRUPTED: Final = "capacity_reservation_interrupted"
SCHEDULED_CHANGE: Final = "scheduled_change"
NO_OP: Final = "no_op"

# An instance that stops has lost its pods as one that terminates; pending and running are no interruption:
# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/monitoring-instance-state-changes.html
_STATES: Final = {
    "stopping": STOPPED,
    "stopped": STOPPED,
    "shutting-down": TERMINATED,
    "terminated": TERMINATED,
}


class BadMessage(ValueError):  # noqa: N818  says what is wrong
    """A message that cannot be read; it is deleted, since receiving it again does not help."""


class InterruptionMessage(msgspec.Struct, frozen=True, kw_only=True):
    """Content of a message of the interruption queue."""

    kind: str = NO_OP
    instances: tuple[str, ...] = ()

    id: str = ""
    at: datetime | None = None


class _Envelope(msgspec.Struct, frozen=True, kw_only=True):
    version: str = ""
    source: str = ""
    detail_type: str = msgspec.field(name="detail-type", default="")
    id: str = ""
    time: datetime | None = None
    detail: msgspec.Raw = msgspec.Raw(b"{}")


class _InstanceDetail(msgspec.Struct, frozen=True, kw_only=True):
    instance_id: str = msgspec.field(name="instance-id")
    state: str = ""


class _Entity(msgspec.Struct, frozen=True, kw_only=True):
    value: str = msgspec.field(name="entityValue")


class _HealthDetail(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    service: str = ""
    event_type_category: str = ""
    affected_entities: tuple[_Entity, ...] = ()


# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html and
# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/rebalance-recommendations.html
_KINDS: Final = {
    ("0", "aws.ec2", "EC2 Spot Instance Interruption Warning"): SPOT_INTERRUPTED,
    ("0", "aws.ec2", "EC2 Instance Rebalance Recommendation"): REBALANCE,
    ("0", "aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning"): RESERVATION_INTERRUPTED,
}
_STATE_CHANGE: Final = ("0", "aws.ec2", "EC2 Instance State-change Notification")
# Scheduled changes of EC2, such as a retirement, come as events of AWS Health:
# https://docs.aws.amazon.com/health/latest/ug/cloudwatch-events-health.html
_HEALTH: Final = ("0", "aws.health", "AWS Health Event")


def read(body: str) -> InterruptionMessage:
    """
    Return what a message says.

    Raises:
        BadMessage: its body does not have the form of its kind.
    """
    # A body of spaces only is not an event.
    if not body.strip():
        return InterruptionMessage()
    try:
        data = body.encode()
    except UnicodeEncodeError:
        raise BadMessage("it has half a surrogate pair, which is no character") from None
    envelope = _decode(data, _Envelope)
    kind, instances = _kind_and_instances(envelope)
    return InterruptionMessage(kind=kind, instances=instances, id=envelope.id, at=_with_zone(envelope.time))


def _kind_and_instances(envelope: _Envelope) -> tuple[str, tuple[str, ...]]:
    what = (envelope.version, envelope.source, envelope.detail_type)
    if what in _KINDS:
        return _KINDS[what], (_decode(bytes(envelope.detail), _InstanceDetail).instance_id,)
    if what == _STATE_CHANGE:
        changed = _decode(bytes(envelope.detail), _InstanceDetail)
        kind = _STATES.get(changed.state.lower())
        return (kind, (changed.instance_id,)) if kind else (NO_OP, ())
    if what == _HEALTH:
        health = _decode(bytes(envelope.detail), _HealthDetail)
        if (health.service, health.event_type_category) == ("EC2", "scheduledChange"):
            return SCHEDULED_CHANGE, tuple(each.value for each in health.affected_entities)
    return NO_OP, ()


def _decode(data: bytes, kind: type[Any]) -> Any:
    try:
        return msgspec.json.decode(data, type=kind)
    except RecursionError:
        raise BadMessage("it is nested too deep") from None
    except msgspec.ValidationError as error:
        place, problem = explain(str(error))
        raise BadMessage(f"{place}: {problem}" if place else problem) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadMessage(f"it is not JSON: {error}") from error


def _with_zone(moment: datetime | None) -> datetime | None:
    """Return a time with a time zone; EventBridge writes UTC."""
    return moment if moment is None or moment.tzinfo else moment.replace(tzinfo=UTC)
