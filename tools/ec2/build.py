"""
Write the EC2 facts that ship with the product: cloud/catalogs/ec2/ec2.json.gz.

    python -m venv /somewhere && /somewhere/bin/pip install --no-deps moto
    python tools/ec2/build.py /somewhere/lib/python3.*/site-packages/moto 2026-09-30

Instance types, and which zone sells which, are the recorded answers of DescribeInstanceTypes
and DescribeInstanceTypeOfferings that the package moto (Apache-2.0) carries. Beside this
script are the figures that no such answer has:

    prices.json             on-demand prices of us-east-1, by family, size and exception
    regions.json            how many times as dear as us-east-1 a region is
    partitions.json         on-demand prices of GovCloud, in US dollars, and of China, in yuan
    branch-interfaces.json  network interfaces for single pods, by count
    not-in-vpc-limits.json  types that the VPC resource controller does not know, as of a date

Everything is deterministic: the same input gives the same bytes.
"""  # noqa: INP001  a script, not a package

from __future__ import annotations

import gzip
import json
import re
import sys
from collections import defaultdict
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import karpenter.cloud.catalogs.ec2 as package
from karpenter.cloud.catalogs.ec2.data import FILE, Data, Region, facts_of, pack_data, pack_zones, usable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

HERE: Final = Path(__file__).parent
SIZES: Final = {
    "nano": Fraction(1, 16),
    "micro": Fraction(1, 8),
    "small": Fraction(1, 4),
    "medium": Fraction(1, 2),
    "large": Fraction(1),
}


def main(moto: Path, as_of: str) -> None:
    """Write the file from moto's folder and the figures beside this script."""
    resources = moto / "ec2" / "resources"
    records = [r for _, r in sorted(_gunzip(resources / "instance_types.json.gz").items()) if usable(r)]
    names = [record["InstanceType"] for record in records]
    figures = _figures("prices.json")
    branches = {
        name: int(count)
        for count, group in _figures("branch-interfaces.json").items()
        for name in group.split()
    }
    data = Data(
        types_as_of=as_of,
        prices_as_of=figures["as_of"],
        types=tuple(facts_of(r, branch_interfaces=branches.get(r["InstanceType"], 0)) for r in records),
        prices=tuple(_price(name, names, figures) for name in names),
        regions={
            region: _region(resources / "instance_type_offerings", region, factor, names)
            for region, factor in sorted(_figures("regions.json").items())
        },
        listed=listed_prices(),
        unadvertised=unadvertised_types(),
    )
    packed = pack_data(data)
    target = Path(package.__file__).with_name(FILE)
    target.write_bytes(packed)
    priced = sum(price is not None for price in data.prices)
    sys.stdout.write(
        f"{len(names)} types, {priced} with a price, {len(data.regions)} regions: {len(packed)} bytes\n"
    )


def listed_prices() -> dict[str, dict[str, float]]:
    """Return the prices of regions that have a list of their own, by type."""
    return {
        region: {
            f"{family}.{size}": price for family, sizes in families.items() for size, price in sizes.items()
        }
        for region, families in _figures("partitions.json")["prices"].items()
    }


def unadvertised_types() -> tuple[str, ...]:
    """Return the types whose addresses the VPC resource controller does not advertise."""
    return tuple(_figures("not-in-vpc-limits.json")["types"].split())


def _price(name: str, names: Iterable[str], figures: Mapping[str, Any]) -> float | None:
    """Return the on-demand price: a family's base by the factor of the size, rounded as AWS rounds it."""
    if name in figures["exc"]:
        return float(figures["exc"][name])
    family, _, size = name.partition(".")
    if family not in figures["base"]:
        return None
    base, decimals = figures["base"][family]
    factor = _size_factor(size)
    if factor is None:  # plain "metal" is the family's largest size without a hypervisor
        siblings = [other.partition(".")[2] for other in names if other.startswith(f"{family}.")]
        factor = max((f for s in siblings if (f := _size_factor(s))), default=None)
    if factor is None:
        return None
    exact = Fraction(str(base)) * factor * Fraction(str(figures["metal"].get(name, 1)))
    decimal = Decimal(exact.numerator) / Decimal(exact.denominator)
    return float(decimal.quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP))


def _size_factor(size: str) -> Fraction | None:
    """Return how many times the size `large` a size is; None for plain ``metal``."""
    if size in SIZES:
        return SIZES[size]
    counted = re.fullmatch(r"(\d*)xlarge|metal-(\d+)xl", size)
    return Fraction(2 * int(counted[1] or counted[2] or 1)) if counted else None


def _region(folder: Path, region: str, factor: float, names: Iterable[str]) -> Region:
    sold = _sold(folder / "availability-zone" / f"{region}.json.gz")
    ids = _sold(folder / "availability-zone-id" / f"{region}.json.gz")
    zones: dict[str, str] = {}
    for zone, types in sorted(sold.items()):  # a name and an id that sell the same types are the same zone
        zones[zone] = next(
            i for i, others in sorted(ids.items()) if others == types and i not in zones.values()
        )
    sold_in = [frozenset(zone for zone in zones if name in sold[zone]) for name in names]
    return Region(price_factor=factor, zones=zones, sold=pack_zones(zones, sold_in))


def _sold(path: Path) -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for entry in _gunzip(path):
        found[entry["Location"]].add(entry["InstanceType"])
    return found


def _gunzip(path: Path) -> Any:
    return json.loads(gzip.decompress(path.read_bytes()))


def _figures(name: str) -> Any:
    return json.loads((HERE / name).read_text(encoding="utf-8"))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
