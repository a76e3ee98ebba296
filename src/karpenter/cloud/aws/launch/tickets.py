"""
How a machine can be told to be that of a claim, although one request launches machines for many claims.

Every claim of a request has a ticket, a few characters made from its uid, and every instance of the request
is tagged with all of them from its birth. Machines of one request are all alike, so when an answer was lost,
each of its claims takes any of them that nobody else has.
"""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING, Final

from karpenter.cloud.aws.words import LAUNCH_TAG

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

LENGTH: Final = 8
PER_TAG: Final = 32
"""Tickets in one tag, whose value EC2 limits to 256 characters."""

MOST_TAGS: Final = 50
"""Tags that EC2 takes on one instance."""

_SPARE_TAGS: Final = 3
"""Tags that are put on an instance later: its name, its claim, its cluster."""


def ticket(uid: str) -> str:
    """Return the ticket of a claim."""
    digest = hashlib.sha256(uid.encode()).digest()
    return base64.urlsafe_b64encode(digest)[:LENGTH].decode()


def ticket_tags(uids: Iterable[str]) -> dict[str, str]:
    """Return the tags of instances that are launched for some claims."""
    tickets = sorted(ticket(uid) for uid in uids)
    return {
        f"{LAUNCH_TAG}-{number // PER_TAG}": "".join(tickets[number : number + PER_TAG])
        for number in range(0, len(tickets), PER_TAG)
    }


def is_for(tags: Mapping[str, str], uid: str) -> bool:
    """Say whether an instance with these tags was launched for a claim, perhaps among others."""
    wanted = ticket(uid)
    return any(
        wanted == value[place : place + LENGTH]
        for key, value in tags.items()
        if key.startswith(LAUNCH_TAG)
        for place in range(0, len(value), LENGTH)
    )


def most_tickets(tags: int) -> int:
    """Return how many claims one request may be for, when its instances have so many other tags."""
    return max(1, MOST_TAGS - _SPARE_TAGS - tags) * PER_TAG
