"""Laws of the requirement algebra."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from karpenter.api.labels import NORMALIZED_LABELS
from karpenter.api.nodeclaim import NodeRequirement
from karpenter.api.pod import NodeSelectorRequirement
from karpenter.core.model.requirement import (
    MAX_INT,
    OPERATORS,
    Requirement,
    RequirementError,
    integer,
    requirement,
    within,
)
from karpenter.core.model.requirements import Requirements

if TYPE_CHECKING:
    from random import Random

KEYS = st.sampled_from(["a", "b", "c", "beta.kubernetes.io/os", "kubernetes.io/os"])
VALUES = ("", "A", "B", "0", "1", "2", "3", "10", "007", "+2", "-1", "1.5", str(MAX_INT))
LISTS = (("A",), ("A", "B"), ("", "1"), ("1", "2"), ("0", "3", "10"), ("2", "A"), ("007", "+2", "-1", "1.5"))
BOUNDS = ("0", "1", "3", "10", str(MAX_INT))
SINGLE = tuple(
    [requirement("k", operator, values) for operator in ("In", "NotIn") for values in LISTS]
    + [requirement("k", operator) for operator in ("Exists", "DoesNotExist")]
    + [requirement("k", operator, [n]) for operator in ("Gt", "Gte", "Lt", "Lte") for n in BOUNDS]
)
"""What single entries can state."""

PAIRS = {one.intersect(other) for one in SINGLE for other in SINGLE}
CLOSED = tuple(sorted({pair.intersect(one) for pair in PAIRS for one in SINGLE}, key=str))
"""What up to three entries can state together."""

WORDS = st.sampled_from(VALUES)
LEAST = st.none() | st.integers(1, 50)


def about(key: str, found: Requirement, min_values: int | None) -> Requirement:
    """Return the same set of values, for another key and with another minValues."""
    return replace(found, key=NORMALIZED_LABELS.get(key, key), min_values=min_values)


requirements = st.builds(about, st.just("k"), st.sampled_from(CLOSED), LEAST)
sets = st.lists(st.builds(about, KEYS, st.sampled_from(CLOSED), LEAST), max_size=5).map(Requirements.of)
node_labels = st.dictionaries(st.sampled_from(["a", "b", "kubernetes.io/os"]), WORDS)


@given(requirements, requirements)
def test_intersection_is_commutative(a: Requirement, b: Requirement) -> None:
    """Which side comes first does not matter."""
    assert a.intersect(b) == b.intersect(a)


@given(requirements, requirements, requirements)
def test_intersection_is_associative(a: Requirement, b: Requirement, c: Requirement) -> None:
    """Which two meet first does not matter."""
    assert a.intersect(b).intersect(c) == a.intersect(b.intersect(c))


@given(requirements)
def test_intersection_is_idempotent(a: Requirement) -> None:
    """Saying the same twice says the same; also when the second is a copy."""
    copy = Requirement(a.key, frozenset(list(a.values)), a.complement, a.gte, a.lte, a.min_values)

    assert a.intersect(copy) == a


@given(requirements, requirements, WORDS)
def test_intersection_is_conjunction(a: Requirement, b: Requirement, value: str) -> None:
    """A value survives an intersection exactly when both sides allow it."""
    assert a.intersect(b).allows(value) == (a.allows(value) and b.allows(value))


@pytest.mark.parametrize(
    ("mine", "theirs", "expected"),
    [
        pytest.param(None, None, None, id="no minValues"),
        pytest.param(2, None, 2, id="minValues on one side"),
        pytest.param(2, 3, 3, id="minValues on both sides"),
    ],
)
def test_every_pair_of_entries(mine: int | None, theirs: int | None, expected: int | None) -> None:
    """All pairs of what entries can state: common values stay, bounds are gone from finite sets."""
    wrong = []
    for a in (about("k", each, mine) for each in SINGLE):
        for b in (about("k", each, theirs) for each in SINGLE):
            both = a.intersect(b)
            allowed = {value for value in VALUES if a.allows(value) and b.allows(value)}
            finite = not (a.complement and b.complement)
            if (
                {value for value in VALUES if both.allows(value)} != allowed
                or both.min_values != expected
                or (finite and (both.complement or both.bounded or both.values != allowed))
            ):
                wrong.append(f"{a} with {b} is {both}")

    assert wrong == []


@given(requirements, requirements)
def test_intersects_tells_whether_anything_is_left(a: Requirement, b: Requirement) -> None:
    """The quick question has the answer of the whole intersection."""
    assert a.intersects(b) == (a.intersect(b).size() > 0)


@given(requirements)
def test_exists_is_neutral(a: Requirement) -> None:
    """Exists adds nothing."""
    assert a.intersect(requirement("k", "Exists")) == a


@given(requirements)
def test_does_not_exist_wins(a: Requirement) -> None:
    """Against DoesNotExist nothing stays; only minValues does."""
    assert a.intersect(requirement("k", "DoesNotExist")) == Requirement("k", min_values=a.min_values)


@given(requirements)
def test_a_round_trip_to_the_api_form_changes_nothing(a: Requirement) -> None:
    """The entries in API form, read again, are the requirement they came from."""
    assert Requirements.from_entries(a.terms()) == Requirements.of([a])


@given(requirements)
def test_terms_are_acceptable_to_the_api(a: Requirement) -> None:
    """Every entry has an operator of the API, and bounds are never negative."""
    assert all(
        term.operator in OPERATORS
        and (term.operator not in {"Lt", "Lte", "Gt", "Gte"} or (integer(term.values[0]) or 0) >= 0)
        for term in a.terms()
    )


@given(requirements)
def test_a_sample_is_allowed(a: Requirement) -> None:
    """A sample is an allowed value; where there is none, no integer a label can have is allowed."""
    assert a.allows(a.sample()) or not any(a.allows(str(number)) for number in range(12))


@given(requirements, WORDS)
def test_a_shape_is_its_operator(a: Requirement, value: str) -> None:
    """The operator, read again with the values and bounds, allows the same."""
    shaped = requirement("k", a.operator, a.values)
    bounded = within(value, a.gte, a.lte)

    assert a.allows(value) == (shaped.allows(value) and bounded)


@given(sets, sets)
def test_sets_commute(a: Requirements, b: Requirements) -> None:
    """Which set comes first does not matter."""
    assert a.intersect(b) == b.intersect(a)


@given(sets, sets, sets)
def test_sets_associate(a: Requirements, b: Requirements, c: Requirements) -> None:
    """Which two sets meet first does not matter."""
    assert a.intersect(b).intersect(c) == a.intersect(b.intersect(c))


@given(sets)
def test_sets_are_idempotent(a: Requirements) -> None:
    """A set that meets itself stays as it is."""
    assert a.intersect(Requirements.of(list(a))) == a


@given(sets)
def test_a_round_trip_of_sets_changes_nothing(a: Requirements) -> None:
    """A set in API form, read again, is the set it came from."""
    assert Requirements.from_entries(a.terms()) == a


@given(
    st.lists(st.builds(about, KEYS, st.sampled_from(SINGLE), LEAST), max_size=6),
    st.randoms(use_true_random=False),
)
def test_the_order_of_entries_does_not_matter(entries: list[Requirement], random: Random) -> None:
    """Shuffled entries make equal sets that hash alike and print alike."""
    shuffled = list(entries)
    random.shuffle(shuffled)
    one, two = Requirements.of(entries), Requirements.of(shuffled)

    assert (one, hash(one), str(one)) == (two, hash(two), str(two))


@given(node_labels, sets)
def test_nodes_are_accepted_like_the_slow_judge(found: dict[str, str], wanted: Requirements) -> None:
    """A node satisfies a set when each of its labels is allowed, and those it lacks are not needed."""
    expected = all(
        each.allows(found[each.key]) if each.key in found else each.tolerates_absence for each in wanted
    )

    assert Requirements.from_labels(found).accepts(wanted) == expected


@given(sets, sets)
def test_conflicts_are_mutual(a: Requirements, b: Requirements) -> None:
    """When one side conflicts with the other, the other conflicts with it."""
    assert (a.conflict(b) is None) == (b.conflict(a) is None)


@given(sets, sets)
def test_a_refusal_is_one_line(a: Requirements, b: Requirements) -> None:
    """Whatever is refused is refused in one sentence."""
    assert "\n" not in str(a.refuses(b))


@given(
    st.text(max_size=80),
    st.text(max_size=80) | st.sampled_from(OPERATORS),
    st.lists(st.text(max_size=80) | st.integers().map(str), max_size=3),
    st.none() | st.integers(),
)
def test_garbage_is_read_or_refused(
    key: str, operator: str, values: list[str], min_values: int | None
) -> None:
    """Whatever an entry says, either a requirement or one sentence comes out."""
    try:
        answer = repr(str(requirement(key, operator, values, min_values)))
    except RequirementError as error:
        answer = str(error)

    assert "\n" not in answer


texts = st.text(max_size=20)
entries = st.builds(
    NodeSelectorRequirement,
    key=texts,
    operator=texts | st.sampled_from(OPERATORS),
    values=st.lists(texts | st.integers().map(str), max_size=3).map(tuple),
)
pool_entries = st.builds(
    NodeRequirement,
    key=texts,
    operator=texts | st.sampled_from(OPERATORS),
    values=st.lists(texts | st.integers().map(str), max_size=3).map(tuple),
    min_values=st.none() | st.integers(),
)


@given(st.lists(entries | pool_entries, max_size=4))
def test_garbage_in_sets_is_read_or_refused(
    found: list[NodeSelectorRequirement | NodeRequirement],
) -> None:
    """Whatever entries say, either a set that can be asked or one sentence comes out."""
    try:
        read = Requirements.from_entries(found)
        answer = f"{read.refuses(read)}{read.terms()!r}"
    except RequirementError as error:
        answer = str(error)

    assert "\n" not in answer


@pytest.mark.parametrize("operator", ["Gt", "Gte", "Lt", "Lte"])
@given(number=st.integers(0, MAX_INT))
def test_bounds_are_compared_as_numbers(operator: str, number: int) -> None:
    """A bound allows exactly the integers on its side."""
    held = requirement("k", operator, [str(number)])
    below, above = held.allows(str(number - 1)), held.allows(str(number + 1))

    assert (below, held.allows(str(number)), above) == (
        operator in {"Lt", "Lte"},
        operator in {"Gte", "Lte"},
        operator in {"Gt", "Gte"} and number < MAX_INT,
    )
