"""The requirement algebra of one label."""

from __future__ import annotations

import pytest

from karpenter.api import labels
from karpenter.core.model.requirement import (
    MAX_INT,
    Requirement,
    RequirementError,
    RequirementTerm,
    integer,
    requirement,
    within,
)

ZONE = labels.ZONE


def made(operator: str, *values: str, min_values: int | None = None) -> Requirement:
    """Return a requirement on the key ``k``."""
    return requirement("k", operator, values, min_values)


EXISTS = made("Exists")
ABSENT = made("DoesNotExist")


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(made("In", "A", "B"), Requirement("k", frozenset("AB")), id="In allows its values"),
        pytest.param(
            made("NotIn", "A"),
            Requirement("k", frozenset("A"), complement=True),
            id="NotIn allows all others",
        ),
        pytest.param(EXISTS, Requirement("k", complement=True), id="Exists allows everything"),
        pytest.param(ABSENT, Requirement("k"), id="DoesNotExist allows nothing"),
        pytest.param(
            made("Gt", "5"), Requirement("k", complement=True, gte=6), id="Gt begins after its bound"
        ),
        pytest.param(
            made("Gte", "5"), Requirement("k", complement=True, gte=5), id="Gte begins at its bound"
        ),
        pytest.param(
            made("Lt", "5"), Requirement("k", complement=True, lte=4), id="Lt ends before its bound"
        ),
        pytest.param(made("Lte", "5"), Requirement("k", complement=True, lte=5), id="Lte ends at its bound"),
        pytest.param(
            made("Lt", "0"), Requirement("k", complement=True, lte=-1), id="Lt 0 allows no label value"
        ),
        pytest.param(
            made("Gt", str(MAX_INT), min_values=3),
            Requirement("k"),
            id="nothing is past the largest integer, and minValues goes with it",
        ),
        pytest.param(
            made("Gte", str(MAX_INT)),
            Requirement("k", complement=True, gte=MAX_INT),
            id="the largest integer itself can be reached",
        ),
        pytest.param(made("Gt", "007"), Requirement("k", complement=True, gte=8), id="zeros before a bound"),
        pytest.param(made("Gte", "+7"), Requirement("k", complement=True, gte=7), id="a plus before a bound"),
    ],
)
def test_operators(found: Requirement, expected: Requirement) -> None:
    """Each of the eight operators is a set of values, perhaps between bounds."""
    assert found == expected


@pytest.mark.parametrize("operator", ["In", "NotIn", "Exists", "DoesNotExist"])
def test_min_values_is_kept(operator: str) -> None:
    """How many values must stay possible is part of a requirement, whatever its operator."""
    assert made(operator, "A", min_values=2).min_values == 2


@pytest.mark.parametrize(
    ("old", "present"),
    [
        pytest.param("failure-domain.beta.kubernetes.io/zone", labels.ZONE, id="zone"),
        pytest.param("failure-domain.beta.kubernetes.io/region", labels.REGION, id="region"),
        pytest.param("beta.kubernetes.io/arch", labels.ARCH, id="architecture"),
        pytest.param("beta.kubernetes.io/os", labels.OS, id="operating system"),
        pytest.param("beta.kubernetes.io/instance-type", labels.INSTANCE_TYPE, id="instance type"),
        pytest.param("example.com/zone", "example.com/zone", id="other keys stay as they are"),
    ],
)
def test_old_keys_get_their_present_name(old: str, present: str) -> None:
    """A deprecated label key means the key that replaced it."""
    assert requirement(old, "Exists").key == present


@pytest.mark.parametrize(
    ("wire", "sentence"),
    [
        pytest.param(
            ("k", "Is", ("A",)),
            "label 'k': 'Is' is not one of the operators In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte, Lte",
            id="an operator that is none",
        ),
        pytest.param(
            ("k", "Gt", ()),
            "label 'k': operator Gt takes exactly one integer of 0 or more, not nothing",
            id="a bound without a value",
        ),
        pytest.param(
            ("k", "Lt", ("1", "2")),
            "label 'k': operator Lt takes exactly one integer of 0 or more, not '1', '2'",
            id="a bound with two values",
        ),
        pytest.param(
            ("k", "Gte", ("-1",)),
            "label 'k': operator Gte takes exactly one integer of 0 or more, not '-1'",
            id="a bound below zero",
        ),
        pytest.param(
            ("k", "Lte", ("many",)),
            "label 'k': operator Lte takes exactly one integer of 0 or more, not 'many'",
            id="a bound that is a word",
        ),
        pytest.param(
            ("k", "Lte", (str(MAX_INT + 1),)),
            f"label 'k': operator Lte takes exactly one integer of 0 or more, not '{MAX_INT + 1}'",
            id="a bound of more than 64 bits",
        ),
        pytest.param(
            ("beta.kubernetes.io/os", "Gt", ("",)),
            "label 'kubernetes.io/os': operator Gt takes exactly one integer of 0 or more, not ''",
            id="a deprecated key under its present name",
        ),
    ],
)
def test_refusals(wire: tuple[str, str, tuple[str, ...]], sentence: str) -> None:
    """What cannot be read is refused in one sentence that names the key, the value and what is allowed."""
    with pytest.raises(RequirementError) as caught:
        requirement(*wire)

    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        pytest.param(EXISTS, made("In", "A"), made("In", "A"), id="Exists leaves the other as it is"),
        pytest.param(
            made("In", "A", "B"), made("NotIn", "A"), made("In", "B"), id="refused values are taken off"
        ),
        pytest.param(made("In", "A", "B"), made("In", "B", "C"), made("In", "B"), id="common values stay"),
        pytest.param(made("In", "A"), made("In", "B"), ABSENT, id="no common value is DoesNotExist"),
        pytest.param(
            made("NotIn", "A"), made("NotIn", "1", "2"), made("NotIn", "A", "1", "2"), id="refusals add up"
        ),
        pytest.param(made("In", "1", "9"), made("Gt", "1"), made("In", "9"), id="a bound filters values"),
        pytest.param(
            made("In", "1", "9"), made("Lt", "9"), made("In", "1"), id="an upper bound alone as well"
        ),
        pytest.param(made("In", "A"), made("Gt", "1"), ABSENT, id="words are out of any bounds"),
        pytest.param(
            made("NotIn", "1", "2"),
            made("Gt", "1"),
            Requirement("k", frozenset("2"), complement=True, gte=2),
            id="only refusals within bounds are remembered",
        ),
        pytest.param(made("Gt", "9"), made("Lt", "9"), ABSENT, id="bounds that cross allow nothing"),
        pytest.param(
            made("Gt", "9", min_values=3),
            made("Lt", "9"),
            made("DoesNotExist", min_values=3),
            id="bounds that cross keep minValues",
        ),
        pytest.param(made("Gt", "4"), made("Gte", "5"), made("Gte", "5"), id="Gt 4 is Gte 5"),
        pytest.param(made("Lt", "5"), made("Lte", "5"), made("Lte", "4"), id="the tighter upper bound holds"),
        pytest.param(
            made("Gte", "5"),
            made("Lte", "5"),
            Requirement("k", complement=True, gte=5, lte=5),
            id="bounds may meet in one value",
        ),
        pytest.param(ABSENT, EXISTS, ABSENT, id="DoesNotExist stays against Exists"),
        pytest.param(ABSENT, made("In", "A"), ABSENT, id="DoesNotExist stays against In"),
        pytest.param(ABSENT, made("NotIn", "A"), ABSENT, id="DoesNotExist stays against NotIn"),
        pytest.param(ABSENT, made("Gt", "1"), ABSENT, id="DoesNotExist stays against Gt"),
        pytest.param(
            made("Exists", min_values=2),
            made("In", "A"),
            made("In", "A", min_values=2),
            id="minValues of one side",
        ),
        pytest.param(
            made("Exists", min_values=2),
            made("In", "A", min_values=3),
            made("In", "A", min_values=3),
            id="the larger minValues of both sides",
        ),
    ],
)
def test_intersection(one: Requirement, other: Requirement, expected: Requirement) -> None:
    """An intersection allows what both sides allow, whichever comes first."""
    assert (one.intersect(other), other.intersect(one)) == (expected, expected)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        pytest.param(made("In", "A"), made("In", "A", "B"), True, id="a common value"),
        pytest.param(made("In", "A"), made("In", "B"), False, id="no common value"),
        pytest.param(made("In", "A"), made("NotIn", "A"), False, id="the only value is refused"),
        pytest.param(made("In", "A", "B"), made("NotIn", "A"), True, id="one value is not refused"),
        pytest.param(made("NotIn", "A"), made("NotIn", "B"), True, id="there is always another value"),
        pytest.param(made("In", "1", "9"), made("Gt", "8"), True, id="a value within bounds"),
        pytest.param(made("In", "1", "8"), made("Gt", "8"), False, id="no value within bounds"),
        pytest.param(made("Gt", "1"), made("Lt", "3"), True, id="bounds with room between"),
        pytest.param(made("Gt", "3"), made("Lt", "3"), False, id="bounds that cross"),
        pytest.param(ABSENT, EXISTS, False, id="nothing against everything"),
    ],
)
def test_intersects(one: Requirement, other: Requirement, expected: bool) -> None:
    """Two requirements intersect when some value is allowed by both."""
    assert (one.intersects(other), other.intersects(one)) == (expected, expected)


@pytest.mark.parametrize(
    ("held", "value", "expected"),
    [
        pytest.param(made("In", "A"), "A", True, id="In allows its value"),
        pytest.param(made("In", "A"), "B", False, id="In refuses others"),
        pytest.param(made("In", ""), "", True, id="the empty value is a value"),
        pytest.param(made("NotIn", "A"), "A", False, id="NotIn refuses its value"),
        pytest.param(made("NotIn", "A"), "B", True, id="NotIn allows others"),
        pytest.param(EXISTS, "anything", True, id="Exists allows anything"),
        pytest.param(ABSENT, "", False, id="DoesNotExist allows not even the empty value"),
        pytest.param(made("Gt", "5"), "5", False, id="Gt refuses its bound"),
        pytest.param(made("Gt", "5"), "6", True, id="Gt allows the next integer"),
        pytest.param(made("Gt", "5"), "10", True, id="integers are not compared as text"),
        pytest.param(made("Lt", "5"), "-3", True, id="integers may be negative"),
        pytest.param(made("Lt", "5"), "4", True, id="Lt allows the integer before"),
        pytest.param(made("Gte", "5"), "5", True, id="Gte allows its bound"),
        pytest.param(made("Lte", "5"), "5", True, id="Lte allows its bound"),
        pytest.param(made("Lte", "5"), "6", False, id="Lte refuses the next"),
        pytest.param(made("Gte", "0"), "3.5", False, id="fractions are out of any bounds"),
        pytest.param(
            made("Gte", "0"), str(MAX_INT + 1), False, id="integers of 65 bits are out of any bounds"
        ),
    ],
)
def test_allows(held: Requirement, value: str, expected: bool) -> None:
    """A value is allowed when the set has it and the bounds do not rule it out."""
    assert held.allows(value) is expected


@pytest.mark.parametrize(
    ("held", "operator", "size", "absent"),
    [
        pytest.param(made("In", "A", "B"), "In", 2, False, id="In counts its values"),
        pytest.param(ABSENT, "DoesNotExist", 0, True, id="DoesNotExist has none and needs none"),
        pytest.param(made("In"), "DoesNotExist", 0, True, id="In without values is DoesNotExist"),
        pytest.param(EXISTS, "Exists", MAX_INT, False, id="Exists is endless"),
        pytest.param(made("NotIn"), "Exists", MAX_INT, False, id="NotIn without values is Exists"),
        pytest.param(
            made("NotIn", "A"), "NotIn", MAX_INT - 1, True, id="NotIn is endless but for its values"
        ),
        pytest.param(made("Gt", "1"), "Exists", MAX_INT, False, id="bounds do not change the operator"),
        pytest.param(
            made("Gt", "1").intersect(made("NotIn", "5")),
            "NotIn",
            MAX_INT - 1,
            True,
            id="bounded refusals are NotIn",
        ),
    ],
)
def test_shape(held: Requirement, operator: str, size: int, absent: bool) -> None:
    """A set says its operator, its size, and whether a node may do without the label."""
    assert (held.operator, held.size(), held.tolerates_absence) == (operator, size, absent)


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        pytest.param(made("In", "A"), False, id="a set of values"),
        pytest.param(made("Gt", "1"), True, id="a lower bound"),
        pytest.param(made("Lt", "1"), True, id="an upper bound"),
    ],
)
def test_bounded(held: Requirement, expected: bool) -> None:
    """A requirement knows whether only integers are allowed."""
    assert held.bounded is expected


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        pytest.param(made("In", "B", "A"), "A", id="the first of the values"),
        pytest.param(ABSENT, "", id="nothing where nothing is allowed"),
        pytest.param(EXISTS, "0", id="an integer where anything goes"),
        pytest.param(made("NotIn", "0", "1"), "2", id="never a refused value"),
        pytest.param(made("NotIn", "0"), "1", id="the first integer that is not refused"),
        pytest.param(made("Gt", "4"), "5", id="the lower bound"),
        pytest.param(made("Gte", "5").intersect(made("Lte", "5")), "5", id="where bounds meet, that integer"),
        pytest.param(made("Lte", "4"), "0", id="zero below an upper bound"),
        pytest.param(made("Lt", "0"), "", id="nothing where only negative integers are allowed"),
        pytest.param(
            made("Gte", "5").intersect(made("Lte", "5")).intersect(made("NotIn", "5")),
            "",
            id="nothing where every integer within bounds is refused",
        ),
    ],
)
def test_sample(held: Requirement, expected: str) -> None:
    """One allowed value can be had, always the same."""
    assert held.sample() == expected


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        pytest.param(made("In", "A"), [("In", ("A",))], id="In"),
        pytest.param(made("In", "C", "A", "B"), [("In", ("A", "B", "C"))], id="values are sorted"),
        pytest.param(made("NotIn", "B", "A"), [("NotIn", ("A", "B"))], id="NotIn"),
        pytest.param(EXISTS, [("Exists", ())], id="Exists"),
        pytest.param(ABSENT, [("DoesNotExist", ())], id="DoesNotExist"),
        pytest.param(made("Gt", "5"), [("Gte", ("6",))], id="Gt becomes Gte"),
        pytest.param(made("Lt", "5"), [("Lte", ("4",))], id="Lt becomes Lte"),
        pytest.param(made("Lte", "0"), [("Lte", ("0",))], id="Lte 0 allows zero"),
        pytest.param(made("Lt", "0"), [("Lt", ("0",))], id="Lt 0 stays, since no bound may be negative"),
        pytest.param(
            made("Gte", "2").intersect(made("Lte", "5")), [("Gte", ("2",)), ("Lte", ("5",))], id="two bounds"
        ),
        pytest.param(
            made("Gte", "2").intersect(made("NotIn", "3")),
            [("Gte", ("2",)), ("NotIn", ("3",))],
            id="refusals within bounds are not lost",
        ),
    ],
)
def test_terms(held: Requirement, expected: list[tuple[str, tuple[str, ...]]]) -> None:
    """In API form a requirement is one entry, or several that mean it together."""
    assert held.terms() == tuple(RequirementTerm("k", operator, values) for operator, values in expected)


def test_terms_carry_min_values() -> None:
    """Every entry in API form says how many values must stay possible."""
    held = made("Gte", "2", min_values=3).intersect(made("Lte", "5")).intersect(made("NotIn", "4"))

    assert [term.min_values for term in held.terms()] == [3, 3, 3]


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        pytest.param(made("In", "B", "A"), "k In [A B]", id="In"),
        pytest.param(made("NotIn", "A"), "k NotIn [A]", id="NotIn"),
        pytest.param(EXISTS, "k Exists", id="Exists"),
        pytest.param(ABSENT, "k DoesNotExist", id="DoesNotExist"),
        pytest.param(made("Gt", "5"), "k Exists >=6", id="Gt"),
        pytest.param(made("Lt", "5"), "k Exists <=4", id="Lt"),
        pytest.param(made("Gte", "1").intersect(made("Lte", "5")), "k Exists >=1 <=5", id="two bounds"),
        pytest.param(
            made("Gte", "1").intersect(made("NotIn", "3")), "k NotIn [3] >=1", id="refusals and a bound"
        ),
        pytest.param(made("In", *"abcde"), "k In [a b c d e]", id="five values are all shown"),
        pytest.param(
            made("In", *"gfedcba"), "k In [a b c d e and 2 others]", id="of seven values five are shown"
        ),
        pytest.param(made("In", "A", min_values=2), "k In [A] minValues 2", id="minValues"),
        pytest.param(
            made("Gte", "1", min_values=2).intersect(made("Lte", "5")),
            "k Exists >=1 <=5 minValues 2",
            id="all of it",
        ),
    ],
)
def test_text(held: Requirement, expected: str) -> None:
    """A requirement says itself in a few words."""
    assert str(held) == expected


def test_without_min_values() -> None:
    """The demand to keep values possible can be dropped."""
    assert made("In", "A", min_values=2).without_min_values() == made("In", "A")


def test_without_min_values_is_itself_when_there_are_none() -> None:
    """Nothing is copied when there is nothing to drop."""
    assert EXISTS.without_min_values() is EXISTS


def test_intersection_of_equals_is_not_copied() -> None:
    """A requirement that meets itself is returned as it is."""
    held = made("In", "A", "B")

    assert held.intersect(Requirement("k", held.values)) is held


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("0", 0, id="zero"),
        pytest.param("42", 42, id="digits"),
        pytest.param("-42", -42, id="minus"),
        pytest.param("+42", 42, id="plus"),
        pytest.param("0042", 42, id="zeros in front"),
        pytest.param("0" * 40 + "7", 7, id="many zeros in front"),
        pytest.param("000", 0, id="nothing but zeros"),
        pytest.param(str(MAX_INT), MAX_INT, id="largest"),
        pytest.param(str(-MAX_INT - 1), -MAX_INT - 1, id="smallest"),
        pytest.param(str(MAX_INT + 1), None, id="one too large"),
        pytest.param(str(-MAX_INT - 2), None, id="one too small"),
        pytest.param("1" * 20, None, id="too many digits"),
        pytest.param("", None, id="empty"),
        pytest.param("+", None, id="a sign alone"),
        pytest.param("--1", None, id="two signs"),
        pytest.param("1.0", None, id="fraction"),
        pytest.param("1e3", None, id="exponent"),
        pytest.param("1_000", None, id="underscore"),
        pytest.param(" 1", None, id="blank"),
        pytest.param("\u00b2", None, id="superscript"),
        pytest.param("\u0663", None, id="digits of other scripts"),
        pytest.param("0x10", None, id="hexadecimal"),
    ],
)
def test_integer(text: str, expected: int | None) -> None:
    """Labels are compared as base-10 integers of 64 bits, and as nothing else."""
    assert integer(text) == expected


@pytest.mark.parametrize(
    ("value", "gte", "lte", "expected"),
    [
        pytest.param("word", None, None, True, id="without bounds everything is within"),
        pytest.param("word", 0, None, False, id="words are never within bounds"),
        pytest.param("5", 5, 5, True, id="both bounds are within"),
        pytest.param("4", 5, None, False, id="below"),
        pytest.param("6", None, 5, False, id="above"),
    ],
)
def test_within(value: str, gte: int | None, lte: int | None, expected: bool) -> None:
    """Bounds include themselves, and only integers lie between them."""
    assert within(value, gte, lte) is expected
