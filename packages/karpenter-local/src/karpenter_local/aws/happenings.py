"""
What happens in an account that others may want to know of: inert values, told as they happen.

They are told in the thread in which they happen, which is hardly ever that of an event loop.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec


class Launched(msgspec.Struct, frozen=True):
    """An instance was launched."""

    instance: str


class Ended(msgspec.Struct, frozen=True):
    """The end of an instance has begun."""

    instance: str


class Doomed(msgspec.Struct, frozen=True):
    """An instance will be taken away, so many seconds from now."""

    instance: str
    after: float


class Mailed(msgspec.Struct, frozen=True):
    """A message was put into the queues."""


Happening: TypeAlias = Launched | Ended | Doomed | Mailed
