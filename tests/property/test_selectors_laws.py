"""Laws of label selectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from karpenter.api.meta import LabelSelector, LabelSelectorRequirement
from karpenter.core.model.selectors import SelectorError, parse_selector

if TYPE_CHECKING:
    from random import Random

KEYS = st.sampled_from("abc")
VALUES = st.sampled_from("xyz")
labels = st.dictionaries(KEYS, VALUES)
some = st.lists(VALUES, min_size=1, max_size=3).map(tuple)
with_values = st.builds(
    LabelSelectorRequirement, key=KEYS, operator=st.sampled_from(["In", "NotIn"]), values=some
)
without_values = st.builds(
    LabelSelectorRequirement, key=KEYS, operator=st.sampled_from(["Exists", "DoesNotExist"])
)
selectors = st.builds(
    LabelSelector,
    match_labels=labels,
    match_expressions=st.lists(st.one_of(with_values, without_values), max_size=4).map(tuple),
)

OPPOSITES = {"In": "NotIn", "NotIn": "In", "Exists": "DoesNotExist", "DoesNotExist": "Exists"}


def holds(wire: LabelSelectorRequirement, found: dict[str, str]) -> bool:
    if wire.operator == "Exists":
        return wire.key in found
    if wire.operator == "DoesNotExist":
        return wire.key not in found
    within = wire.key in found and found[wire.key] in wire.values
    return within if wire.operator == "In" else not within


@given(selectors, labels)
def test_matches_like_the_slow_judge(wire: LabelSelector, found: dict[str, str]) -> None:
    """A selector matches exactly when each of its parts does."""
    expected = all(found.get(key) == value for key, value in wire.match_labels.items()) and all(
        holds(each, found) for each in wire.match_expressions
    )

    assert parse_selector(wire).matches(found) == expected


@given(st.one_of(with_values, without_values), labels)
def test_opposite_operators_are_opposites(wire: LabelSelectorRequirement, found: dict[str, str]) -> None:
    """In and NotIn, Exists and DoesNotExist: one of each pair holds."""
    opposite = LabelSelectorRequirement(key=wire.key, operator=OPPOSITES[wire.operator], values=wire.values)
    judged = [
        parse_selector(LabelSelector(match_expressions=(each,))).matches(found) for each in (wire, opposite)
    ]

    assert sorted(judged) == [False, True]


@given(selectors, st.randoms(use_true_random=False))
def test_order_does_not_matter(wire: LabelSelector, random: Random) -> None:
    """Shuffled selectors are equal, hash alike and print alike."""
    shuffled = list(wire.match_expressions)
    random.shuffle(shuffled)
    one = parse_selector(wire)
    two = parse_selector(LabelSelector(match_labels=wire.match_labels, match_expressions=tuple(shuffled)))

    assert (one, hash(one), str(one)) == (two, hash(two), str(two))


@given(st.text(max_size=10), st.text(max_size=80), st.lists(st.text(max_size=5), max_size=2).map(tuple))
def test_garbage_is_read_or_refused(key: str, operator: str, values: tuple[str, ...]) -> None:
    """Whatever comes in, either a selector or one sentence comes out."""
    wire = LabelSelectorRequirement(key=key, operator=operator, values=values)
    try:
        answer = repr(str(parse_selector(LabelSelector(match_expressions=(wire,)))))
    except SelectorError as error:
        answer = str(error)

    assert "\n" not in answer
