"""Subnets: which are found, and how many addresses each has left."""

from typing import Any

import pytest

from karpenter.api.ec2nodeclass import SubnetSelectorTerm
from karpenter.api.ec2nodeclass_status import Subnet
from karpenter.api.meta import convert
from karpenter.cloud.aws.sdk import AwsApi
from karpenter.cloud.aws.subnet import FoundSubnet, SubnetProvider
from karpenter_local.virtual import run_virtual
from tests.unit.cloud.aws.world import CLUSTER, World, shared_world


class Clock:
    """Seconds that pass when told to."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def terms(*plain: dict[str, Any]) -> tuple[SubnetSelectorTerm, ...]:
    """Return terms as the API spells them."""
    return tuple(convert(each, SubnetSelectorTerm) for each in plain)


def find(world: World, *plain: dict[str, Any]) -> tuple[FoundSubnet, ...]:
    async def main() -> tuple[FoundSubnet, ...]:
        aws = AwsApi(world.clients)
        found = await SubnetProvider(aws, seconds=60.0, monotonic=Clock()).find(terms(*plain))
        aws.close()
        return found

    return run_virtual(main())


OURS = {"karpenter.sh/discovery": CLUSTER}


@pytest.mark.parametrize(
    ("plain", "which"),
    [
        pytest.param([{"tags": OURS}], {0, 1, 2}, id="by a tag and its value"),
        pytest.param([{"tags": {"karpenter.sh/discovery": "*"}}], {0, 1, 2}, id="by any value of a tag"),
        pytest.param(
            [{"tags": {"Name": f"eksctl-{CLUSTER}-cluster/SubnetPrivateUSWEST2A"}}], {0}, id="by another tag"
        ),
        pytest.param(
            [{"tags": {**OURS, "Name": f"eksctl-{CLUSTER}-cluster/SubnetPrivateUSWEST2B"}}],
            {1},
            id="all tags of a term must match",
        ),
        pytest.param([{"tags": {"Name": "*2A"}}], {0}, id="by a pattern"),
        pytest.param([{"tags": {"Name": "nothing"}}], set(), id="by a tag that nothing has"),
        pytest.param([{"id": 0}], {0}, id="by id"),
        pytest.param([{"id": 0}, {"id": 2}], {0, 2}, id="by several ids"),
        pytest.param([{"id": "subnet-0123456789abcdef0"}], set(), id="by an id that does not exist"),
        pytest.param([{"id": 0}, {"tags": {"Name": "*2B"}}], {0, 1}, id="by any of several terms"),
        pytest.param([{"id": 0}, {"tags": OURS}], {0, 1, 2}, id="none is found twice"),
        pytest.param([{"id": 0, "tags": {"Name": "*2B"}}], {0}, id="an id wins over tags"),
    ],
)
def test_selecting(plain: list[dict[str, Any]], which: set[int]) -> None:
    """Subnets are found by what their terms say."""
    ids = shared_world().estate.subnets
    asked = [{**each, "id": ids[each["id"]]} if isinstance(each.get("id"), int) else each for each in plain]

    assert {each.id for each in find(shared_world(), *asked)} == {ids[number] for number in which}


def test_zones_are_told() -> None:
    """A subnet says its zone, the id of that zone, and how many addresses it has."""
    (found,) = find(shared_world(), {"tags": {"Name": "*2A"}})

    assert (found.zone, found.zone_id, found.free) == ("us-west-2a", "usw2-az2", 8187)


def test_the_largest_comes_first() -> None:
    """Subnets are in the order of their free addresses, then of their ids."""
    world = World(types=("m5.large",))
    vpc = world.ec2.describe_subnets(SubnetIds=[world.estate.subnets[0]])["Subnets"][0]["VpcId"]
    small = world.estate.add_subnet(vpc, "us-west-2a", "10.0.200.0/28")
    large = world.estate.add_subnet(vpc, "us-west-2a", "10.0.128.0/18")
    found = [each.id for each in find(world, {"tags": OURS})]

    assert found == [large, *sorted(set(found) - {small, large}), small]


class Counting:
    """Subnets whose addresses are counted, without AWS."""

    def __init__(self, **free: int) -> None:
        self.clock = Clock()
        self.subnets = SubnetProvider(None, seconds=60.0, monotonic=self.clock)  # type: ignore[arg-type]  # not asked
        self.refresh(**free)

    def refresh(self, **free: int) -> None:
        """Let EC2 tell the addresses anew."""
        self.clock.seconds += 1
        for name, count in free.items():
            self.subnets._free[name] = count
            self.subnets._described[name] = self.clock.seconds
            self.subnets._in_flight.pop(name, None)
        self.clock.seconds += 1


def test_launches_in_flight_count() -> None:
    """Addresses that a launch will take are not offered to the next one."""
    counting = Counting(a=10)
    counting.subnets.reserve({"a": 4})
    counting.subnets.reserve({"a": 4})

    assert counting.subnets.free("a") == 2


def test_what_was_not_used_is_given_back() -> None:
    """A fleet uses one of the subnets that it was offered; the others are as free as before."""
    counting = Counting(a=10, b=10)
    taken = counting.subnets.reserve({"a": 4, "b": 4})
    counting.subnets.release(taken, used=["a"])

    assert (counting.subnets.free("a"), counting.subnets.free("b")) == (6, 10)


def test_nothing_is_given_back_twice() -> None:
    """When EC2 has been asked in the meantime, its count is right already."""
    counting = Counting(a=10)
    taken = counting.subnets.reserve({"a": 4})
    counting.refresh(a=8)
    counting.subnets.reserve({"a": 1})
    counting.subnets.release(taken)

    assert counting.subnets.free("a") == 7


def test_an_exhausted_subnet() -> None:
    """A subnet that turned out to be full has no addresses, whatever was counted."""
    counting = Counting(a=10)
    counting.subnets.reserve({"a": 4})
    counting.subnets.exhausted("a")

    assert counting.subnets.free("a") == 0


def test_an_unknown_subnet() -> None:
    """A subnet that was not described has no addresses."""
    assert Counting().subnets.free("a") == 0


@pytest.mark.parametrize(
    ("taken", "chosen"),
    [
        pytest.param({}, {"z1": "b", "z2": "c"}, id="the one with the most addresses of each zone"),
        pytest.param({"b": 15}, {"z1": "a", "z2": "c"}, id="launches under way count"),
        pytest.param({"b": 10}, {"z1": "a", "z2": "c"}, id="the first of equals"),
    ],
)
def test_choosing(taken: dict[str, int], chosen: dict[str, str]) -> None:
    """Each zone offers the subnet that has the most addresses left."""
    counting = Counting(a=10, b=20, c=5)
    counting.subnets.reserve(taken)
    subnets = [Subnet(id="a", zone="z1"), Subnet(id="b", zone="z1"), Subnet(id="c", zone="z2")]

    assert {zone: each.id for zone, each in counting.subnets.choose(subnets).items()} == chosen


def test_what_was_found_is_remembered() -> None:
    """EC2 is asked once a minute at most, also by many at once."""
    world = World(types=("m5.large",))
    clock = Clock()

    async def main() -> list[int]:
        aws = AwsApi(world.clients)
        subnets = SubnetProvider(aws, seconds=60.0, monotonic=clock)
        counts = []
        for seconds in (0.0, 59.0, 61.0):
            clock.seconds = seconds
            await subnets.find(terms({"tags": OURS}))
            counts.append(len(world.account.calls("DescribeSubnets")))
        aws.close()
        return counts

    assert run_virtual(main()) == [1, 1, 2]
