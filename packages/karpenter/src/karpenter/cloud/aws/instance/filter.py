"""
Chooses the instance types and offerings that a launch asks EC2 for.

The filters are Karpenter's, and run in its order: compatible and available offerings, one type of capacity
reservation, one capacity block, one reservation per zone, no exotic instance types, no expensive spot
offerings; then the list is truncated. Only the first filter and the check of minValues can leave nothing.

Pure, but for log lines that say what was left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import structlog

from karpenter.api.ec2nodeclass_status import CAPACITY_BLOCK, DEFAULT_RESERVATION
from karpenter.api.labels import CAPACITY_TYPE, INSTANCE_TYPE, MIN_VALUES_RELAXED, ON_DEMAND, RESERVED, SPOT
from karpenter.cloud.aws.labels import (
    DEDICATED_TENANCY,
    DEFAULT_TENANCY,
    RESERVATION_INTERRUPTIBLE,
    RESERVATION_TYPE,
    TENANCY,
)
from karpenter.cloud.catalogs.ec2.instancetypes import GPU_OF, NEURON
from karpenter.cloud.errors import InsufficientCapacity
from karpenter.core.model.catalog import Catalog, InstanceType, Offering
from karpenter.core.model.requirements import Requirements
from karpenter.core.model.resources import fits, parse_resources

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from karpenter.api.nodeclaim import NodeClaim

log = structlog.stdlib.get_logger(__name__)

MAX_INSTANCE_TYPES: Final = 60
"""Instance types in one CreateFleet request, as in Karpenter; a request has a limited size."""

MIN_FLEXIBLE_TYPES: Final = 5
"""With fewer instance types, a launch that falls back from spot to on-demand is likely to fail again."""

# GPU and accelerator types are scarce and expensive; a pod that does not ask for one must not take it:
# https://github.com/aws/karpenter-provider-aws
_EXOTIC: Final = (*GPU_OF.values(), NEURON)
# A fleet request has one kind of reservation: the options of CreateFleet differ for each.
# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/create-ec2-fleet.html
_RESERVATION_KINDS: Final = (
    (DEFAULT_RESERVATION, False),
    (CAPACITY_BLOCK, False),
    (DEFAULT_RESERVATION, True),
)
"""Types of capacity reservation, and whether they are interruptible. Of equal prices the first wins."""


class InstanceOption(msgspec.Struct, frozen=True):
    """An instance type that satisfies a claim, and those of its offerings that do."""

    kind: InstanceType
    offerings: tuple[Offering, ...]

    @property
    def cheapest(self) -> float:
        return min(each.price for each in self.offerings)


class LaunchOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The instance types and offerings that one launch asks for; all offerings are of one capacity type."""

    options: tuple[InstanceOption, ...]
    capacity_type: str
    tenancy: str = DEFAULT_TENANCY
    reservation_type: str = ""
    interruptible: bool = False


def filter_instance_types(catalog: Catalog, claim: NodeClaim) -> LaunchOptions:
    """
    Return the instance types and offerings to ask EC2 for.

    Raises:
        InsufficientCapacity: no available offering satisfies the claim.
        RequirementError, QuantityError: the claim cannot be read.
    """
    wanted = Requirements.from_entries(claim.spec.requirements)
    has_min_values = any(each.min_values for each in wanted)
    options = _compatible_available(catalog, wanted, claim)
    if not options:
        raise InsufficientCapacity(because="no instance type that is available satisfies the claim")
    if wanted[CAPACITY_TYPE].allows(RESERVED):
        options = _reserved_offering_filter(
            _capacity_block_filter(_capacity_reservation_type_filter(options))
        )
    # minValues asks for flexibility; a filter that narrows the types could make it impossible:
    # https://karpenter.sh/docs/concepts/nodepools/#min-values
    if not has_min_values:
        options = _exotic_instance_type_filter(options)
        options = _spot_offering_filter(options, wanted)
    options = _truncate(options, wanted, relaxed=claim.metadata.annotations.get(MIN_VALUES_RELAXED) == "true")
    return _launch_options(options, wanted, claim)


def _compatible_available(catalog: Catalog, wanted: Requirements, claim: NodeClaim) -> list[InstanceOption]:
    requests = parse_resources(claim.spec.resources.requests)
    known = catalog.label_rules.well_known
    named = wanted[INSTANCE_TYPE]
    found = []
    for kind in catalog.types:
        if not named.allows(kind.name) or not fits(requests, kind.allocatable):
            continue
        if not wanted.accepts(kind.requirements, known):
            continue
        offerings = tuple(each for each in kind.available if wanted.accepts(each.requirements, known))
        if offerings:
            found.append(InstanceOption(kind, offerings))
    return found


def _reservation_kind(offering: Offering) -> tuple[str, bool]:
    """Return the type of the reservation of an offering, and whether it is interruptible."""
    said = offering.requirements
    return min(said[RESERVATION_TYPE].values), "true" in said[RESERVATION_INTERRUPTIBLE].values


def _capacity_reservation_type_filter(options: list[InstanceOption]) -> list[InstanceOption]:
    """Keep the type of capacity reservation with the cheapest offering; everything if none is reserved."""
    prices: dict[tuple[str, bool], float] = {}
    for option in options:
        for each in option.offerings:
            if each.capacity_type == RESERVED:
                reservation = _reservation_kind(each)
                prices[reservation] = min(each.price, prices.get(reservation, each.price))
    if not prices:
        return options
    best = min(
        (reservation for reservation in _RESERVATION_KINDS if reservation in prices),
        key=lambda reservation: prices[reservation],
    )
    return _with_offerings(
        options, lambda each: each.capacity_type == RESERVED and _reservation_kind(each) == best
    )


def _capacity_block_filter(options: list[InstanceOption]) -> list[InstanceOption]:
    """
    Keep the cheapest capacity block only, since a launch names a single one.

    https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-capacity-blocks.html
    """
    blocks = [
        (each.price, place, option, each)
        for place, option in enumerate(options)
        for each in option.offerings
        if each.capacity_type == RESERVED and _reservation_kind(each)[0] == CAPACITY_BLOCK
    ]
    if not blocks:
        return options
    _, _, option, offering = min(blocks, key=lambda each: each[:2])
    return [InstanceOption(option.kind, (offering,))]


def _reserved_offering_filter(options: list[InstanceOption]) -> list[InstanceOption]:
    """Of several reservations of an instance type in a zone, keep the one with the most capacity left."""
    if not any(each.capacity_type == RESERVED for option in options for each in option.offerings):
        return options
    kept = []
    for option in options:
        best: dict[str, Offering] = {}
        for each in option.offerings:
            held = best.get(each.zone)
            if held is None or (each.reservation_capacity or 0) > (held.reservation_capacity or 0):
                best[each.zone] = each
        kept.append(InstanceOption(option.kind, tuple(best.values())))
    return kept


def _exotic_instance_type_filter(options: list[InstanceOption]) -> list[InstanceOption]:
    """Leave out bare metal and accelerators, unless nothing else satisfies the claim."""
    plain = [
        option
        for option in options
        if not (
            "metal" in option.kind.name.partition(".")[2]
            or any(option.kind.capacity.get(name) for name in _EXOTIC)
        )
    ]
    _log_left_out("exotic", options, plain)
    return plain or options


def _spot_offering_filter(options: list[InstanceOption], wanted: Requirements) -> list[InstanceOption]:
    """Leave out spot offerings that cost more than the cheapest on-demand one, if both are allowed."""
    allowed = wanted[CAPACITY_TYPE]
    if not (allowed.allows(SPOT) and allowed.allows(ON_DEMAND)):
        return options
    # The spot price of an exotic type can exceed the on-demand price of an ordinary one, and
    # price-capacity-optimized may pick it for its capacity:
    # https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-fleet-allocation-strategy.html
    on_demand = [
        each.price for option in options for each in option.offerings if each.capacity_type == ON_DEMAND
    ]
    if not on_demand:
        return options
    ceiling = min(on_demand)
    kept = _with_offerings(options, lambda each: each.capacity_type != SPOT or each.price <= ceiling)
    _log_left_out("expensive spot", options, kept)
    return kept


def _truncate(options: list[InstanceOption], wanted: Requirements, *, relaxed: bool) -> list[InstanceOption]:
    """
    Keep the cheapest instance types, as many as one request takes.

    Raises:
        InsufficientCapacity: fewer values are left than minValues of a requirement asks for.
    """
    kept = sorted(options, key=lambda option: option.cheapest)[:MAX_INSTANCE_TYPES]
    if relaxed:
        return kept
    for each in wanted:
        if each.min_values:
            values = {
                value
                for option in kept
                for value in each.intersect(option.kind.requirements[each.key]).values
            }
            if len(values) < each.min_values:
                raise InsufficientCapacity(
                    because=f"{each.key} has {len(values)} values left, and minValues is {each.min_values}"
                )
    return kept


def _launch_options(options: list[InstanceOption], wanted: Requirements, claim: NodeClaim) -> LaunchOptions:
    present = {each.capacity_type for option in options for each in option.offerings}
    # Reserved capacity is paid for already, spot is cheaper than on-demand. One fleet request has a single
    # capacity type: https://karpenter.sh/docs/concepts/nodepools/#capacity-type
    chosen = next(kind for kind in (RESERVED, SPOT, ON_DEMAND) if kind in present)
    kept = _with_offerings(options, lambda each: each.capacity_type == chosen)
    if chosen == ON_DEMAND and wanted[CAPACITY_TYPE].allows(SPOT) and len(kept) < MIN_FLEXIBLE_TYPES:
        log.warning(
            "launch.inflexible",
            nodeclaim=claim.name,
            types=len(kept),
            because=f"on-demand is all that is left, and at least {MIN_FLEXIBLE_TYPES} types are advisable",
        )
    reservation = _reservation_kind(kept[0].offerings[0]) if chosen == RESERVED else ("", False)
    return LaunchOptions(
        options=tuple(kept),
        capacity_type=chosen,
        tenancy=DEFAULT_TENANCY if wanted[TENANCY].allows(DEFAULT_TENANCY) else DEDICATED_TENANCY,
        reservation_type=reservation[0],
        interruptible=reservation[1],
    )


def _with_offerings(
    options: Iterable[InstanceOption], keep: Callable[[Offering], bool]
) -> list[InstanceOption]:
    kept = ((option, tuple(each for each in option.offerings if keep(each))) for option in options)
    return [InstanceOption(option.kind, offerings) for option, offerings in kept if offerings]


def _log_left_out(what: str, before: Sequence[InstanceOption], after: Sequence[InstanceOption]) -> None:
    names = {option.kind.name for option in after}
    dropped = [option.kind.name for option in before if option.kind.name not in names]
    if dropped and after:
        log.debug("launch.left_out", filter=what, types=dropped[:5], count=len(dropped))
