"""Placement groups: the one that a class names."""

from typing import Any

import pytest

from karpenter.api.ec2nodeclass import PlacementGroupSelector
from karpenter.cloud.aws.errors import AccessDenied
from karpenter.cloud.aws.placementgroup import PlacementGroupProvider
from karpenter.cloud.aws.sdk import AwsApi
from karpenter_local.aws.faults import RefuseCall
from karpenter_local.virtual import run_virtual
from tests.unit.cloud.aws.world import World

GROUPS = (
    {"GroupId": "pg-1", "GroupName": "near", "Strategy": "cluster", "State": "available"},
    {
        "GroupId": "pg-2",
        "GroupName": "parted",
        "Strategy": "partition",
        "State": "available",
        "PartitionCount": 3,
    },
    {"GroupId": "pg-3", "GroupName": "gone", "Strategy": "spread", "State": "deleted"},
)


@pytest.fixture
def world() -> World:
    """An account with placement groups."""
    made = World(types=("m5.large",))
    for each in GROUPS:
        made.account.placement_groups[str(each["GroupId"])] = dict(each)
    return made


def in_it(world: World, work: Any) -> Any:
    """Run work with placement groups, and a clock that it can turn."""

    async def main() -> Any:
        aws = AwsApi(world.clients)
        clock = {"now": 0.0}
        try:
            return await work(PlacementGroupProvider(aws, monotonic=lambda: clock["now"]), clock)
        finally:
            aws.close()

    return run_virtual(main())


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        pytest.param(None, None, id="no selector, no group"),
        pytest.param(PlacementGroupSelector(name="near"), "pg-1", id="by name"),
        pytest.param(PlacementGroupSelector(id="pg-2"), "pg-2", id="by id"),
        pytest.param(PlacementGroupSelector(name="gone"), None, id="only available ones"),
        pytest.param(PlacementGroupSelector(id="pg-9"), None, id="one that does not exist"),
    ],
)
def test_finding(world: World, selector: PlacementGroupSelector | None, found: str | None) -> None:
    """A group is found by its name or its id."""
    group = in_it(world, lambda groups, _: groups.find(selector))

    assert (group.id if group else None) == found


def test_partitions(world: World) -> None:
    """A group of partitions says what they are called."""
    group = in_it(world, lambda groups, _: groups.find(PlacementGroupSelector(id="pg-2")))

    assert (group.strategy, group.numbers) == ("partition", ("1", "2", "3"))


def test_the_last_known_group(world: World) -> None:
    """While EC2 does not answer, a group that was found before still counts; one that never was does not."""
    near, parted = PlacementGroupSelector(name="near"), PlacementGroupSelector(name="parted")

    async def main(groups: PlacementGroupProvider, clock: dict[str, float]) -> str:
        await groups.find(near)
        world.account.faults.always("DescribePlacementGroups", RefuseCall(code="UnauthorizedOperation"))
        clock["now"] = 120.0
        with pytest.raises(AccessDenied):
            await groups.find(near)
        with pytest.raises(AccessDenied):
            await groups.last_known(parted)
        known = await groups.last_known(near)
        assert known is not None
        return known.id

    assert in_it(world, main) == "pg-1"
