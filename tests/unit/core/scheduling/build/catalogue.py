"""A small catalogue to take in: three instance types, two zones, two ways to buy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.api import labels
from karpenter.core.model.catalog import Catalog, InstanceType, Offering
from karpenter.core.model.requirement import requirement
from karpenter.core.model.requirements import Requirements

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ZONES = ("a", "b")


def offering(zone: str, capacity_type: str, price: float) -> Offering:
    """Return one way to buy a machine."""
    return Offering(
        requirements=Requirements.from_labels({labels.ZONE: zone, labels.CAPACITY_TYPE: capacity_type}),
        price=price,
        reservation_id="r-1" if capacity_type == labels.RESERVED else "",
    )


def machine(
    name: str,
    cpu: int = 4,
    *,
    price: float = 1.0,
    capacity_types: Sequence[str] = (labels.ON_DEMAND, labels.SPOT),
    capacity: Mapping[str, int] | None = None,
    overhead: Mapping[str, int] | None = None,
) -> InstanceType:
    """Return a kind of machine that is sold in both zones, spot at half the price."""
    share = {labels.SPOT: 0.5}
    stated = {
        labels.INSTANCE_TYPE: [name],
        labels.ARCH: ["amd64"],
        labels.ZONE: ZONES,
        labels.CAPACITY_TYPE: capacity_types,
    }
    return InstanceType(
        name=name,
        requirements=Requirements.of(requirement(key, "In", values) for key, values in stated.items()),
        offerings=tuple(
            offering(zone, kind, price * share.get(kind, 1.0)) for zone in ZONES for kind in capacity_types
        ),
        capacity={"cpu": cpu * 1000, "pods": 10, **(capacity or {})},
        overhead=overhead or {},
    )


CATALOG = Catalog(types=(machine("small", 2), machine("large", 8, price=4.0)))
