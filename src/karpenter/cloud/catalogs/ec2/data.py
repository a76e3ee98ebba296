"""
The EC2 facts that ship with the product: one compressed file.

It holds a row per instance type, its on-demand price in us-east-1 where one is known,
and for each region the zones, how dear it is, and which types are sold in which zone.
The file is written by ``tools/ec2/build.py``; its date is part of it.
"""

import gzip
from collections.abc import Iterable, Iterator
from functools import lru_cache
from importlib.resources import files
from typing import Final

import msgspec

from karpenter.cloud.catalogs.ec2.facts import InstanceFacts

FILE: Final = "ec2.json.gz"
_FIRST_DIGIT: Final = ord("0")


class Region(msgspec.Struct, frozen=True):
    """Where types are sold within a region."""

    price_factor: float
    """How many times as dear as us-east-1."""

    zones: dict[str, str]
    """Zone name to zone id, in the order of the bits in `sold`."""

    sold: str
    """A character per instance type: ``0`` plus a bit for each zone that sells it."""

    def zones_of(self, index: int) -> dict[str, str]:
        """Return the zones, name to id, that sell the type at `index`."""
        bits = ord(self.sold[index]) - _FIRST_DIGIT
        return {name: ident for bit, (name, ident) in enumerate(self.zones.items()) if bits >> bit & 1}


class Data(msgspec.Struct, frozen=True):
    """Everything the file holds."""

    types_as_of: str
    prices_as_of: str
    types: tuple[InstanceFacts, ...]
    prices: tuple[float | None, ...]
    """On demand in us-east-1, in US dollars per hour; in the order of the types."""

    regions: dict[str, Region]

    def sold_in(self, region: str) -> Iterator[tuple[InstanceFacts, float, dict[str, str]]]:
        """Yield each type that `region` sells for a known price: facts, price in us-east-1, zones."""
        sold = self.regions[region]
        for index, (facts, price) in enumerate(zip(self.types, self.prices, strict=True)):
            zones = sold.zones_of(index)
            if price is not None and zones:
                yield facts, price, zones


@lru_cache(maxsize=1)
def load_data() -> Data:
    """Return the facts that ship with the product."""
    packed = files(__package__).joinpath(FILE).read_bytes()
    return msgspec.json.decode(gzip.decompress(packed), type=Data)


def pack_data(data: Data) -> bytes:
    """Return the bytes of the file; the same for the same data."""
    return gzip.compress(msgspec.json.encode(data), compresslevel=9, mtime=0)


def pack_zones(zones: Iterable[str], sold_in: Iterable[frozenset[str]]) -> str:
    """Return which types are sold where, in the form of `Region.sold`."""
    order = tuple(zones)
    return "".join(
        chr(_FIRST_DIGIT + sum(1 << bit for bit, zone in enumerate(order) if zone in sold))
        for sold in sold_in
    )
