"""
What a message of the interruption queue says.

EventBridge sends events of EC2 and of AWS Health, each in the same envelope. Which kind an event is follows
from its version, source and type. Whatever is none of those that matter is no news: queues are fed by rules
that users write, and rules change.

Pure: text in, a value out.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

import msgspec

SPOT_INTERRUPTED: Final = "spot_interrupted"
REBALANCE: Final = "rebalance_recommendation"
STOPPED: Final = "instance_stopped"
TERMINATED: Final = "instance_terminated"
RESERVATION_INTERRUPTED: Final = "capacity_reservation_interrupted"
SCHEDULED_CHANGE: Final = "scheduled_change"
NO_NEWS: Final = "no_op"

_STATES: Final = {
    "stopping": STOPPED,
    "stopped": STOPPED,
    "shutting-down": TERMINATED,
    "terminated": TERMINATED,
}


class BadMessage(ValueError):  # noqa: N818  says what is wrong
    """A message that nobody can read; it is thrown away, since it will not get better."""


class InterruptionMessage(msgspec.Struct, frozen=True, kw_only=True):
    """What a message tells."""

    kind: str = NO_NEWS
    instances: tuple[str, ...] = ()
    """The ids of the instances that it is about."""

    id: str = ""
    at: datetime | None = None
    """When it happened."""


class _Envelope(msgspec.Struct, frozen=True, kw_only=True):
    version: str = ""
    source: str = ""
    detail_type: str = msgspec.field(name="detail-type", default="")
    id: str = ""
    time: datetime | None = None
    detail: msgspec.Raw = msgspec.Raw(b"{}")


class _OfInstance(msgspec.Struct, frozen=True, kw_only=True):
    instance_id: str = msgspec.field(name="instance-id")
    state: str = ""


class _Entity(msgspec.Struct, frozen=True, kw_only=True):
    value: str = msgspec.field(name="entityValue")


class _OfHealth(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    service: str = ""
    event_type_category: str = ""
    affected_entities: tuple[_Entity, ...] = ()


_KINDS: Final = {
    ("0", "aws.ec2", "EC2 Spot Instance Interruption Warning"): SPOT_INTERRUPTED,
    ("0", "aws.ec2", "EC2 Instance Rebalance Recommendation"): REBALANCE,
    ("0", "aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning"): RESERVATION_INTERRUPTED,
}
_STATE_CHANGE: Final = ("0", "aws.ec2", "EC2 Instance State-change Notification")
_HEALTH: Final = ("0", "aws.health", "AWS Health Event")


def read(body: str) -> InterruptionMessage:
    """
    Return what a message tells.

    Raises:
        BadMessage: it is not what its envelope says that it is.
    """
    if not body.strip():
        return InterruptionMessage()
    envelope = _decode(body.encode(), _Envelope)
    kind, instances = _meaning(envelope)
    return InterruptionMessage(kind=kind, instances=instances, id=envelope.id, at=_with_zone(envelope.time))


def _meaning(envelope: _Envelope) -> tuple[str, tuple[str, ...]]:
    what = (envelope.version, envelope.source, envelope.detail_type)
    if what in _KINDS:
        return _KINDS[what], (_decode(bytes(envelope.detail), _OfInstance).instance_id,)
    if what == _STATE_CHANGE:
        changed = _decode(bytes(envelope.detail), _OfInstance)
        kind = _STATES.get(changed.state.lower())
        return (kind, (changed.instance_id,)) if kind else (NO_NEWS, ())
    if what == _HEALTH:
        health = _decode(bytes(envelope.detail), _OfHealth)
        if (health.service, health.event_type_category) == ("EC2", "scheduledChange"):
            return SCHEDULED_CHANGE, tuple(each.value for each in health.affected_entities)
    return NO_NEWS, ()


def _decode(data: bytes, kind: type[Any]) -> Any:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadMessage(str(error)) from error


def _with_zone(moment: datetime | None) -> datetime | None:
    """Return a time that says which zone it is of; EventBridge writes UTC."""
    return moment if moment is None or moment.tzinfo else moment.replace(tzinfo=UTC)
