"""What is on sale, and what it says about each label."""

from __future__ import annotations

import pytest

from karpenter.api.labels import ARCH, CAPACITY_TYPE, INSTANCE_TYPE, ON_DEMAND, SPOT, ZONE
from karpenter.core.model.requirement import Requirement, requirement
from karpenter.core.scheduling.encode import offerings as module
from karpenter.core.scheduling.encode.offerings import OfferingTable, offering_table, satisfies
from karpenter_local.testing.builders import instance_type, offering

GENERATION = "example.com/generation"
LABEL = "example.com/colour"
TYPES = (
    instance_type(
        "a",
        sold=[
            offering("zone-1", SPOT, 0.1),
            offering("zone-2", ON_DEMAND, 0.2),
            offering("zone-3", SPOT, 0.3, available=False),
        ],
        type_labels={GENERATION: "4"},
    ),
    instance_type("b", sold=[offering("zone-2", SPOT, 0.4)], arch="arm64"),
)


def sold(ours: OfferingTable, wanted: Requirement) -> list[tuple[str, str]]:
    """Return the type and zone of every offering that satisfies a requirement."""
    bits = ours.matching(wanted)
    return [
        (ours.types[int(ours.owner[n])].name, each.zone)
        for n, each in enumerate(ours.offerings)
        if bits >> n & 1
    ]


def test_only_what_can_be_bought_is_numbered() -> None:
    """Offerings that are sold out have no number; the others keep the order of their types."""
    ours = OfferingTable(TYPES, frozenset())

    assert [each.zone for each in ours.offerings] == ["zone-1", "zone-2", "zone-2"]
    assert ours.owner.tolist() == [0, 0, 1]
    assert ours.price.tolist() == [0.1, 0.2, 0.4]
    assert ours.everything == 0b111


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        pytest.param(
            requirement(ZONE, "In", ["zone-2"]),
            [("a", "zone-2"), ("b", "zone-2")],
            id="an offering's own label counts before its type's",
        ),
        pytest.param(
            requirement(CAPACITY_TYPE, "NotIn", [SPOT]), [("a", "zone-2")], id="exclusions leave the others"
        ),
        pytest.param(
            requirement(ARCH, "In", ["arm64"]),
            [("b", "zone-2")],
            id="what a type says holds for all it sells",
        ),
        pytest.param(requirement(ZONE, "In", ["zone-3"]), [], id="what is sold out satisfies nothing"),
        pytest.param(
            requirement(GENERATION, "Gt", ["3"]), [("a", "zone-1"), ("a", "zone-2")], id="bounds are kept"
        ),
        pytest.param(requirement(GENERATION, "Gt", ["4"]), [], id="bounds exclude"),
        pytest.param(
            requirement(GENERATION, "DoesNotExist"), [("b", "zone-2")], id="who lacks a label may do without"
        ),
        pytest.param(
            requirement(LABEL, "In", ["red"]),
            [("a", "zone-1"), ("a", "zone-2"), ("b", "zone-2")],
            id="a label of which nothing is said is no obstacle",
        ),
    ],
)
def test_left(wanted: Requirement, expected: list[tuple[str, str]]) -> None:
    """A requirement leaves the offerings whose labels it allows."""
    assert sold(OfferingTable(TYPES, frozenset({GENERATION})), wanted) == expected


def test_a_label_that_is_not_named_is_open_unless_it_must_be() -> None:
    """Whether a type that does not name a key lacks the label is said when the offering table is made."""
    wanted = requirement(GENERATION, "Exists")

    assert len(sold(OfferingTable(TYPES, frozenset()), wanted)) == 3
    assert len(sold(OfferingTable(TYPES, frozenset({GENERATION})), wanted)) == 2


def test_values() -> None:
    """The values of a label are those that some offering of a set can have."""
    ours = OfferingTable(TYPES, frozenset())

    assert ours.label_values(ZONE).values(0b111) == {"zone-1", "zone-2"}
    assert ours.label_values(ZONE).values(0b001) == {"zone-1"}
    assert ours.label_values(GENERATION).values(0b111) == {"4"}
    assert ours.label_values(LABEL).values(0b111) == frozenset()


def test_names() -> None:
    """A key is named when at least one offering has a value for it."""
    ours = OfferingTable(TYPES, frozenset({LABEL}))

    assert (ours.label_values(GENERATION).names, ours.label_values(LABEL).names) == (True, False)


def test_many_different_label_values_are_told_apart() -> None:
    """However many different values a label has, each offering is found by its own."""
    types = tuple(instance_type(f"t{number}", sold=[offering("z", SPOT, 1)]) for number in range(100))
    ours = OfferingTable(types, frozenset())

    assert all(
        ours.matching(requirement(INSTANCE_TYPE, "In", [f"t{number}"])) == 1 << number
        for number in range(100)
    )


def test_answers_are_remembered() -> None:
    """The same question is worked out once."""
    ours = OfferingTable(TYPES, frozenset())
    wanted = requirement(ZONE, "In", ["zone-1"])

    assert ours.matching(wanted) == ours.matching(wanted) == 0b001
    assert ours.label_values(ZONE) is ours.label_values(ZONE)


def test_one_offering_table_serves_every_problem_with_the_same_types() -> None:
    """A offering table is set up again only when types, or the labels they lack, are others."""
    types = tuple(TYPES)
    others = (*TYPES, instance_type("c"))

    assert offering_table(types, frozenset()) is offering_table(types, frozenset())
    assert offering_table(types, frozenset()) is not offering_table(types, frozenset({LABEL}))
    assert offering_table(types, frozenset()) is not offering_table(others, frozenset())


def test_offering_tables_that_are_not_used_are_dropped() -> None:
    """Only the offering tables that were used last are kept."""
    first = tuple(TYPES)
    kept = offering_table(first, frozenset())
    others = [(*TYPES, instance_type(f"t{number}")) for number in range(module._KEPT)]

    for other in others:
        offering_table(other, frozenset())

    assert offering_table(first, frozenset()) is not kept
    assert len(module._tables) == module._KEPT


@pytest.mark.parametrize(
    ("said", "wanted", "expected"),
    [
        pytest.param(None, requirement("k", "In", ["a"]), True, id="nothing said, nothing against it"),
        pytest.param(Requirement("k"), requirement("k", "NotIn", ["a"]), True, id="both can do without"),
        pytest.param(Requirement("k"), requirement("k", "In", ["a"]), False, id="a label that is lacking"),
        pytest.param(
            Requirement("k", frozenset("a")), requirement("k", "In", ["a"]), True, id="the same value"
        ),
        pytest.param(
            Requirement("k", frozenset("a")), requirement("k", "In", ["b"]), False, id="another value"
        ),
    ],
)
def test_satisfies(said: Requirement | None, wanted: Requirement, expected: bool) -> None:
    """An offering satisfies a requirement when some value does for both, or none is needed."""
    assert satisfies(said, wanted) is expected


def test_labels_that_no_type_names_are_one() -> None:
    """Pods can state any number of labels: a table holds one entry for all that its types do not name."""
    ours = OfferingTable(TYPES, frozenset({ZONE, "example.com/absent"}))
    stated = requirement("example.com/team-1", "In", ["x"])

    assert ours.label_values("example.com/team-1") is ours.label_values("example.com/team-2")
    assert ours.label_values("example.com/team-1") is not ours.label_values(GENERATION)
    assert ours.label_values("example.com/team-1") is not ours.label_values("example.com/absent")
    assert ours.matching(stated) == ours.everything


def test_a_table_remembers_so_many_requirements(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit the oldest requirement is forgotten, and looked at again when it is asked for."""
    monkeypatch.setattr(module, "_REMEMBERED", 1)
    ours = OfferingTable(TYPES, frozenset())
    wanted = requirement(ZONE, "In", ["zone-1"])

    before = ours.matching(wanted)
    ours.matching(requirement(ZONE, "In", ["zone-2"]))

    assert ours.matching(wanted) == before == 0b1
