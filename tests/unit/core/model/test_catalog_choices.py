from random import Random

import pytest

from karpenter.api import labels
from karpenter.api.nodeclaim import NodeRequirement
from karpenter.core.model.catalog import OfferingName, choices, labels_of
from karpenter.core.model.requirement import RequirementError
from tests.unit.cloud.kwok.world import catalog, claim, need

SPOT_1 = OfferingName("small", "zone-1", "spot")
SPOT_2 = OfferingName("small", "zone-2", "spot")
SMALL = OfferingName("small", "zone-1", "on-demand")
LARGE = OfferingName("large", "zone-2", "on-demand")
RESERVED = OfferingName("large", "zone-2", "reserved", "res-1")


def chance(seed: int = 1) -> Random:
    return Random(seed)  # noqa: S311  a test


@pytest.mark.parametrize(
    ("requirements", "expected"),
    [
        pytest.param([], [{SPOT_1, SPOT_2}, {SMALL}, {RESERVED}, {LARGE}], id="the cheapest first"),
        pytest.param([need(labels.CAPACITY_TYPE, "on-demand")], [{SMALL}, {LARGE}], id="a capacity type"),
        pytest.param([need(labels.ZONE, "zone-2")], [{SPOT_2}, {RESERVED}, {LARGE}], id="a zone"),
        pytest.param([need(labels.ZONE, "zone-2", operator="NotIn")], [{SPOT_1}, {SMALL}], id="not a zone"),
        pytest.param([need(labels.INSTANCE_TYPE, "large", "gone")], [{RESERVED}, {LARGE}], id="some types"),
        pytest.param(
            [need("karpenter.kwok.sh/instance-cpu", "4", operator="Gt")], [{RESERVED}, {LARGE}], id="size"
        ),
        pytest.param([need(labels.ARCH, "arm64")], [], id="nothing would do"),
        pytest.param([need(labels.OS, "windows")], [{SPOT_1, SPOT_2}, {SMALL}], id="a system"),
        pytest.param(
            [need("team", "web")], [{SPOT_1, SPOT_2}, {SMALL}, {RESERVED}, {LARGE}], id="a custom label"
        ),
    ],
)
def test_choices(requirements: list[NodeRequirement], expected: list[set[OfferingName]]) -> None:
    """Everything that satisfies the claim and can be bought is returned by price, equals in any order."""
    found = [choice.name for choice in choices(catalog(), claim("one", *requirements), chance().shuffle)]

    assert [set(found[i : i + len(group)]) for i, group in _offsets(expected)] == expected
    assert len(found) == sum(len(group) for group in expected)


def _offsets(groups: list[set[OfferingName]]) -> list[tuple[int, set[OfferingName]]]:
    starts = [sum(len(each) for each in groups[:number]) for number in range(len(groups))]
    return list(zip(starts, groups, strict=True))


@pytest.mark.parametrize(
    ("requests", "types"),
    [
        pytest.param({"cpu": "1900m"}, {"small", "large"}, id="the overhead leaves 1900m of 2 cores"),
        pytest.param({"cpu": "1901m"}, {"large"}, id="one thousandth more does not fit"),
        pytest.param({"cpu": "1", "pods": "111"}, set(), id="nothing runs that many pods"),
        pytest.param({"nvidia.com/gpu": "1"}, set(), id="a resource that no type has"),
    ],
)
def test_requests_must_fit(requests: dict[str, str], types: set[str]) -> None:
    """Only types that leave room for the claim's requests are returned."""
    found = choices(catalog(), claim("one", requests=requests), chance().shuffle)

    assert {choice.kind.name for choice in found} == types


def test_chance_decides_between_equals() -> None:
    """Of two zones at the same price each is sometimes first, and the same seed gives the same one."""
    firsts = [choices(catalog(), claim(), chance(seed).shuffle)[0].name for seed in range(20)]

    assert set(firsts) == {SPOT_1, SPOT_2}
    assert firsts == [choices(catalog(), claim(), chance(seed).shuffle)[0].name for seed in range(20)]


def test_chance_is_asked_only_where_there_are_equals() -> None:
    """Of five offerings two cost the same; a draw for each of the others would change what later ones get."""
    drawn: list[int] = []

    choices(catalog(), claim(), lambda equals: drawn.append(len(equals)))

    assert drawn == [2]


def test_without_chance_the_first_wins() -> None:
    """Of offerings at the same price, the first of the catalogue is the first choice."""
    assert choices(catalog(), claim())[0].name == SPOT_1


def test_a_claim_that_cannot_be_read() -> None:
    """A requirement that means nothing is an error, not an empty answer."""
    with pytest.raises(RequirementError, match="operator Gt takes exactly one integer"):
        choices(catalog(), claim("one", need("x", "y", operator="Gt")), chance().shuffle)


def test_labels_are_settled() -> None:
    """Where the type leaves a choice the claim decides, or else the first value; absent labels stay away."""
    wanted = claim(
        "one", need(labels.OS, "windows"), need("team", "web", "api"), need("tier", operator="Exists")
    )
    found = labels_of(choices(catalog(), wanted, chance().shuffle)[0], wanted)

    assert found == {
        labels.INSTANCE_TYPE: "small",
        labels.ARCH: "amd64",
        labels.OS: "windows",
        labels.CAPACITY_TYPE: "spot",
        labels.ZONE: found[labels.ZONE],
        "team": "api",
        "karpenter.kwok.sh/instance-cpu": "2",
        "karpenter.kwok.sh/instance-memory": "4Gi",
        "karpenter.kwok.sh/instance-family": "s",
        "karpenter.kwok.sh/instance-size": "2",
    }


def test_the_name_of_an_offering_is_read_by_people() -> None:
    """Type, zone and capacity type; a reservation in brackets."""
    assert [str(SPOT_1), str(RESERVED)] == ["small/zone-1/spot", "large/zone-2/reserved (res-1)"]
