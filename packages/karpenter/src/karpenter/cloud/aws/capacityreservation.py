"""
The capacity reservations that a node class selects, and how many instances each has left.

EC2 reports the available count of a reservation with a delay. So a launch subtracts one at once, a
termination adds one, and a launch that fails for lack of capacity sets the count to zero, until EC2 is asked
again.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

import structlog

from karpenter.api.ec2nodeclass_status import (
    ACTIVE,
    CAPACITY_BLOCK,
    DEFAULT_RESERVATION,
    EXPIRING,
    CapacityReservation,
)
from karpenter.cloud.aws.cache import TTLCache
from karpenter.cloud.aws.errors import ResourceNotFound
from karpenter.cloud.aws.subnet import by_tags, key_of, where

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from karpenter.api.ec2nodeclass import CapacityReservationSelectorTerm
    from karpenter.base.clock import Clock
    from karpenter.cloud.aws.sdk import ApiResponse, AwsApi

log = structlog.stdlib.get_logger(__name__)

EXPIRES_BEFORE: Final = timedelta(minutes=40)
"""
How long before its end a capacity block takes no new instances. EC2 terminates them 30 minutes before:
https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-capacity-blocks.html
"""

_REMEMBERED: Final = 60.0
# EC2 is eventually consistent: AvailableInstanceCount may not show a launch yet. Launches are counted here,
# and every lookup corrects the count:
# https://docs.aws.amazon.com/ec2/latest/devguide/eventual-consistency.html
_COUNTED_FOR: Final = 24 * 3600.0
# The largest page of DescribeCapacityReservations:
# https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeCapacityReservations.html
_PAGE: Final = 1000
# An open reservation takes any matching instance, a targeted one only those that name it:
# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-capacity-reservations.html
_CRITERIA: Final = frozenset({"open", "targeted"})
# Capacity blocks are for machine learning, start and end at fixed times, and are bought in advance:
# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-capacity-blocks.html
_TYPES: Final = frozenset({DEFAULT_RESERVATION, CAPACITY_BLOCK})


class CapacityReservationProvider:
    """Finds capacity reservations, and counts what is left of them."""

    def __init__(self, aws: AwsApi, *, clock: Clock) -> None:
        self._aws = aws
        self._clock = clock
        self._found: TTLCache[bytes, list[ApiResponse]] = TTLCache(
            seconds=_REMEMBERED, monotonic=clock.monotonic
        )
        self._left: TTLCache[str, int] = TTLCache(seconds=_COUNTED_FOR, monotonic=clock.monotonic)
        self.changes = 0
        """Grows whenever a count changes."""

    async def find(
        self, terms: tuple[CapacityReservationSelectorTerm, ...]
    ) -> tuple[CapacityReservation, ...]:
        """Return the active reservations that any term selects, by id; none when there are no terms."""
        if not terms:
            return ()
        now = self._clock.now()
        told = await self._found.get(key_of(terms), lambda: self._look(terms))
        alive = [each for each in told if each.get("EndDate") is None or each["EndDate"] > now]
        read = (_reservation(each, now) for each in alive)
        return tuple(sorted((each for each in read if each is not None), key=lambda each: each.id))

    def left(self, reservation: str) -> int:
        """Return how many machines a reservation still holds; zero when it is not known."""
        return self._left.peek(reservation) or 0

    def launched(self, reservation: str) -> None:
        """Note that a machine was launched into a reservation."""
        self._count(reservation, max(0, self.left(reservation) - 1))

    def ended(self, reservation: str) -> None:
        """Note that a machine of a reservation is gone."""
        self._count(reservation, self.left(reservation) + 1)

    def used_up(self, reservation: str) -> None:
        """Note that a reservation has nothing left."""
        self._count(reservation, 0)

    def _count(self, reservation: str, left: int) -> None:
        if self._left.peek(reservation) != left:
            self.changes += 1
        self._left.put(reservation, left)

    async def _look(self, terms: Iterable[CapacityReservationSelectorTerm]) -> list[ApiResponse]:
        found: dict[str, ApiResponse] = {}
        for term in terms:
            for each in await self._of(term):
                found[each["CapacityReservationId"]] = each
        for number, each in found.items():
            self._count(number, each.get("AvailableInstanceCount", 0))
        return list(found.values())

    async def _of(self, term: CapacityReservationSelectorTerm) -> list[ApiResponse]:
        active = where("state", ACTIVE)
        found: list[ApiResponse] = []
        if term.id:
            try:
                found += await self._aws.list_all(
                    "ec2",
                    "DescribeCapacityReservations",
                    "CapacityReservations",
                    CapacityReservationIds=[term.id],
                    Filters=[active],
                )
            except ResourceNotFound:
                log.warning("reservation.missed", reservation=term.id)
            if not term.tags:
                return found
        filters = [active, *by_tags(term.tags)]
        if term.owner_id:
            filters.append(where("owner-id", term.owner_id))
        if term.instance_match_criteria:
            filters.append(where("instance-match-criteria", term.instance_match_criteria))
        found += await self._aws.list_all(
            "ec2",
            "DescribeCapacityReservations",
            "CapacityReservations",
            Filters=filters,
            MaxResults=_PAGE,
        )
        return found


def state_of(reservation_type: str, end: datetime | None, now: datetime) -> str:
    """Return whether machines may still be launched into a reservation."""
    block = reservation_type == CAPACITY_BLOCK
    return EXPIRING if block and end is not None and now >= end - EXPIRES_BEFORE else ACTIVE


def _reservation(told: ApiResponse, now: datetime) -> CapacityReservation | None:
    """Return a reservation; None when it is of a kind that we do not know, which is logged."""
    criteria = told.get("InstanceMatchCriteria", "open")
    kind = told.get("ReservationType") or DEFAULT_RESERVATION
    if criteria not in _CRITERIA or kind not in _TYPES:
        log.error(
            "reservation.unknown_kind",
            reservation=told["CapacityReservationId"],
            criteria=criteria,
            type=kind,
        )
        return None
    end = told.get("EndDate")
    return CapacityReservation(
        id=told["CapacityReservationId"],
        availability_zone=told["AvailabilityZone"],
        end_time=end,
        instance_match_criteria=criteria,
        instance_type=told["InstanceType"],
        owner_id=told["OwnerId"],
        reservation_type=kind,
        interruptible=bool(told.get("Interruptible", False)),
        state=state_of(kind, end, now),
    )
