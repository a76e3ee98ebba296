"""What is asked for: filters in order, the capacity type, and how much variety is left."""

from functools import cache
from typing import Any

import msgspec
import pytest

from karpenter.cloud.aws.instance.filter import MAX_INSTANCE_TYPES, LaunchOptions, filter_instance_types
from karpenter.cloud.aws.instancetype.offering import InstanceTypeBuilder
from karpenter.cloud.aws.instancetype.types import Traits
from karpenter.cloud.catalogs.ec2.instancetypes import WELL_KNOWN
from karpenter.cloud.catalogs.kwok import Interner
from karpenter.cloud.errors import InsufficientCapacity
from karpenter.core.model.catalog import Catalog, InstanceType, Offering
from tests.unit.cloud.aws.catalogue import ZONES, every_type, traits
from tests.unit.cloud.aws.instancetype.test_instancetype import prices, reservation
from tests.unit.cloud.aws.world import claim, requirement

KIND = "karpenter.sh/capacity-type"
TYPE = "node.kubernetes.io/instance-type"
RESERVED = requirement(KIND, "In", "reserved", "spot", "on-demand")
ANY = requirement(KIND, "In", "spot", "on-demand")
ON_DEMAND = requirement(KIND, "In", "on-demand")
USUAL = (
    "c5.large",
    "m5.large",
    "m5.xlarge",
    "m5.metal",
    "p5.48xlarge",
    "inf2.xlarge",
    "r5.large",
    "t3.large",
)
CHEAP = {
    (name, zone): price / 3
    for name, price in {"c5.large": 0.085, "m5.large": 0.096, "t3.large": 0.0832}.items()
    for zone in ZONES
}


def catalog(
    *names: str, wanted: Traits | None = None, spot: dict[tuple[str, str], float] | None = None
) -> Catalog:
    """Return what may be bought of some types."""
    builder = InstanceTypeBuilder(wanted or traits(), prices(CHEAP if spot is None else spot), Interner())
    built = (builder.build(every_type()[name], frozenset(ZONES)) for name in names or USUAL)
    return Catalog(types=tuple(each for each in built if each is not None), well_known=WELL_KNOWN)


@cache
def everything() -> Catalog:
    """Return what may be bought of all of EC2, on demand."""
    return catalog(*every_type(), spot={})


def counted(found: Catalog, **left: int) -> Catalog:
    """Return a catalogue in which so much is left of reservations."""

    def count(each: Offering) -> Offering:
        if not each.reservation_id:
            return each
        held = left.get(each.reservation_id.replace("-", "_"), 1)
        return msgspec.structs.replace(each, reservation_capacity=held, available=held > 0 and each.available)

    def kind(each: InstanceType) -> InstanceType:
        return msgspec.structs.replace(each, offerings=tuple(map(count, each.offerings)))

    return msgspec.structs.replace(found, types=tuple(map(kind, found.types)))


def names(purchase: LaunchOptions) -> list[str]:
    """Return the types that are asked for, in order."""
    return [option.kind.name for option in purchase.options]


def test_what_is_cheapest_comes_first() -> None:
    """In the order of the lowest price of each type."""
    assert names(filter_instance_types(catalog(), claim(ON_DEMAND))) == [
        "t3.large",
        "c5.large",
        "m5.large",
        "r5.large",
        "m5.xlarge",
    ]


@pytest.mark.parametrize(
    ("requirements", "requests", "expected"),
    [
        pytest.param((), {"cpu": "3"}, ["m5.xlarge"], id="what the pods need"),
        pytest.param((requirement(TYPE, "In", "m5.large"),), {}, ["m5.large"], id="a type"),
        pytest.param(
            (requirement(TYPE, "NotIn", "m5.large", "m5.xlarge", "r5.large"),),
            {},
            ["t3.large", "c5.large"],
            id="not a type",
        ),
        pytest.param(
            (requirement("karpenter.k8s.aws/instance-memory", "Gt", "8192"),),
            {},
            ["r5.large", "m5.xlarge"],
            id="memory",
        ),
        pytest.param(
            (requirement("karpenter.k8s.aws/instance-family", "In", "c5"),), {}, ["c5.large"], id="a family"
        ),
    ],
)
def test_what_would_do(requirements: tuple[Any, ...], requests: dict[str, str], expected: list[str]) -> None:
    """Every requirement of the claim, and room for its requests."""
    found = filter_instance_types(
        catalog(), claim(ON_DEMAND, *requirements, requests=requests or {"cpu": "1"})
    )

    assert names(found) == expected


@pytest.mark.parametrize(
    ("requirements", "requests"),
    [
        pytest.param((requirement(TYPE, "In", "none.large"),), {}, id="a type that does not exist"),
        pytest.param((requirement("topology.kubernetes.io/zone", "In", "elsewhere"),), {}, id="another zone"),
        pytest.param((), {"cpu": "1000"}, id="more than any machine has"),
        pytest.param((), {"example.com/thing": "1"}, id="what no machine has"),
        pytest.param((requirement("kubernetes.io/arch", "In", "arm64"),), {}, id="another architecture"),
    ],
)
def test_nothing_would_do(requirements: tuple[Any, ...], requests: dict[str, str]) -> None:
    """The claim is given up, and something else is decided."""
    with pytest.raises(InsufficientCapacity):
        filter_instance_types(catalog(), claim(ON_DEMAND, *requirements, requests=requests or {"cpu": "1"}))


@pytest.mark.parametrize(
    ("requirements", "requests", "expected"),
    [
        pytest.param((), {}, False, id="left out while there is something else"),
        pytest.param(
            (requirement(TYPE, "In", "m5.metal", "p5.48xlarge"),), {}, True, id="kept if there is not"
        ),
        pytest.param((), {"nvidia.com/gpu": "1"}, True, id="kept for who asks for them"),
        pytest.param((requirement(TYPE, "Exists", least=2),), {}, True, id="kept where variety is asked for"),
    ],
)
def test_exotic_types(requirements: tuple[Any, ...], requests: dict[str, str], expected: bool) -> None:
    """Bare metal and accelerators are for those who need them."""
    found = filter_instance_types(
        catalog(), claim(ON_DEMAND, *requirements, requests=requests or {"cpu": "1"})
    )

    assert bool({"m5.metal", "p5.48xlarge", "inf2.xlarge"} & set(names(found))) is expected


def test_spot_that_costs_more_than_on_demand_is_left_out() -> None:
    """Where both would do."""
    dear = {("m5.large", zone): 0.9 for zone in ZONES}

    found = filter_instance_types(catalog("m5.large", "t3.large", spot={**CHEAP, **dear}), claim(ANY))

    assert (found.capacity_type, names(found)) == ("spot", ["t3.large"])


def test_spot_at_any_price_for_who_wants_spot_only() -> None:
    """There is nothing to compare it with."""
    dear = {("m5.large", zone): 0.9 for zone in ZONES}

    found = filter_instance_types(catalog("m5.large", spot=dear), claim(requirement(KIND, "In", "spot")))

    assert names(found) == ["m5.large"]


@pytest.mark.parametrize(
    ("wanted", "spot", "expected"),
    [
        pytest.param(ANY, CHEAP, "spot", id="spot, if it may be"),
        pytest.param(ANY, {}, "on-demand", id="on demand, if there is no spot"),
        pytest.param(ON_DEMAND, CHEAP, "on-demand", id="on demand, if it must be"),
        pytest.param(requirement(KIND, "NotIn", "on-demand"), CHEAP, "spot", id="not on demand"),
        pytest.param(requirement(KIND, "Exists"), CHEAP, "spot", id="anything"),
    ],
)
def test_capacity_type(wanted: Any, spot: dict[tuple[str, str], float], expected: str) -> None:
    """Reserved before spot before on demand."""
    found = filter_instance_types(catalog("c5.large", "m5.large", spot=spot), claim(wanted))

    assert found.capacity_type == expected
    assert {each.capacity_type for option in found.options for each in option.offerings} == {expected}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param((), "default", id="nothing is said"),
        pytest.param(("default", "dedicated"), "default", id="both would do"),
        pytest.param(("dedicated",), "dedicated", id="hardware of its own"),
    ],
)
def test_tenancy(values: tuple[str, ...], expected: str) -> None:
    """Shared hardware unless it must not be."""
    wanted = (requirement("karpenter.k8s.aws/instance-tenancy", "In", *values),) if values else ()

    assert filter_instance_types(catalog(), claim(ON_DEMAND, *wanted)).tenancy == expected


def test_a_request_has_so_many_types_at_most() -> None:
    """The cheapest sixty, whatever else would do."""
    found = filter_instance_types(everything(), claim(ON_DEMAND))

    assert len(found.options) == MAX_INSTANCE_TYPES == 60
    cheapest = [option.cheapest for option in found.options]
    assert cheapest == sorted(cheapest)


@pytest.mark.parametrize(
    ("least", "annotations", "fits"),
    [
        pytest.param(5, {}, True, id="enough"),
        pytest.param(9, {}, False, id="too few"),
        pytest.param(
            9, {"karpenter.sh/nodeclaim-min-values-relaxed": "true"}, True, id="which may be relaxed"
        ),
    ],
)
def test_variety(least: int, annotations: dict[str, str], fits: bool) -> None:
    """A claim that wants so many types to choose from gets them, or is told."""
    wanted = claim(ON_DEMAND, requirement(TYPE, "Exists", least=least), annotations=annotations)

    if fits:
        assert filter_instance_types(catalog(), wanted).options
    else:
        with pytest.raises(InsufficientCapacity, match=f"minValues is {least}"):
            filter_instance_types(catalog(), wanted)


BLOCK = {"reservation_type": "capacity-block"}


def with_reservations(*held: Any, **left: int) -> Catalog:
    """Return what may be bought with some reservations."""
    return counted(catalog("c5.large", "m5.large", wanted=traits(reservations=held)), **left)


class TestReservations:
    """Which reservation is used."""

    def test_a_reservation_comes_before_everything_else(self) -> None:
        """Nothing else is asked for."""
        found = filter_instance_types(with_reservations(reservation()), claim(RESERVED))

        assert (found.capacity_type, names(found)) == ("reserved", ["m5.large"])

    def test_not_for_who_does_not_want_it(self) -> None:
        """A claim says which capacity types it takes."""
        assert filter_instance_types(with_reservations(reservation()), claim(ANY)).capacity_type == "spot"

    def test_not_if_nothing_is_left_of_it(self) -> None:
        """Then it is as if there were none."""
        assert (
            filter_instance_types(with_reservations(reservation(), cr_1=0), claim(RESERVED)).capacity_type
            == "spot"
        )

    def test_of_two_in_a_zone_the_one_with_more_left(self) -> None:
        """So that they are used up evenly."""
        held = with_reservations(reservation(), reservation(id="cr-2"), cr_1=1, cr_2=5)

        found = filter_instance_types(held, claim(RESERVED))

        assert [each.reservation_id for option in found.options for each in option.offerings] == ["cr-2"]

    def test_one_in_each_zone(self) -> None:
        """EC2 may choose among zones."""
        held = with_reservations(reservation(), reservation(id="cr-2", availability_zone="us-west-2b"))

        found = filter_instance_types(held, claim(RESERVED))

        ids = {each.reservation_id for option in found.options for each in option.offerings}
        assert ids == {"cr-1", "cr-2"}

    @pytest.mark.parametrize(
        ("held", "sort"),
        [
            pytest.param((reservation(), reservation(id="cr-2", **BLOCK)), ("default", False), id="default"),
            pytest.param((reservation(**BLOCK),), ("capacity-block", False), id="a block"),
            pytest.param(
                (reservation(), reservation(id="cr-2", interruptible=True)),
                ("default", False),
                id="not interruptible",
            ),
            pytest.param((reservation(interruptible=True),), ("default", True), id="interruptible"),
            pytest.param(
                (reservation(**BLOCK), reservation(id="cr-2", interruptible=True)),
                ("capacity-block", False),
                id="a block before what may be interrupted",
            ),
            pytest.param(
                (reservation(), reservation(id="cr-2", instance_type="c5.large", **BLOCK)),
                ("capacity-block", False),
                id="what is cheaper, whatever it is",
            ),
        ],
    )
    def test_one_sort_at_a_time(self, held: tuple[Any, ...], sort: tuple[str, bool]) -> None:
        """Each needs a request of its own; the cheapest wins, and of equals the ordinary one."""
        found = filter_instance_types(with_reservations(*held), claim(RESERVED))

        assert (found.reservation_type, found.interruptible) == sort

    def test_a_single_block(self) -> None:
        """A request is for one capacity block."""
        held = with_reservations(
            reservation(**BLOCK), reservation(id="cr-2", availability_zone="us-west-2b", **BLOCK)
        )

        found = filter_instance_types(held, claim(RESERVED))

        assert sum(len(option.offerings) for option in found.options) == 1
