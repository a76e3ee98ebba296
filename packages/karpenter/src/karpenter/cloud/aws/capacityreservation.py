"""
The capacity reservations that a node class selects, and how many instances each has left.

EC2 reports the available count of a reservation with a delay. So a launch subtracts one at once, a
termination adds one, and a launch that fails for lack of capacity sets the count to zero, until EC2 is asked
again.

An instance whose reservation is cancelled runs on as an on-demand instance, and the labels of its claim and
node are changed. A capacity block ends with its instances, so their claims are deleted before.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

import structlog

from karpenter.api.ec2nodeclass import CapacityReservationSelectorTerm
from karpenter.api.ec2nodeclass_status import (
    ACTIVE,
    CAPACITY_BLOCK,
    DEFAULT_RESERVATION,
    EXPIRING,
    CapacityReservation,
)
from karpenter.api.labels import CAPACITY_TYPE, ON_DEMAND, REGISTERED, RESERVED
from karpenter.cloud.aws.cache import TTLCache
from karpenter.cloud.aws.errors import ResourceNotFound
from karpenter.cloud.aws.labels import RESERVATION_ID, RESERVATION_INTERRUPTIBLE, RESERVATION_TYPE
from karpenter.cloud.aws.subnet import by_tags, key_of, where
from karpenter.core.effects import Amend, Effect, Step
from karpenter.core.lifecycle.conditions import delete_claim

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from karpenter.api.node import Node
    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.base.clock import Clock
    from karpenter.cloud.aws.instance.instance import InstanceProvider
    from karpenter.cloud.aws.sdk import ApiResponse, AwsApi
    from karpenter.core.state.cluster import ClusterView

log = structlog.stdlib.get_logger(__name__)

EXPIRES_BEFORE: Final = timedelta(minutes=40)
"""
How long before its end a capacity block takes no new instances. EC2 terminates them 30 minutes before:
https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-capacity-blocks.html
"""

_REMEMBERED_SECONDS: Final = 60.0
# EC2 is eventually consistent: AvailableInstanceCount may not show a launch yet. Launches are counted here,
# and every lookup corrects the count:
# https://docs.aws.amazon.com/ec2/latest/devguide/eventual-consistency.html
_COUNTED_SECONDS: Final = 24 * 3600.0
# The largest page of DescribeCapacityReservations:
# https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeCapacityReservations.html
_PAGE_SIZE: Final = 1000
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
            seconds=_REMEMBERED_SECONDS, monotonic=clock.monotonic
        )
        self._left: TTLCache[str, int] = TTLCache(seconds=_COUNTED_SECONDS, monotonic=clock.monotonic)
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
        self._count(reservation, max(0, self.left(reservation) - 1))

    def ended(self, reservation: str) -> None:
        self._count(reservation, self.left(reservation) + 1)

    def used_up(self, reservation: str) -> None:
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
            MaxResults=_PAGE_SIZE,
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


POLL_SECONDS: Final = 60.0


class CapacityTypeController:
    """Relabels nodes that have lost their reservation as on-demand."""

    name = "capacityreservation.capacitytype"

    def __init__(self, *, view: Callable[[], ClusterView], instances: InstanceProvider) -> None:
        self._view = view
        self._instances = instances

    async def look(self) -> Step:
        """Compare the labels of reserved claims and their nodes with EC2."""
        if not _reserved(self._view()):
            return Step(again=POLL_SECONDS)
        kinds = {each.provider_id: each.capacity_type for each in await self._instances.all()}
        # A node is looked at for itself: an operator may have ended after it had written the claim.
        demoted = [item for number, item in _reserved(self._view()) if kinds.get(number) == ON_DEMAND]
        return Step(effects=tuple(map(_demoted, demoted)), again=POLL_SECONDS)


class ReservationExpirationController:
    """Deletes claims whose capacity block is about to end."""

    name = "capacityreservation.expiration"

    def __init__(self, *, view: Callable[[], ClusterView], reservations: CapacityReservationProvider) -> None:
        self._view = view
        self._reservations = reservations

    async def look(self) -> Step:
        """Ask for the reservations that instances are in."""
        held = [
            each
            for each in self._view().claims.values()
            if _is_reserved(each)
            and each.metadata.labels.get(RESERVATION_ID)
            and each.metadata.deletion_timestamp is None
        ]
        numbers = sorted({each.metadata.labels[RESERVATION_ID] for each in held})
        terms = tuple(CapacityReservationSelectorTerm(id=number) for number in numbers)
        found = await self._reservations.find(terms) if terms else ()
        ending = {each.id for each in found if each.state == EXPIRING}
        effects: list[Effect] = []
        for claim in held:
            number = claim.metadata.labels[RESERVATION_ID]
            if number in ending:
                because = f"capacity block {number} is about to end"
                effects += delete_claim(claim, "capacity_reservation_expiring", because)
        return Step(effects=tuple(effects), again=POLL_SECONDS)


def _is_reserved(item: NodeClaim | Node) -> bool:
    return item.metadata.labels.get(CAPACITY_TYPE) == RESERVED


def _reserved(view: ClusterView) -> list[tuple[str, NodeClaim | Node]]:
    """Return the claims and registered nodes that say they are reserved and stay, with their machines."""
    items: list[tuple[str, NodeClaim | Node]] = [
        (each.status.provider_id, each) for each in view.claims.values()
    ]
    items += [
        (each.spec.provider_id, each)
        for each in view.nodes.values()
        if each.metadata.labels.get(REGISTERED) == "true"
    ]
    return [
        (number, item)
        for number, item in items
        if number and _is_reserved(item) and item.metadata.deletion_timestamp is None
    ]


def _demoted(item: NodeClaim | Node) -> Amend:
    gone = (RESERVATION_ID, RESERVATION_TYPE, RESERVATION_INTERRUPTIBLE)
    labels: dict[str, str | None] = {CAPACITY_TYPE: ON_DEMAND, **dict.fromkeys(gone)}
    because = "its machine has lost its reservation"
    return Amend(kind=item.kind, name=item.name, changes={"metadata": {"labels": labels}}, because=because)
