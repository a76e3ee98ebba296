"""
The whole price of a machine: its list price, and what it costs besides.

A list price is what the cloud asks for the instance. A machine costs more: its volumes, a public address,
licences and agents per node or per vCPU, and on spot the interruptions that are to be expected. It may cost
less, by a discount of the account, or nothing more, where a commitment pays for it anyway.
:func:`whole_prices` puts all of that into the price of every offering, so that everything that compares
prices compares whole ones, and keeps the parts for people to read.

Commitments (Reserved Instances, Savings Plans) are finite. :func:`coverage` says which running nodes use
them, and what is left; the provisioner lets new nodes use exactly that much.

Pure values: prices of volumes come with the catalog, volumes with the node class, the rest is settings and
annotations of NodePools.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from karpenter.api.labels import (
    CAPACITY_TYPE,
    INSTANCE_TYPE,
    NODE_PRICE,
    ON_DEMAND,
    SPOT,
    VCPU_PRICE,
    ZONE,
)
from karpenter.api.price_annotations import annotated_floor, annotated_preference, annotated_price
from karpenter.core.model.resources import CPU

if TYPE_CHECKING:
    from karpenter.core.model.catalog import Catalog, InstanceType, Offering

# https://aws.amazon.com/ebs/pricing/
HOURS_A_MONTH: Final = 730
"""AWS bills volumes by the month, of which a year has twelve: 8,760 / 12 hours."""

LIST: Final = "list"
OVERLAYS: Final = "overlays"
DISCOUNT: Final = "discount"
VOLUMES: Final = "volumes"
PUBLIC_IPV4: Final = "publicIPv4"
NODE: Final = "node"
VCPU: Final = "vcpu"
INTERRUPTIONS: Final = "interruptions"
COMMITMENT: Final = "commitment"

# As with capacity reservations: the order of list prices stays, so that the smaller of two is still chosen.
_PAID: Final = 1e-7
"""The share of its list price that a machine still costs when a commitment pays for it."""

_KEPT: Final = 16
EVERY_PRICE: Final = "*"
"""The factor of all list prices that have none of their own."""

_ROUNDING: Final = 1e-9

# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/apply_ri.html#ri-normalization-factor
_FACTORS: Final = {"nano": 0.25, "micro": 0.5, "small": 1.0, "medium": 2.0, "large": 4.0, "xlarge": 8.0}
_MANY_XLARGE: Final = re.compile(r"(?:metal-)?([1-9]\d{0,3})xl(?:arge)?")
"""Also metal-24xl, which equals 24xlarge."""

# That page has those up to the sixth generation; the others equal the largest size of their family.
_METAL: Final = {
    family: float(factor)
    for factor, families in {
        32: "a1",
        96: "m5zn x2iezn z1d",
        128: "c6g c6gd c7g c7gd c7gn i3 m6g m6gd m7g m7gd r6g r6gd r7g r7gd x2gd",
        144: "c5n",
        192: "c5 c5d i3en m5 m5d m5dn m5n r5 r5b r5d r5dn r5n",
        256: "c6i c6id c6in i4i m6i m6id m6idn m6in r6i r6id r6idn r6in x2idn x2iedn",
        384: "c6a m6a r6a",
        448: "u-18tb1 u-24tb1",
        896: "u-6tb1 u-9tb1 u-12tb1",
    }.items()
    for family in families.split()
}

# The same page excludes the first; the prices of the others are no more in proportion to size.
_EXCLUDED: Final = (
    "g4ad",
    "g4dn",
    "g5",
    "g5g",
    "g6",
    "g6e",
    "g6f",
    "gr6",
    "gr6f",
    "hpc7a",
    "p5",
    "inf1",
    "inf2",
)
_OUT_OF_PROPORTION: Final = ("g7", "g7e", "hpc7g")
_FIXED_SIZE: Final = frozenset((*_EXCLUDED, "u7i-6tb", "u7i-8tb", *_OUT_OF_PROPORTION))


class NodeVolume(msgspec.Struct, frozen=True, kw_only=True):
    """A volume that every machine of a node class has."""

    type: str
    gib: int
    iops: int = 0
    throughput: int = 0
    """MiB per second."""


class Commitment(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Capacity that is paid for whether it is used or not: some instances, or an amount per hour."""

    name: str = ""
    kind: Literal["ReservedInstance", "SavingsPlan"]
    instance_type: str = ""
    family: str = ""
    """Of an instance type, such as m7g; empty for any."""

    region: str = ""
    """The region that it is for; the names of zones begin with that of their region. Empty for any."""

    zone: str = ""
    count: int = 0
    """How many instances Reserved Instances pay for; of their own type, or as many units of their family."""

    hourly: float = 0.0
    """How much a Savings Plan pays per hour."""

    rate: float = 1.0
    """What a Savings Plan pays for an instance, as a share of the on-demand price."""

    until: datetime | None = None

    def matches(self, instance_type: str, zone: str) -> bool:
        """Whether an instance may use the commitment."""
        return (
            (self.instance_type in {"", instance_type} or self._covers_size(instance_type))
            and self.family in {"", family_of(instance_type)}
            and self.zone in {"", zone}
            and zone.startswith(self.region)
        )

    @property
    def is_size_flexible(self) -> bool:
        """Whether these are Reserved Instances of a region that pay for every size of their family."""
        regional = self.kind == "ReservedInstance" and not self.zone
        return regional and normalization_factor(self.instance_type) > 0

    def need(self, instance_type: str, list_price: float) -> float:
        """Return how much of the commitment one instance uses."""
        if self.kind == "SavingsPlan":
            return list_price * self.rate
        return normalization_factor(instance_type) if self.is_size_flexible else 1.0

    @property
    def size(self) -> float:
        """How much there is of it: an amount per hour, normalized units of a family, or instances."""
        if self.kind == "SavingsPlan":
            return self.hourly
        return self.count * self.need(self.instance_type, 0.0)

    def _covers_size(self, instance_type: str) -> bool:
        return (
            self.is_size_flexible
            and family_of(self.instance_type) == family_of(instance_type)
            and normalization_factor(instance_type) > 0
        )


class PricePolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the operator that change prices. The names are part of the flight record format."""

    node: float = 0.0
    """What a node costs per hour besides the cloud's bill, such as the licence of an agent."""

    vcpu: float = 0.0
    """The same for each vCPU."""

    factors: Mapping[str, float] = {}
    """List prices are multiplied by these: by family, by capacity type, or ``*`` for the others."""

    interruption: float = 0.0
    """What an interruption of a spot machine costs."""

    concentration: float = 0.0
    """By which share the next spot machine counts as dearer once all are of one type in one zone."""

    commitments: tuple[Commitment, ...] = ()

    def at(self, now: datetime) -> PricePolicy:
        """Return the policy without commitments that have ended."""
        current = tuple(each for each in self.commitments if each.until is None or now < each.until)
        return self if current == self.commitments else msgspec.structs.replace(self, commitments=current)


class Additions(msgspec.Struct, frozen=True, kw_only=True):
    """What the machines of one NodePool cost besides their list price, per hour."""

    volumes: float = 0.0
    public_ipv4: float = 0.0
    node: float = 0.0
    vcpu: float = 0.0
    interruption: float = 0.0
    factors: tuple[tuple[str, float], ...] = ()
    covered: tuple[tuple[Commitment, float], ...] = ()
    """Commitments, and how much is left of each."""


class Coverage(msgspec.Struct, frozen=True):
    """Which nodes commitments pay for, and what is left of each commitment."""

    nodes: Mapping[str, str] = {}
    """Node to the commitment that pays for it."""

    left: tuple[tuple[Commitment, float], ...] = ()


class PricedNode(msgspec.Struct, frozen=True):
    """What commitments need to know of a running node."""

    name: str
    labels: Mapping[str, str]
    price: float
    """The list price of its offering."""


def family_of(instance_type: str) -> str:
    """Return the family of an instance type: what is before the dot."""
    return instance_type.partition(".")[0]


@lru_cache(maxsize=4096)
def normalization_factor(instance_type: str) -> float:
    """Return the units that an instance uses of Reserved Instances; 0 where those are for one size only."""
    family, _, size = instance_type.partition(".")
    if family in _FIXED_SIZE:
        return 0.0
    many = _MANY_XLARGE.fullmatch(size)
    if many is not None:
        return int(many[1]) * _FACTORS["xlarge"]
    return _METAL.get(family, 0.0) if size == "metal" else _FACTORS.get(size, 0.0)


def volume_hourly(volumes: Iterable[NodeVolume], catalog: Catalog) -> float:
    """Return what volumes cost per hour; those whose price is not known cost nothing."""
    monthly = 0.0
    for each in volumes:
        price = catalog.volume_prices.get(each.type)
        if price is not None:
            monthly += each.gib * price.gib
            monthly += max(0, each.iops - price.included_iops) * price.iops
            monthly += max(0, each.throughput - price.included_throughput) * price.throughput
    return monthly / HOURS_A_MONTH


def additions(
    policy: PricePolicy,
    catalog: Catalog,
    annotations: Mapping[str, str],
    *,
    volumes: Iterable[NodeVolume] = (),
    public_ipv4: bool = False,
    left: tuple[tuple[Commitment, float], ...] = (),
) -> tuple[Additions, tuple[str, ...]]:
    """Return what machines of a NodePool cost besides their list price, and annotations that are wrong."""
    node, wrong_node = annotated_price(annotations, NODE_PRICE, policy.node)
    vcpu, wrong_vcpu = annotated_price(annotations, VCPU_PRICE, policy.vcpu)
    _, wrong_floor = annotated_floor(annotations)
    _, wrong_preference = annotated_preference(annotations, 0.0)
    found = Additions(
        volumes=volume_hourly(volumes, catalog),
        public_ipv4=catalog.public_ipv4_price if public_ipv4 else 0.0,
        node=node,
        vcpu=vcpu,
        interruption=policy.interruption,
        factors=tuple(sorted(policy.factors.items())),
        covered=left,
    )
    return found, tuple(each for each in (wrong_node, wrong_vcpu, wrong_floor, wrong_preference) if each)


_priced: OrderedDict[tuple[int, Additions], tuple[tuple[InstanceType, ...], tuple[InstanceType, ...]]] = (
    OrderedDict()
)


def whole_prices(types: tuple[InstanceType, ...], extra: Additions) -> tuple[InstanceType, ...]:
    """
    Return instance types with the whole price in each offering; the same object for the same input.

    The solver keeps tables per tuple of types, so equal prices must not make another tuple.
    """
    key = (id(types), extra)
    held = _priced.get(key)
    if held is None:  # an entry holds its types, so no other object can have their id
        found = tuple(_with_parts(kind, extra) for kind in types)
        same = all(new is old for new, old in zip(found, types, strict=True))
        held = _priced[key] = (types, types if same else found)
        if len(_priced) > _KEPT:
            _priced.popitem(last=False)
    _priced.move_to_end(key)
    return held[1]


def with_interruption_rates(catalog: Catalog, rates: Mapping[tuple[str, str], float]) -> Catalog:
    """Return a catalog whose spot offerings have at least these interruptions a month, by type and zone."""
    if not rates:
        return catalog
    names = {name for name, _ in rates}

    def rated(kind: InstanceType) -> InstanceType:
        if kind.name not in names:
            return kind
        return _replaced(kind, tuple(_rated(kind.name, each, rates) for each in kind.offerings))

    return msgspec.structs.replace(
        catalog,
        types=tuple(map(rated, catalog.types)),
        by_pool={pool: tuple(map(rated, types)) for pool, types in catalog.by_pool.items()},
    )


def _rated(kind: str, offering: Offering, rates: Mapping[tuple[str, str], float]) -> Offering:
    rate = rates.get((kind, offering.zone), 0.0) if offering.capacity_type == SPOT else 0.0
    if rate <= offering.interruption_rate:
        return offering
    return msgspec.structs.replace(offering, interruption_rate=rate)


def without_commitments(
    types: tuple[InstanceType, ...], left: tuple[tuple[Commitment, float], ...] = ()
) -> tuple[InstanceType, ...]:
    """Return instance types at the price that they have once so much is `left` of commitments."""

    def priced(name: str, offering: Offering) -> Offering:
        listed = part(offering.parts, LIST)
        still = _first_with(left, name, offering.zone, listed) is not None
        return offering if still else _uncovered(offering)

    return tuple(
        _replaced(kind, tuple(priced(kind.name, each) for each in kind.offerings))
        if _is_covered(kind)
        else kind
        for kind in types
    )


def part(parts: tuple[tuple[str, float], ...], name: str) -> float:
    """Return one part of a price; 0 where it has none."""
    return next((amount for key, amount in parts if key == name), 0.0)


def billed(price: float, parts: tuple[tuple[str, float], ...]) -> float:
    """Return the part of a whole price that is paid: interruptions that are expected are on no bill."""
    return price - part(parts, INTERRUPTIONS)


def coverage(commitments: Sequence[Commitment], nodes: Iterable[PricedNode]) -> Coverage:
    """
    Return which on-demand nodes commitments pay for, and what is left.

    Nodes are covered only whole, and as AWS does it: zonal Reserved Instances come before regional ones, and
    those, from the smallest node to the largest, before Savings Plans. Nodes of one size go by their names.
    https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/apply_ri.html
    https://docs.aws.amazon.com/savingsplans/latest/userguide/sp-applying.html
    """
    if not commitments:
        return Coverage()
    left = _pooled(sorted(commitments, key=lambda each: (each.kind, not each.zone)))
    covered: dict[str, str] = {}
    for node in sorted(nodes, key=_by_size):
        if node.labels.get(CAPACITY_TYPE) != ON_DEMAND:
            continue
        kind, zone = node.labels.get(INSTANCE_TYPE, ""), node.labels.get(ZONE, "")
        number = _first_with(left, kind, zone, node.price)
        if number is not None:
            commitment, amount = left[number]
            left[number] = commitment, amount - commitment.need(kind, node.price)
            covered[node.name] = commitment.name
    return Coverage(covered, tuple(left))


def _by_size(node: PricedNode) -> tuple[float, str]:
    return normalization_factor(node.labels.get(INSTANCE_TYPE, "")), node.name


def _pooled(commitments: Iterable[Commitment]) -> list[tuple[Commitment, float]]:
    """Return what there is of each commitment; the units of one family and region are one amount."""
    found: dict[object, tuple[Commitment, float]] = {}
    for number, each in enumerate(commitments):
        key = (family_of(each.instance_type), each.family, each.region) if each.is_size_flexible else number
        first, amount = found.get(key, (each, 0.0))
        if amount:
            first = msgspec.structs.replace(first, name=f"{first.name}, {each.name}".strip(", "))
        found[key] = first, amount + each.size
    return list(found.values())


def take(
    left: tuple[tuple[Commitment, float], ...], instance_type: str, zone: str, list_price: float
) -> tuple[tuple[Commitment, float], ...] | None:
    """Return what is left of commitments once an instance uses one; None when none has enough."""
    number = _first_with(left, instance_type, zone, list_price)
    if number is None:
        return None
    commitment, amount = left[number]
    after = (commitment, amount - commitment.need(instance_type, list_price))
    return (*left[:number], after, *left[number + 1 :])


def paid_price(list_price: float) -> float:
    """Return what is left of a list price that a commitment pays."""
    return list_price * _PAID


def _first_with(
    left: Sequence[tuple[Commitment, float]], instance_type: str, zone: str, list_price: float
) -> int | None:
    return next(
        (
            number
            for number, (commitment, amount) in enumerate(left)
            if commitment.matches(instance_type, zone)
            and amount + _ROUNDING >= commitment.need(instance_type, list_price)
        ),
        None,
    )


def _factor(kind: str, capacity_type: str, factors: tuple[tuple[str, float], ...]) -> float:
    known = dict(factors)
    names = (family_of(kind), capacity_type, EVERY_PRICE)
    return next((known[name] for name in names if name in known), 1.0)


def _with_parts(kind: InstanceType, extra: Additions) -> InstanceType:
    """Return an instance type with whole prices; the same object where nothing changes."""
    vcpus = kind.capacity.get(CPU, 0) / 1000
    always = tuple(
        (name, amount)
        for name, amount in (
            (VOLUMES, extra.volumes),
            (PUBLIC_IPV4, extra.public_ipv4),
            (NODE, extra.node),
            (VCPU, extra.vcpu * vcpus),
        )
        if amount
    )
    offerings = tuple(_whole(kind.name, each, always, extra) for each in kind.offerings)
    if all(new is old for new, old in zip(offerings, kind.offerings, strict=True)):
        return kind
    return _replaced(kind, offerings)


def _whole(
    kind: str, offering: Offering, always: tuple[tuple[str, float], ...], extra: Additions
) -> Offering:
    way, price = offering.capacity_type, offering.price
    base = offering.parts or ((LIST, price),)  # an overlay has stated parts before
    parts = list(always)
    if extra.factors and (factor := _factor(kind, way, extra.factors)) != 1:
        parts.insert(0, (DISCOUNT, price * (factor - 1)))
    if way == SPOT and extra.interruption and offering.interruption_rate:
        parts.append((INTERRUPTIONS, extra.interruption * offering.interruption_rate / HOURS_A_MONTH))
    if way == ON_DEMAND and extra.covered:
        paid = price + part(tuple(parts), DISCOUNT)
        if _first_with(extra.covered, kind, offering.zone, part(base, LIST)) is not None:
            parts.append((COMMITMENT, paid_price(paid) - paid))
    # What cannot be bought and costs nothing has no price.
    if not parts or (not offering.available and not price):
        return offering
    whole = price + sum(amount for _, amount in parts)
    return msgspec.structs.replace(offering, price=whole, parts=(*base, *parts))


def _is_covered(kind: InstanceType) -> bool:
    return any(part(each.parts, COMMITMENT) for each in kind.offerings)


def _uncovered(offering: Offering) -> Offering:
    paid = part(offering.parts, COMMITMENT)
    if not paid:
        return offering
    parts = tuple(each for each in offering.parts if each[0] != COMMITMENT)
    return msgspec.structs.replace(offering, price=offering.price - paid, parts=parts)


def _replaced(kind: InstanceType, offerings: tuple[Offering, ...]) -> InstanceType:
    # A fresh struct: what the old one has worked out about its offerings no longer holds.
    return msgspec.structs.replace(kind, offerings=offerings)
