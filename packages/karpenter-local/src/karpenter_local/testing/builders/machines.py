"""
Builders of instance types and NodePools.

Types have spot and on-demand offerings in every zone unless a test says otherwise, spot at 60 % of the
price. Every type names its reservation, usually none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karpenter.api import labels
from karpenter.core.model.catalog import InstanceType, Offering
from karpenter.core.model.requirement import requirement
from karpenter.core.model.requirements import Requirements
from karpenter.core.model.resources import parse_resources
from karpenter.core.scheduling.problem import Pool

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from karpenter.api.node import Taint
    from karpenter.api.pod import NodeSelectorRequirement

ZONES: Final = ("zone-1", "zone-2", "zone-3")
CAPACITY_TYPES: Final = (labels.SPOT, labels.ON_DEMAND)
RESERVATION: Final = "example.com/reservation-id"
"""The label by which the reservations of made-up catalogues are told apart."""

CORES: Final = "example.com/cores"
"""The label that says how many cores a type has, for bounds."""

RULES: Final = labels.LabelRules(well_known=labels.WELL_KNOWN_LABELS | {RESERVATION, CORES})
_SPOT_SHARE: Final = 0.6
_GIB: Final = 2**30


def offering(
    zone: str,
    capacity_type: str,
    price: float,
    *,
    available: bool = True,
    reservation: str = "",
    left: int | None = None,
) -> Offering:
    """Return one way to buy a type; with a `reservation`, so many are `left` of it."""
    held = [reservation] if reservation else []
    return Offering(
        requirements=Requirements.of(
            [
                requirement(labels.ZONE, "In", [zone]),
                requirement(labels.CAPACITY_TYPE, "In", [capacity_type]),
                requirement(RESERVATION, "In", held),
            ]
        ),
        price=price,
        available=available,
        reservation_id=reservation,
        reservation_capacity=left,
    )


def offerings(
    price: float, *, zones: Sequence[str] = ZONES, capacity_types: Sequence[str] = CAPACITY_TYPES
) -> tuple[Offering, ...]:
    """Return an offering for every zone and capacity type, spot at its share of `price`."""
    return tuple(
        offering(zone, kind, price * (_SPOT_SHARE if kind == labels.SPOT else 1.0))
        for zone in zones
        for kind in capacity_types
    )


def instance_type(
    name: str,
    *,
    cpu: int = 4,
    memory: int = 8,
    pods: int = 110,
    price: float | None = None,
    sold: Sequence[Offering] | None = None,
    arch: str = labels.AMD64,
    resources: Mapping[str, int] | None = None,
    overhead: Mapping[str, int] | None = None,
    type_labels: Mapping[str, str] | None = None,
) -> InstanceType:
    """Return a kind of machine with `cpu` cores and `memory` GiB, by default at 5 cents per core."""
    sold = offerings(cpu * 0.05 if price is None else price) if sold is None else sold
    now = [each for each in sold if each.available]
    stated = {
        labels.INSTANCE_TYPE: {name},
        labels.ARCH: {arch},
        labels.OS: {labels.LINUX},
        CORES: {str(cpu)},
        labels.ZONE: {each.zone for each in now},
        labels.CAPACITY_TYPE: {each.capacity_type for each in now},
        RESERVATION: {each.reservation_id for each in now if each.reservation_id},
        **{key: {value} for key, value in (type_labels or {}).items()},
    }
    return InstanceType(
        name=name,
        requirements=Requirements.of(requirement(key, "In", values) for key, values in stated.items()),
        offerings=tuple(sold),
        capacity={"cpu": cpu * 1000, "memory": memory * _GIB, "pods": pods, **(resources or {})},
        overhead=overhead or {},
    )


def pool(
    name: str,
    *types: InstanceType,
    requires: Iterable[NodeSelectorRequirement] = (),
    min_values: Mapping[str, int] | None = None,
    node_labels: Mapping[str, str] | None = None,
    taints: tuple[Taint, ...] = (),
    limits: Mapping[str, str] | None = None,
) -> Pool:
    """Return a pool that may launch `types`; `min_values` asks for a choice of so many values of a key."""
    own = {labels.NODEPOOL: name, **(node_labels or {})}
    choice = [requirement(key, "Exists", (), least) for key, least in (min_values or {}).items()]
    wanted = Requirements.from_entries(requires).intersect(Requirements.of(choice))
    return Pool(
        name=name,
        requirements=wanted.intersect(Requirements.from_labels(own)),
        labels=own,
        taints=taints,
        types=types,
        limits=parse_resources(limits or {}),
    )
