"""Capacity reservations: which are found, and what is left of them."""

from datetime import timedelta
from typing import Any

import pytest

from karpenter.api.ec2nodeclass import CapacityReservationSelectorTerm
from karpenter.api.meta import convert
from karpenter.cloud.aws.capacityreservation import CapacityReservationProvider, state_of
from karpenter.cloud.aws.sdk import AwsApi
from karpenter_local.virtual import VirtualClock, run_virtual
from tests.unit.cloud.aws.world import NOW, World

HOUR = timedelta(hours=1)


def told(number: str, **changes: Any) -> dict[str, Any]:
    """Return a reservation as EC2 describes it."""
    return {
        "CapacityReservationId": number,
        "OwnerId": "012345678901",
        "InstanceType": "m5.large",
        "AvailabilityZone": "us-west-2a",
        "State": "active",
        "InstanceMatchCriteria": "targeted",
        "AvailableInstanceCount": 3,
        "TotalInstanceCount": 5,
        **changes,
    }


RESERVATIONS = (
    told("cr-1", Tags=[{"Key": "team", "Value": "a"}]),
    told("cr-2", Tags=[{"Key": "team", "Value": "b"}], OwnerId="999999999999"),
    told("cr-3", InstanceMatchCriteria="open"),
    told("cr-4", State="cancelled"),
    told("cr-5", EndDate=NOW - HOUR, Tags=[{"Key": "team", "Value": "a"}]),
    told("cr-6", ReservationType="capacity-block", EndDate=NOW + HOUR, InstanceType="p5.48xlarge"),
    told("cr-7", ReservationType="capacity-block", EndDate=NOW + HOUR / 2, InstanceType="p5.48xlarge"),
    told("cr-8", Interruptible=True, InstanceMatchCriteria="open"),
    told("cr-9", InstanceMatchCriteria="unheard-of", Tags=[{"Key": "odd", "Value": "yes"}]),
)


@pytest.fixture(scope="module")
def world() -> World:
    """An account with reservations of all sorts."""
    made = World(types=("m5.large",))
    for each in RESERVATIONS:
        made.account.reservations[each["CapacityReservationId"]] = dict(each)
    return made


def in_it(world: World, work: Any) -> Any:
    async def main() -> Any:
        aws = AwsApi(world.clients)
        try:
            return await work(CapacityReservationProvider(aws, clock=VirtualClock()))
        finally:
            aws.close()

    return run_virtual(main(), start=NOW)


def terms(*plain: dict[str, Any]) -> tuple[CapacityReservationSelectorTerm, ...]:
    """Return terms as the API spells them."""
    return tuple(convert(each, CapacityReservationSelectorTerm) for each in plain)


@pytest.mark.parametrize(
    ("plain", "which"),
    [
        pytest.param([], [], id="no terms select nothing"),
        pytest.param([{"id": "cr-1"}], ["cr-1"], id="by id"),
        pytest.param([{"id": "cr-2"}, {"id": "cr-1"}], ["cr-1", "cr-2"], id="by several ids, in order"),
        pytest.param([{"id": "cr-4"}], [], id="only active ones"),
        pytest.param([{"id": "cr-5"}], [], id="none that has ended"),
        pytest.param([{"id": "cr-none"}], [], id="one that does not exist is nothing"),
        pytest.param([{"tags": {"team": "a"}}], ["cr-1"], id="by a tag"),
        pytest.param([{"tags": {"team": "*"}}], ["cr-1", "cr-2"], id="by any value of a tag"),
        pytest.param([{"tags": {"team": "*"}, "ownerID": "999999999999"}], ["cr-2"], id="by tag and owner"),
        pytest.param([{"instanceMatchCriteria": "open"}], ["cr-3", "cr-8"], id="by criteria"),
        pytest.param(
            [{"id": "cr-3", "tags": {"team": "a"}}], ["cr-1", "cr-3"], id="an id and tags are both asked"
        ),
        pytest.param([{"tags": {"odd": "yes"}}], [], id="one of an unknown kind is left out"),
    ],
)
def test_selecting(world: World, plain: list[dict[str, Any]], which: list[str]) -> None:
    """Reservations are found by what their terms say."""
    found = in_it(world, lambda reservations: reservations.find(terms(*plain)))

    assert [each.id for each in found] == which


def test_what_is_told(world: World) -> None:
    """A reservation says what it is for, whose it is, when it ends, and whether it takes machines."""
    (block,) = in_it(world, lambda reservations: reservations.find(terms({"id": "cr-7"})))

    assert block.reservation_type == "capacity-block"
    assert block.instance_type == "p5.48xlarge"
    assert block.end_time == NOW + HOUR / 2
    assert block.owner_id == "012345678901"
    assert block.state == "expiring"


def test_interruptible_ones_say_so(world: World) -> None:
    """A reservation whose owner may take machines back is marked."""
    found = in_it(world, lambda r: r.find(terms({"instanceMatchCriteria": "open"})))

    assert [each.interruptible for each in found] == [False, True]


@pytest.mark.parametrize(
    ("kind", "end", "state"),
    [
        pytest.param("capacity-block", NOW + HOUR, "active", id="a block with an hour left"),
        pytest.param(
            "capacity-block", NOW + timedelta(minutes=40), "expiring", id="a block with 40 minutes left"
        ),
        pytest.param(
            "capacity-block", NOW + timedelta(minutes=41), "active", id="a block with 41 minutes left"
        ),
        pytest.param("capacity-block", None, "active", id="a block without an end"),
        pytest.param("default", NOW + timedelta(minutes=1), "active", id="others never expire this way"),
    ],
)
def test_states(kind: str, end: Any, state: str) -> None:
    """A capacity block takes no machines in its last 40 minutes."""
    assert state_of(kind, end, NOW) == state


def test_counting(world: World) -> None:
    """What is left follows launches, ends and refusals until EC2 is asked again."""

    async def main(reservations: CapacityReservationProvider) -> list[int]:
        counts = [reservations.left("cr-1")]
        await reservations.find(terms({"id": "cr-1"}))
        counts.append(reservations.left("cr-1"))
        reservations.launched("cr-1")
        counts.append(reservations.left("cr-1"))
        reservations.used_up("cr-1")
        reservations.launched("cr-1")
        counts.append(reservations.left("cr-1"))
        reservations.ended("cr-1")
        counts.append(reservations.left("cr-1"))
        return counts

    assert in_it(world, main) == [0, 3, 2, 0, 1]


def test_changes_are_counted(world: World) -> None:
    """The version changes with the counts, and only then."""

    async def main(reservations: CapacityReservationProvider) -> list[int]:
        await reservations.find(terms({"id": "cr-1"}))
        before = reservations.changes
        reservations.used_up("cr-1")
        reservations.used_up("cr-1")
        return [before, reservations.changes]

    before, after = in_it(world, main)
    assert after == before + 1
