"""
Events of an account, as values, for subscribers of :class:`~karpenter_local.aws.account.Account`.

Subscribers are called in the thread in which the event happens, which is rarely that of an event loop.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec


class InstanceLaunched(msgspec.Struct, frozen=True):
    """An instance was launched."""

    instance: str


class InstanceEnded(msgspec.Struct, frozen=True):
    """The end of an instance has begun."""

    instance: str


class InterruptionScheduled(msgspec.Struct, frozen=True):
    """An instance will be taken away, so many seconds from now."""

    instance: str
    after: float


class MessageSent(msgspec.Struct, frozen=True):
    """A message was put into the queues."""


AccountEvent: TypeAlias = InstanceLaunched | InstanceEnded | InterruptionScheduled | MessageSent
