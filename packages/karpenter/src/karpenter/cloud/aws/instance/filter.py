"""
What would do for a claim, narrowed down to what is worth asking for.

The filters run in order; each leaves out what the claim would regret. None but the first ever leaves out
everything.
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
from karpenter.core.model.catalog import InstanceType, Offering
from karpenter.core.model.requirements import Requirements
from karpenter.core.model.resources import fits, parse_resources

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.core.model.catalog import Catalog

log = structlog.stdlib.get_logger(__name__)

MAX_INSTANCE_TYPES: Final = 60
"""Instance types in one request."""

FLEXIBLE: Final = 5
"""With fewer types than this, falling back from spot is likely to fail again."""

_EXOTIC: Final = (*GPU_OF.values(), NEURON)
_PARTITIONS: Final = ((DEFAULT_RESERVATION, False), (CAPACITY_BLOCK, False), (DEFAULT_RESERVATION, True))
"""Kinds of reservation: its type, and whether it may be interrupted. Of equal prices the first wins."""


class InstanceOption(msgspec.Struct, frozen=True):
    """An instance type that would do, and the offerings of it that would."""

    kind: InstanceType
    offerings: tuple[Offering, ...]

    @property
    def cheapest(self) -> float:
        """The lowest price."""
        return min(each.price for each in self.offerings)


class LaunchOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What to ask EC2 for."""

    options: tuple[InstanceOption, ...]
    capacity_type: str
    tenancy: str = DEFAULT_TENANCY
    reservation_type: str = ""
    interruptible: bool = False


def filter_instance_types(catalog: Catalog, claim: NodeClaim) -> LaunchOptions:
    """
    Return what to ask for.

    Raises:
        InsufficientCapacity: nothing would do.
        RequirementError, QuantityError: the claim cannot be read.
    """
    wanted = Requirements.from_entries(claim.spec.requirements)
    varied = any(each.min_values for each in wanted)
    options = _compatible(catalog, wanted, claim)
    if not options:
        raise InsufficientCapacity(because="no instance type that is available satisfies the claim")
    if wanted[CAPACITY_TYPE].allows(RESERVED):
        options = _one_per_zone(_one_block(_one_sort_of_reservation(options)))
    if not varied:
        options = _not_exotic(options)
        options = _spot_worth_its_price(options, wanted)
    options = _truncated(
        options, wanted, relaxed=claim.metadata.annotations.get(MIN_VALUES_RELAXED) == "true"
    )
    return _purchase(options, wanted, claim)


def _compatible(catalog: Catalog, wanted: Requirements, claim: NodeClaim) -> list[InstanceOption]:
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


def _sort(offering: Offering) -> tuple[str, bool]:
    """Return the kind of a reserved offering."""
    said = offering.requirements
    return min(said[RESERVATION_TYPE].values), "true" in said[RESERVATION_INTERRUPTIBLE].values


def _one_sort_of_reservation(options: list[InstanceOption]) -> list[InstanceOption]:
    """Keep the kind of reservation that has the cheapest offering, and nothing else; all if there is none."""
    prices: dict[tuple[str, bool], float] = {}
    for option in options:
        for each in option.offerings:
            if each.capacity_type == RESERVED:
                sort = _sort(each)
                prices[sort] = min(each.price, prices.get(sort, each.price))
    if not prices:
        return options
    best = min((sort for sort in _PARTITIONS if sort in prices), key=lambda sort: prices[sort])
    return _keeping(options, lambda each: each.capacity_type == RESERVED and _sort(each) == best)


def _one_block(options: list[InstanceOption]) -> list[InstanceOption]:
    """Of capacity blocks keep the cheapest one, of one type: a request is for a single block."""
    blocks = [
        (each.price, place, option, each)
        for place, option in enumerate(options)
        for each in option.offerings
        if each.capacity_type == RESERVED and _sort(each)[0] == CAPACITY_BLOCK
    ]
    if not blocks:
        return options
    _, _, option, offering = min(blocks, key=lambda each: each[:2])
    return [InstanceOption(option.kind, (offering,))]


def _one_per_zone(options: list[InstanceOption]) -> list[InstanceOption]:
    """Of several reservations of a type in a zone keep the one that has the most left."""
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


def _not_exotic(options: list[InstanceOption]) -> list[InstanceOption]:
    """Leave out bare metal and accelerators, unless there is nothing else."""
    plain = [option for option in options if not _is_exotic(option.kind)]
    _tell("exotic", options, plain)
    return plain or options


def _is_exotic(kind: InstanceType) -> bool:
    return "metal" in kind.name.partition(".")[2] or any(kind.capacity.get(name) for name in _EXOTIC)


def _spot_worth_its_price(options: list[InstanceOption], wanted: Requirements) -> list[InstanceOption]:
    """Leave out spot offerings that cost more than the cheapest on demand, where both would do."""
    allowed = wanted[CAPACITY_TYPE]
    if not (allowed.allows(SPOT) and allowed.allows(ON_DEMAND)):
        return options
    on_demand = [
        each.price for option in options for each in option.offerings if each.capacity_type == ON_DEMAND
    ]
    if not on_demand:
        return options
    ceiling = min(on_demand)
    kept = _keeping(options, lambda each: each.capacity_type != SPOT or each.price <= ceiling)
    _tell("dear spot", options, kept)
    return kept


def _truncated(options: list[InstanceOption], wanted: Requirements, *, relaxed: bool) -> list[InstanceOption]:
    """
    Keep as many types as one request takes, the cheapest.

    Raises:
        InsufficientCapacity: too little variety is left.
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


def _purchase(options: list[InstanceOption], wanted: Requirements, claim: NodeClaim) -> LaunchOptions:
    present = {each.capacity_type for option in options for each in option.offerings}
    chosen = next(kind for kind in (RESERVED, SPOT, ON_DEMAND) if kind in present)
    kept = _keeping(options, lambda each: each.capacity_type == chosen)
    if chosen == ON_DEMAND and wanted[CAPACITY_TYPE].allows(SPOT) and len(kept) < FLEXIBLE:
        log.error(
            "launch.inflexible",
            nodeclaim=claim.name,
            types=len(kept),
            because=f"on-demand is all that is left, and at least {FLEXIBLE} types are advisable",
        )
    sort = _sort(kept[0].offerings[0]) if chosen == RESERVED else ("", False)
    return LaunchOptions(
        options=tuple(kept),
        capacity_type=chosen,
        tenancy=DEFAULT_TENANCY if wanted[TENANCY].allows(DEFAULT_TENANCY) else DEDICATED_TENANCY,
        reservation_type=sort[0],
        interruptible=sort[1],
    )


def _keeping(options: Iterable[InstanceOption], keep: Callable[[Offering], bool]) -> list[InstanceOption]:
    kept = ((option, tuple(each for each in option.offerings if keep(each))) for option in options)
    return [InstanceOption(option.kind, offerings) for option, offerings in kept if offerings]


def _tell(what: str, before: Sequence[InstanceOption], after: Sequence[InstanceOption]) -> None:
    names = {option.kind.name for option in after}
    dropped = [option.kind.name for option in before if option.kind.name not in names]
    if dropped and after:
        log.debug("launch.left_out", filter=what, types=dropped[:5], count=len(dropped))
