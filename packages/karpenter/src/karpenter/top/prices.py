"""
What nodes cost, without any account: the built-in catalogue that suits a cluster, and prices from it.

The catalogue is that of the region that most nodes are in, or that of the cloud in memory. GovCloud and China
have a price list and no catalogue. Prices of spot are those of the catalogue, which are modelled. Reserved
instances are billed at the on-demand price, and a node that does not say how it was bought counts at the
on-demand price too. A node of EKS Auto Mode costs its management fee as well. A node that says its price by a
label is believed (:data:`.model.PRICE_LABEL`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from karpenter.api.labels import ON_DEMAND, SPOT
from karpenter.cloud.catalogs.ec2.data import load_data
from karpenter.cloud.catalogs.ec2.instancetypes import spot_price
from karpenter.top.model import FARGATE, NodeRow

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from karpenter.core.model.catalog import Catalog

_FARGATE: Final = re.compile(r"(?P<cpu>[\d.]+)vCPU-(?P<memory>[\d.]+)GB")
# Linux on x86 in us-east-1, per hour: https://aws.amazon.com/fargate/pricing/
_FARGATE_CPU: Final = 0.04048
_FARGATE_GB: Final = 0.004445
# EKS Auto Mode charges for each instance type, independent of how it was bought; for nearly all types that is
# this share of the on-demand price: https://aws.amazon.com/eks/pricing/
_AUTO_SHARE: Final = 0.12


def prices_of(
    catalog: Catalog | None, region: str = "", fees: Mapping[str, float] | None = None
) -> Callable[[NodeRow], float | None]:
    """
    Return the function that prices the nodes of a cluster.

    Without a catalogue only a region with a price list has prices. `fees` are those of EKS Auto Mode by
    instance type, where AWS told them.
    """
    listed = load_data().listed_in(region) if catalog is None and region else None

    def price(row: NodeRow) -> float | None:
        if row.capacity_type == FARGATE:
            return _fargate_price(row.instance_type, region)
        way = SPOT if row.capacity_type == SPOT else ON_DEMAND
        if listed is not None:
            full = listed.get(row.instance_type)
            found = spot_price(row.instance_type, row.zone, full) if full and way == SPOT else full
        else:
            full, found = _sold(catalog, row, ON_DEMAND), _sold(catalog, row, way)
        if found is None or not row.auto:
            return found
        fee = (fees or {}).get(row.instance_type)
        return found + (fee if fee is not None else _AUTO_SHARE * (full or 0.0))

    return price


def _sold(catalog: Catalog | None, row: NodeRow, way: str) -> float | None:
    kind = catalog.by_name.get(row.instance_type) if catalog is not None else None
    if kind is None:
        return None
    sold = [each for each in kind.offerings if each.capacity_type == way and each.price]
    here = [each.price for each in sold if each.zone == row.zone]
    return min(here or [each.price for each in sold], default=None)


def _fargate_price(size: str, region: str) -> float | None:
    found = _FARGATE.fullmatch(size)
    if found is None:
        return None
    known = load_data().regions.get(region)
    factor = known.price_factor if known is not None else 1.0
    return factor * (_FARGATE_CPU * float(found["cpu"]) + _FARGATE_GB * float(found["memory"]))
