"""
The catalogue of the cloud in memory: 144 made-up types, by formula.

Twelve sizes, each with 2, 4 or 8 GiB of memory per core, for two operating systems and
two architectures, sold in four zones as spot and on demand. Prices follow from the size:
2.5 cents per core and 0.1 cents per gigabyte (not gibibyte) of memory, spot for 70 %.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Final

from karpenter.api.labels import AMD64, ARM64, CAPACITY_TYPE, LINUX, ON_DEMAND, SPOT, WINDOWS, ZONE
from karpenter.cloud.catalogs.kwok_assembly import OfferingDraft, TypeDraft, assemble
from karpenter.core.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, render_amount

if TYPE_CHECKING:
    from karpenter.core.model.catalog import Catalog

CORES: Final = (1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256)
GIB_PER_CORE: Final = {"c": 2, "s": 4, "m": 8}
ZONES: Final = ("test-zone-a", "test-zone-b", "test-zone-c", "test-zone-d")

_GIB: Final = 2**30
_DISK: Final = 20 * _GIB
_PODS_PER_CORE: Final = 16
_MOST_PODS: Final = 1024
_PICODOLLARS: Final = 10**12  # a byte costs one, which keeps prices exact until the last step
_PICODOLLARS_PER_CORE: Final = 25 * 10**9


def kwok_catalog() -> Catalog:
    """Return the built-in catalogue."""
    shapes = product(CORES, GIB_PER_CORE, (LINUX, WINDOWS), (AMD64, ARM64))
    return assemble(_draft(cores, family, system, arch) for cores, family, system, arch in shapes)


def prices(cores: int, memory: int) -> dict[str, float]:
    """Return the price per hour of so many cores and bytes of memory, by capacity type."""
    exact = cores * _PICODOLLARS_PER_CORE + memory
    return {SPOT: 7 * exact / (10 * _PICODOLLARS), ON_DEMAND: exact / _PICODOLLARS}


def _draft(cores: int, family: str, system: str, arch: str) -> TypeDraft:
    memory = cores * GIB_PER_CORE[family] * _GIB
    return TypeDraft(
        name=f"{family}-{cores}x-{arch}-{system}",
        architecture=arch,
        operating_systems=(system,),
        capacity={
            CPU: cores * 1000,
            MEMORY: memory,
            EPHEMERAL_STORAGE: _DISK,
            PODS: min(cores * _PODS_PER_CORE, _MOST_PODS),
        },
        cpu=str(cores),
        memory=render_amount(MEMORY, memory),
        offerings=tuple(
            OfferingDraft(labels={CAPACITY_TYPE: (kind,), ZONE: (zone,)}, price=price)
            for zone in ZONES
            for kind, price in prices(cores, memory).items()
        ),
    )
