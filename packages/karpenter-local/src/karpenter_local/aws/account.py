"""
One account of the embedded AWS: its offerings, prices, capacity and recorded calls.

An account lives in one region. It shares nothing with other accounts, so that tests need not clean up. What
it sells comes from the facts that ship with the product; what of that is sold out, reserved or repriced is
said here.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.cloud.catalogs.ec2.data import load_data
from karpenter.cloud.catalogs.ec2.instancetypes import regional_price, spot_price
from karpenter_local.aws.faults import PendingFaults

if TYPE_CHECKING:
    from random import Random

    from karpenter_local.aws.events import AccountEvent

DEFAULT_REGION: Final = "us-west-2"
CLUSTER_ZONES: Final = 3
"""Zones in which a cluster has subnets, where the region has as many."""

ADMINISTRATOR: Final = "admin"
"""The user of IAM that the keys of an account belong to."""

MAX_REMEMBERED_CALLS: Final = 50_000
"""Requests that are remembered: all of a test, and the last of an AWS that runs for days."""


class ManagedNodeGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A managed node group: so many instances of a type, which are there from the beginning."""

    name: str
    type: str = "m5.large"
    count: int = 2


class RecordedCall(msgspec.Struct, frozen=True):
    """A request that was made."""

    service: str
    operation: str
    parameters: Mapping[str, Any]
    principal: str = ""
    """The ARN of the user or of the session of a role that made it."""

    time: datetime | None = None
    """When it came."""

    error: str = ""
    """The code of the error that it ended with; empty if it went well."""


class OfferingPattern(msgspec.Struct, frozen=True, kw_only=True):
    """Selects offerings by capacity type, instance type and zone; an empty field matches all."""

    capacity_type: str = ""
    instance_type: str = ""
    zone: str = ""

    def holds(self, capacity_type: str, instance_type: str, zone: str) -> bool:
        return (
            self.capacity_type in {"", capacity_type}
            and self.instance_type in {"", instance_type}
            and self.zone in {"", zone}
        )


class CapacityError(msgspec.Struct, frozen=True, kw_only=True):
    """The error of a fleet for offerings without capacity."""

    code: str = "InsufficientInstanceCapacity"
    message: str = ""


class InstanceImpairment(msgspec.Struct, frozen=True):
    """A failed status check of an instance, or an event that is scheduled for it."""

    what: str
    """The check that fails, ``instance`` or ``system``, or the code of an event that is scheduled."""

    since: datetime


class Account:
    """An AWS account in one region."""

    def __init__(
        self, number: str, *, region: str = DEFAULT_REGION, types: Iterable[str] | None = None
    ) -> None:
        self.number = number
        self.region = region
        self.types = None if types is None else frozenset(types)
        """The instance types that there are; None means all."""

        self.faults = PendingFaults()
        self.parameters: dict[str, str] = {}
        """SSM parameters that belong to AWS, such as those of EKS images."""

        self.publish: Callable[[str], None] | None = None
        """Publishes the images for a version of Kubernetes, if nothing was published for it yet."""

        self.reservations: dict[str, dict[str, Any]] = {}
        self.placement_groups: dict[str, dict[str, Any]] = {}
        self.shifts: list[dict[str, Any]] = []
        """Shifts of zones, as Application Recovery Controller tells them; times are seconds since 1970."""

        self.on_demand = _on_demand(region, self.types)
        """Prices per hour by instance type."""

        self.spot: dict[tuple[str, str], float] = {}
        """Spot prices by instance type and zone, where they are not those that are modelled."""

        self.answers: dict[str, Any] = {}
        """What was answered to requests that carry a client token, by that token."""

        self.services: dict[str, Any] = {}
        """What services know that are answered beside moto, by their names."""

        self.sessions: dict[str, str] = {}
        """The ARNs of sessions of roles, by the access keys that were given for them."""

        self.partitions: Counter[str] = Counter()
        self.consoles: dict[str, list[str]] = {}
        """What each instance wrote to its console."""

        self.now: Callable[[], datetime] = _now
        """The clock of the account, which may be virtual."""

        self.operated = False
        """Whether instances are operated (:mod:`.room`); if not, state changes take no time."""

        self.lag = 0.0
        """Seconds for which EC2 does not show what it has just launched."""

        self.post: Random | None = None
        """If given, mail is late by chance, and comes twice, and out of order."""

        self.ailments: dict[str, InstanceImpairment] = {}
        """What is wrong with instances, by their ids."""

        self._calls: deque[RecordedCall] = deque(maxlen=MAX_REMEMBERED_CALLS)
        self._empty: dict[OfferingPattern, CapacityError] = {}
        self._limits: dict[OfferingPattern, int] = {}
        self._listeners: list[Callable[[AccountEvent], None]] = []
        self._lock = Lock()

    @property
    def administrator(self) -> str:
        """The ARN of the user whose keys the account's credentials are."""
        return f"arn:aws:iam::{self.number}:user/{ADMINISTRATOR}"

    @property
    def credentials(self) -> dict[str, str]:
        """What an SDK is given to be this account."""
        return {
            "aws_access_key_id": f"AKIA{self.number}",
            "aws_secret_access_key": "not a secret",
            "region_name": self.region,
        }

    def sell_out(self, pattern: OfferingPattern, trouble: CapacityError | None = None) -> None:
        """Let fleets get none of these offerings."""
        with self._lock:
            self._empty[pattern] = trouble or CapacityError()

    def limit(self, pattern: OfferingPattern, count: int) -> None:
        """Let no more than so many instances of these offerings run at a time."""
        with self._lock:
            self._limits[pattern] = count

    def restock(self, pattern: OfferingPattern | None = None) -> None:
        """Undo what was said of the same offerings; of none, let fleets get everything again."""
        with self._lock:
            for held in (self._empty, self._limits):
                for each in list(held):
                    if pattern in {None, each}:
                        del held[each]

    def limits(self, capacity_type: str, instance_type: str, zone: str) -> dict[OfferingPattern, int]:
        """Return how many instances may run of every pattern that matches an offering."""
        with self._lock:
            limits = tuple(self._limits.items())
        return {
            pattern: count for pattern, count in limits if pattern.holds(capacity_type, instance_type, zone)
        }

    def trouble(self, capacity_type: str, instance_type: str, zone: str) -> CapacityError | None:
        """Return why a fleet gets none of an offering, if that is so."""
        with self._lock:
            empty = tuple(self._empty.items())
        return next((t for pattern, t in empty if pattern.holds(capacity_type, instance_type, zone)), None)

    def price(self, capacity_type: str, instance_type: str, zone: str) -> float | None:
        """Return what an offering costs; None when it is not sold."""
        price = self.on_demand.get(instance_type)
        if price is None or capacity_type != "spot":
            return price
        return self.spot.get((instance_type, zone), spot_price(instance_type, zone, price))

    def subscribe(self, listener: Callable[[AccountEvent], None]) -> Callable[[], None]:
        """Call `listener` with every event, in the thread in which it happens; return how to unsubscribe."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def tell(self, happening: AccountEvent) -> None:
        for listener in tuple(self._listeners):
            listener(happening)

    def record(self, call: RecordedCall) -> None:
        with self._lock:
            self._calls.append(call)

    def refused(self, call: RecordedCall, error: str) -> None:
        """Remember how a request ended that was not carried out."""
        with self._lock:
            for place in range(len(self._calls) - 1, -1, -1):
                if self._calls[place] is call:
                    self._calls[place] = msgspec.structs.replace(call, error=error)
                    return

    def calls(self, operation: str = "") -> list[RecordedCall]:
        with self._lock:
            return [each for each in self._calls if operation in {"", each.operation}]

    def forget_calls(self) -> None:
        with self._lock:
            self._calls.clear()

    def sells(self, instance_type: str) -> bool:
        return self.types is None or instance_type in self.types


def zones_of(region: str) -> tuple[str, ...]:
    """Return the zones of a region in which a cluster has subnets."""
    return tuple(sorted(load_data().regions[region].zones))[:CLUSTER_ZONES]


def _now() -> datetime:
    return datetime.now(UTC)


def _on_demand(region: str, types: frozenset[str] | None) -> dict[str, float]:
    data = load_data()
    factor = data.regions[region].price_factor
    return {
        facts.name: regional_price(price, factor)
        for facts, price in zip(data.types, data.prices, strict=True)
        if price is not None and (types is None or facts.name in types)
    }


ACCOUNTS: Final[dict[str, Account]] = {}
"""Every account there is, by its number: the imitation of AWS is one for the whole process."""
