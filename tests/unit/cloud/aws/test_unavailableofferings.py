"""What failed lately, and how long that is remembered."""

from typing import Any

import pytest

from karpenter.cloud.aws.unavailableofferings import (
    NOTHING,
    OfferingKey,
    UnavailableOfferings,
    UnavailableSnapshot,
    apply_unavailable,
)
from karpenter.core.model.catalog import Catalog
from karpenter_local.virtual import VirtualClock
from tests.unit.cloud.aws.catalogue import traits
from tests.unit.cloud.aws.instancetype.test_instancetype import built, group, reservation
from tests.unit.cloud.aws.scripted import virtually

SPOT_A = OfferingKey("m5.large", "us-west-2a", "spot")


def remembered(seconds: float, *, again: float | None = None) -> bool:
    """Return whether an offering is skipped so many seconds after it failed."""

    async def main(clock: VirtualClock) -> bool:
        unavailable = UnavailableOfferings(monotonic=clock.monotonic)
        unavailable.mark([SPOT_A])
        if again is not None:
            await clock.sleep(again)
            unavailable.mark([SPOT_A])
        await clock.sleep(seconds)
        return SPOT_A in unavailable.now().offerings

    return virtually(main)


@pytest.mark.parametrize(
    ("seconds", "again", "expected"),
    [
        pytest.param(179, None, True, id="for three minutes"),
        pytest.param(181, None, False, id="and no longer"),
        pytest.param(179, 100, True, id="from the last time that it failed"),
    ],
)
def test_how_long(seconds: float, again: float | None, expected: bool) -> None:
    """Then it is tried again."""
    assert remembered(seconds, again=again) is expected


def test_the_same_value_comes_back_until_something_changes() -> None:
    """So that callers can compare by identity."""

    async def main(clock: VirtualClock) -> Any:
        unavailable = UnavailableOfferings(monotonic=clock.monotonic)
        empty = unavailable.now()
        unavailable.mark([SPOT_A])
        first, second = unavailable.now(), unavailable.now()
        return empty is NOTHING, first is second, first is empty

    assert virtually(main) == (True, True, False)


GROUPED = OfferingKey("m5.large", "us-west-2a", "spot", "pg-1")
PARTITIONED = OfferingKey("m5.large", "us-west-2a", "spot", "pg-1", "2")


@pytest.mark.parametrize(
    ("marks", "place", "subnets", "expected"),
    [
        pytest.param(UnavailableSnapshot(), SPOT_A, ("s",), False, id="nothing"),
        pytest.param(
            UnavailableSnapshot(offerings=frozenset({SPOT_A})), SPOT_A, ("s",), True, id="the offering"
        ),
        pytest.param(
            UnavailableSnapshot(offerings=frozenset({SPOT_A})),
            OfferingKey("m5.large", "us-west-2b", "spot"),
            ("s",),
            False,
            id="another zone",
        ),
        pytest.param(
            UnavailableSnapshot(offerings=frozenset({SPOT_A})),
            OfferingKey("m5.large", "us-west-2a", "on-demand"),
            ("s",),
            False,
            id="another capacity type",
        ),
        pytest.param(
            UnavailableSnapshot(capacity_types=frozenset({"spot"})), SPOT_A, ("s",), True, id="all of spot"
        ),
        pytest.param(
            UnavailableSnapshot(subnets=frozenset({"s"})), SPOT_A, ("s",), True, id="the only subnet"
        ),
        pytest.param(
            UnavailableSnapshot(subnets=frozenset({"s"})), SPOT_A, ("s", "t"), False, id="one of two subnets"
        ),
        pytest.param(
            UnavailableSnapshot(subnets=frozenset({"s"})), SPOT_A, (), False, id="no subnets to speak of"
        ),
        pytest.param(
            UnavailableSnapshot(offerings=frozenset({SPOT_A})), GROUPED, ("s",), True, id="in any group"
        ),
        pytest.param(
            UnavailableSnapshot(offerings=frozenset({GROUPED})),
            SPOT_A,
            ("s",),
            False,
            id="not outside of a group",
        ),
        pytest.param(
            UnavailableSnapshot(offerings=frozenset({GROUPED})),
            PARTITIONED,
            ("s",),
            True,
            id="in any partition of it",
        ),
        pytest.param(
            UnavailableSnapshot(offerings=frozenset({PARTITIONED})),
            GROUPED,
            ("s",),
            False,
            id="not in the whole group",
        ),
        pytest.param(
            UnavailableSnapshot(offerings=frozenset({PARTITIONED})),
            PARTITIONED,
            ("s",),
            True,
            id="in this partition",
        ),
    ],
)
def test_skips(
    marks: UnavailableSnapshot, place: OfferingKey, subnets: tuple[str, ...], expected: bool
) -> None:
    """What failed somewhere is skipped there, and in whatever is a part of it."""
    assert marks.skips(place, subnets) is expected


def available(marks: UnavailableSnapshot, left: int = 0, **more: Any) -> set[tuple[str, str]]:
    """Return what can be had of m5.large, by capacity type and zone."""
    wanted = traits(**more)
    kind = built("m5.large", wanted)
    assert kind is not None
    shown = apply_unavailable(Catalog(types=(kind,)), wanted, marks, lambda _: left)
    return {
        (each.capacity_type, each.zone.removeprefix("us-west-2"))
        for each in shown.types[0].offerings
        if each.available
    }


EVERYTHING = {(kind, zone) for kind in ("spot", "on-demand") for zone in "abc"}


@pytest.mark.parametrize(
    ("marks", "expected"),
    [
        pytest.param(UnavailableSnapshot(), EVERYTHING, id="nothing failed"),
        pytest.param(
            UnavailableSnapshot(offerings=frozenset({SPOT_A})),
            EVERYTHING - {("spot", "a")},
            id="one offering",
        ),
        pytest.param(
            UnavailableSnapshot(capacity_types=frozenset({"spot"})),
            {each for each in EVERYTHING if each[0] != "spot"},
            id="all of spot",
        ),
        pytest.param(
            UnavailableSnapshot(subnets=frozenset({"subnet-us-west-2a"})),
            {each for each in EVERYTHING if each[1] != "a"},
            id="a subnet without addresses",
        ),
        pytest.param(
            UnavailableSnapshot(zones=frozenset({"usw2-az2"})),
            {each for each in EVERYTHING if each[1] != "a"},
            id="a zone that is shifted away",
        ),
    ],
)
def test_marked(marks: UnavailableSnapshot, expected: set[tuple[str, str]]) -> None:
    """What cannot be had stays in the catalogue, and is marked."""
    assert available(marks) == expected


@pytest.mark.parametrize(
    ("marks", "left", "expected"),
    [
        pytest.param(UnavailableSnapshot(), 1, True, id="one is left"),
        pytest.param(UnavailableSnapshot(), 0, False, id="none is left"),
        pytest.param(
            UnavailableSnapshot(zones=frozenset({"usw2-az2"})), 1, False, id="its zone is shifted away"
        ),
    ],
)
def test_reservations_are_available_while_something_is_left(
    marks: UnavailableSnapshot, left: int, expected: bool
) -> None:
    """Counts change with every launch."""
    found = available(marks, left, reservations=(reservation(),))

    assert (("reserved", "a") in found) is expected


def test_partitions_are_marked_one_by_one() -> None:
    """A partition that is full does not close the others."""
    place = OfferingKey("m5.large", "us-west-2a", "spot", "pg-1", "1")
    wanted = traits(group=group("partition", 2))
    kind = built("m5.large", wanted)
    assert kind is not None

    shown = apply_unavailable(
        Catalog(types=(kind,)), wanted, UnavailableSnapshot(offerings=frozenset({place})), lambda _: 0
    )

    assert [each.available for each in shown.types[0].offerings].count(False) == 1


def test_labels_say_what_can_still_be_had() -> None:
    """A type without spot is not offered to pods that want spot."""
    wanted = traits()
    kind = built("m5.large", wanted)
    assert kind is not None

    shown = apply_unavailable(
        Catalog(types=(kind,)), wanted, UnavailableSnapshot(capacity_types=frozenset({"spot"})), lambda _: 0
    )

    assert shown.types[0].requirements["karpenter.sh/capacity-type"].values == {"on-demand"}
