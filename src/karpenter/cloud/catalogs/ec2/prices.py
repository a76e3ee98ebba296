"""
Prices that are estimated because no public list has them.

On-demand prices of us-east-1 are facts and ship as such. Other regions are dearer by a
factor of their own. Spot prices move all day, so they are modelled: a share of the
on-demand price that depends on the class of the type, spread by up to 10 % over types and
zones, always the same for the same type and zone. Whoever needs the real ones runs
``karpenter catalog refresh``.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final
from zlib import crc32

from karpenter.cloud.catalogs.ec2.labels import category

SPOT_SHARE: Final = MappingProxyType(
    {"t": 0.59, "c": 0.53, "m": 0.47, "g": 0.42, "r": 0.40, "i": 0.32, "x": 0.30, "p": 0.26}
)
"""Median share of the on-demand price, by instance category."""

OTHER_SPOT_SHARE: Final = 0.44
SPREAD: Final = 0.1

_STEPS: Final = 1000
_DECIMALS: Final = 5


def regional_price(us_east_1: float, factor: float) -> float:
    """Return the on-demand price in a region that is `factor` times as dear as us-east-1."""
    return us_east_1 if factor == 1 else round(us_east_1 * factor, _DECIMALS)


def spot_price(name: str, zone: str, on_demand: float) -> float:
    """Return the modelled spot price of a type in a zone."""
    share = SPOT_SHARE.get(category(name), OTHER_SPOT_SHARE)
    step = crc32(f"{name}/{zone}".encode()) % (2 * _STEPS + 1) - _STEPS
    return round(on_demand * share * (1 + SPREAD * step / _STEPS), _DECIMALS)
