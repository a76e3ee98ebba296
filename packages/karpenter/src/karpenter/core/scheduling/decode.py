"""
Decoding: what a finished schedule means as a plan, from numbers back to names.

The offering that would be launched is worked out for all claims at once; the long list of instance types
that fit as well is worked out for one claim, when it is read.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from copy import copy
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import numpy as np

from karpenter.api.labels import (
    CAPACITY_OVERLAY_APPLIED,
    CAPACITY_TYPE,
    HOSTNAME,
    INSTANCE_TYPE,
    MIN_VALUES_RELAXED,
    PRICE_OVERLAY_APPLIED,
    REQUESTED_DRA_DRIVERS,
    ZONE,
)
from karpenter.core.model.requirement import Requirement
from karpenter.core.model.requirements import Requirements
from karpenter.core.scheduling.pack.reservationmanager import ReservationManager, fitting_offerings
from karpenter.core.scheduling.problem import MAX_INSTANCE_TYPES, NewNode, Purchase

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from karpenter.core.model.catalog import InstanceType, Offering
    from karpenter.core.scheduling.encode.nodeclaimtemplate import Template
    from karpenter.core.scheduling.encode.offerings import Bits, PoolOfferingTable
    from karpenter.core.scheduling.pack.nodeclaim import ClaimState
    from karpenter.core.scheduling.pack.scheduler import Scheduler

_CHUNK: Final = 512
_NO_MIN_VALUES: Final[Mapping[str, int]] = MappingProxyType({})


class ClaimInstanceTypeOptions:
    """The instance types and offerings that one claim may be launched as."""

    __slots__ = ("_allowed", "_bits", "_min_values", "_relaxed", "_reserved", "_state", "_used", "_zone")

    def __init__(self, scheduler: Scheduler, claim: int, allowed: NDArray[np.bool_] | None = None) -> None:
        self._allowed = allowed
        self._state = scheduler.claims.states[claim]
        self._used = scheduler.claims.totals[claim]
        self._reserved = scheduler.reservations.held(claim)
        self._min_values = scheduler.least.get(claim, _NO_MIN_VALUES)
        self._relaxed = claim in scheduler.relaxed
        self._bits = 0
        self._zone = ""

    def bits(self) -> int:
        if not self._bits:
            bits = fitting_offerings(self._state, self._used)
            template = self._state.template
            if self._allowed is not None:
                bits = template.table.keep_types(bits, self._allowed)
            self._bits = (
                ReservationManager.usable(self._reserved, template, bits) if template.reserves else bits
            )
        return self._bits

    @property
    def template(self) -> Template:
        return self._state.template

    @property
    def table(self) -> PoolOfferingTable:
        return self._state.template.table

    def narrowed(self, bits: int, zone: str = "") -> ClaimInstanceTypeOptions:
        """Return the same with fewer offerings, all of them in `zone` where one is given."""
        found = copy(self)
        found._bits = bits  # noqa: SLF001  a copy of this class
        found._zone = zone or self._zone  # noqa: SLF001  the same
        return found

    def type_names(self) -> tuple[str, ...]:
        """Return every instance type that fits, cheapest first, as many as one NodeClaim may name."""
        table = self._state.template.table
        flags = table.flags(self.bits())
        cheapest = np.full(len(table.types), np.inf)
        np.minimum.at(cheapest, table.owner[flags], table.price[flags])
        order = np.argsort(cheapest, kind="stable")
        kinds = order[np.isfinite(cheapest[order])].tolist()
        return tuple(table.types[kind].name for kind in self._with_min_values(kinds))

    def _with_min_values(self, kinds: list[int]) -> list[int]:
        """Truncate the list to what one NodeClaim may name, keeping the types that minValues need."""
        if not self._min_values:
            return kinds[:MAX_INSTANCE_TYPES]
        types = self._state.template.table.types
        kept: list[int] = []
        for key, least in self._min_values.items():
            seen: set[str] = set()
            for kind in kinds:
                values = types[kind].requirements[key].values
                if len(seen) < least and not values <= seen:
                    seen |= values
                    kept.append(kind)
        wanted = set(kept[:MAX_INSTANCE_TYPES])
        others = [kind for kind in kinds if kind not in wanted]
        wanted.update(others[: MAX_INSTANCE_TYPES - len(wanted)])
        return [kind for kind in kinds if kind in wanted]

    def requirements(self, types: tuple[str, ...]) -> Requirements:
        table = self._state.template.table
        found = self._state.requirements.without(HOSTNAME)
        named = set(types)
        bits = table.keep_types(self.bits(), np.array([kind.name in named for kind in table.types], bool))
        # The NodeClaim names its instance types and capacity types, so that the provider launches nothing
        # else.
        narrow = [
            Requirement(INSTANCE_TYPE, frozenset(types)),
            Requirement(CAPACITY_TYPE, table.values(CAPACITY_TYPE, bits)),
        ]
        if self._reserved:
            narrow.append(_reservations(table, bits))
        if self._zone:
            narrow.append(Requirement(ZONE, frozenset({self._zone})))
        found = found.intersect(Requirements.of(narrow))
        if self._relaxed:
            found = Requirements.of(
                Requirement(
                    r.key, r.values, r.complement, r.gte, r.lte, self._min_values.get(r.key, r.min_values)
                )
                for r in found
            )
        return found

    def requests(self) -> Mapping[str, int]:
        """Return the requests of the pods, and the least that daemons add on any type."""
        template = self._state.template
        axis = template.table.axis
        total = {name: amount for name, amount in zip(axis, self._used, strict=True) if amount}
        overheads = [template.overhead[kind] for kind in template.table.types_of(self.bits())]
        for name in sorted({name for each in overheads for name in each}):
            least = min(each.get(name, 0) for each in overheads)
            if least:
                total[name] = total.get(name, 0) + least
        return total


def _reservations(table: PoolOfferingTable, bits: Bits) -> Requirement:
    """Return the reservations of some reserved offerings as a requirement on the reservation label."""
    offers = [table.offerings[number] for number in np.flatnonzero(table.flags(bits)).tolist()]
    ids = frozenset(each.reservation_id for each in offers)
    told = (r.key for r in offers[0].requirements if r.values == {offers[0].reservation_id})
    return Requirement(next(told), ids)


class DecodedPlan:
    """A finished schedule as values of a plan; each part is worked out once, on demand."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    @cached_property
    def hourly(self) -> float:
        """What the new nodes cost per hour."""
        states = self._scheduler.claims.states
        return float(sum(states[c].template.table.price[o] for c, o in enumerate(self._bought.tolist())))

    @cached_property
    def placed(self) -> dict[str, tuple[str, ...]]:
        """Which pods go to which existing node."""
        names = ((number, node.name) for number, node in enumerate(self._scheduler.problem.nodes))
        return {name: tuple(self._pods[number]) for number, name in names if self._pods.get(number)}

    @cached_property
    def new_nodes(self) -> tuple[NewNode, ...]:
        scheduler, numbers = self._scheduler, Counter[str]()
        labels: dict[int, dict[str, str]] = {}
        purchases: dict[tuple[int, int], Purchase] = {}
        found = []
        for claim, state in enumerate(scheduler.claims.states):
            pool = state.template.pool
            numbers[pool.name] += 1
            if state.number not in labels:
                labels[state.number] = _labels(scheduler, state)
            table = state.template.table
            number = int(self._bought[claim])
            kind = table.types[int(table.owner[number])]
            purchase = purchases.get((state.template.number, number))
            if purchase is None:
                purchase = _purchase(kind, table.offerings[number])
                purchases[state.template.number, number] = purchase
            found.append(
                NewNode(
                    name=f"{pool.name}-{numbers[pool.name]}",
                    pool=pool.name,
                    purchase=purchase,
                    pods=tuple(self._pods[scheduler.nodes.count + claim]),
                    instance_type_options=ClaimInstanceTypeOptions(
                        scheduler, claim, self._allowed_types.get(claim)
                    ),
                    annotations=_annotations(scheduler, claim, kind.name),
                    taints=pool.taints,
                    startup_taints=pool.startup_taints,
                    labels=labels[state.number],
                    allocatable=kind.allocatable,
                )
            )
        return tuple(found)

    @cached_property
    def _allowed_types(self) -> dict[int, NDArray[np.bool_]]:
        """The types that claims may become where NodePool limits bind."""
        found: dict[int, NDArray[np.bool_]] = {}
        for limits in self._scheduler.pool_limits.values():
            if limits.is_exact:
                found.update(limits.allowed_types())
        return found

    @cached_property
    def _bought(self) -> NDArray[np.int64]:
        # The price of a schedule is asked before it is chosen, and again when it is decoded.
        scheduler = self._scheduler
        made, found = scheduler.bought
        if made != len(scheduler.placements):
            found = _purchases(scheduler, self._allowed_types)
            scheduler.bought = (len(scheduler.placements), found)
        return found

    @cached_property
    def _pods(self) -> dict[int, list[str]]:
        return _pods_of(self._scheduler)


def _purchase(kind: InstanceType, offering: Offering) -> Purchase:
    return Purchase(
        instance_type=kind.name,
        zone=offering.zone,
        capacity_type=offering.capacity_type,
        price=offering.price,
        reservation_id=offering.reservation_id,
        parts=offering.parts,
    )


def hourly(scheduler: Scheduler) -> float:
    """Return what the new nodes of a schedule cost per hour."""
    return DecodedPlan(scheduler).hourly


def _pods_of(scheduler: Scheduler) -> dict[int, list[str]]:
    """Return pod keys per bin; the pods of a class are interchangeable and assigned in order."""
    assigned: dict[int, int] = defaultdict(int)
    found: dict[int, list[str]] = defaultdict(list)
    for pod_data, number, count in scheduler.placements.rows():
        pod_class = pod_data.pod_class
        start = assigned[pod_class.number]
        assigned[pod_class.number] = start + count
        if count == 1:
            found[number].append(pod_class.pods[start].key)
        else:
            found[number].extend([pod.key for pod in pod_class.pods[start : start + count]])
    return found


def _purchases(scheduler: Scheduler, allowed_types: Mapping[int, NDArray[np.bool_]]) -> NDArray[np.int64]:
    """Return the cheapest offering of every claim, by its number in the offering table."""
    count = scheduler.claims.count
    bought = np.zeros(count, np.int64)
    alike: dict[tuple[int, int], list[int]] = defaultdict(list)
    for claim, number in enumerate(scheduler.claims.state[:count].tolist()):
        state = scheduler.states.all[number]
        if state.template.reserves:
            bought[claim] = _cheapest(
                state, ClaimInstanceTypeOptions(scheduler, claim, allowed_types.get(claim)).bits()
            )
        else:
            alike[number, id(allowed_types.get(claim))].append(claim)
    for (number, _), members in alike.items():
        state, allowed = scheduler.states.all[number], allowed_types.get(members[0])
        for start in range(0, len(members), _CHUNK):
            some = members[start : start + _CHUNK]
            bought[some] = _cheapest_of_many(state, scheduler.claims.used[:, some], allowed)
    return bought


def _cheapest(state: ClaimState, bits: int) -> int:
    table = state.template.table
    candidates = np.flatnonzero(table.flags(bits))
    return int(candidates[table.price[candidates].argmin()])


def _cheapest_of_many(
    state: ClaimState, used: NDArray[np.int64], allowed: NDArray[np.bool_] | None
) -> NDArray[np.int64]:
    """Return the cheapest offering with room, for many claims in one state (``used[resource, claim]``)."""
    offerings, rooms = state.cheapest_offerings
    if allowed is not None:
        fine = allowed[state.template.table.owner[offerings]]
        offerings, rooms = offerings[fine], rooms[fine]
    fits = np.ones((used.shape[1], len(offerings)), bool)
    for amounts, room in zip(used, rooms.T, strict=True):
        fits &= amounts[:, None] <= room
    found: NDArray[np.int64] = offerings[fits.argmax(axis=1)]  # some type of its state holds every claim
    return found


def _labels(scheduler: Scheduler, state: ClaimState) -> dict[str, str]:
    """Return the labels that a node will have; of a custom label with several values, one."""
    rules = scheduler.problem.rules
    labels = dict(state.template.pool.labels) | state.requirements.labels()
    for each in state.requirements:
        if each.key not in labels and each.key not in rules.well_known and not rules.is_restricted(each.key):
            sample = each.sample()
            if sample:
                labels[each.key] = sample
    # The kubelet sets the hostname label; a NodeClaim must not carry one.
    labels.pop(HOSTNAME, None)
    return labels


def _annotations(scheduler: Scheduler, claim: int, kind: str) -> dict[str, str]:
    pool = scheduler.claims.states[claim].template.pool
    price, capacity = pool.overlaid.get(kind, (False, False))
    found = dict(pool.annotations)
    # Every NodeClaim has this annotation, true or false, as upstream's have.
    found[MIN_VALUES_RELAXED] = "true" if claim in scheduler.relaxed else "false"
    if price:
        found[PRICE_OVERLAY_APPLIED] = "true"
    if capacity:
        found[CAPACITY_OVERLAY_APPLIED] = "true"
    drivers = (
        scheduler.devices.drivers(scheduler.nodes.count + claim) if scheduler.devices is not None else ()
    )
    if drivers:
        found[REQUESTED_DRA_DRIVERS] = ",".join(drivers)
    return found
