"""Label selectors."""

from __future__ import annotations

import pytest

from karpenter.api.meta import LabelSelector, LabelSelectorRequirement
from karpenter.core.model.selectors import EVERYTHING, NOTHING, SelectorError, parse_selector

WEB = {"app": "web", "tier": "front"}


def expression(key: str, operator: str, *values: str) -> LabelSelector:
    return LabelSelector(
        match_expressions=(LabelSelectorRequirement(key=key, operator=operator, values=values),)
    )


@pytest.mark.parametrize(
    ("wire", "text", "expected"),
    [
        pytest.param(None, "<none>", False, id="no selector matches nothing"),
        pytest.param(LabelSelector(), "<all>", True, id="an empty selector matches everything"),
        pytest.param(LabelSelector(match_labels={"app": "web"}), "app=web", True, id="label"),
        pytest.param(LabelSelector(match_labels={"app": "db"}), "app=db", False, id="other value"),
        pytest.param(
            LabelSelector(match_labels={"tier": "front", "app": "db"}),
            "app=db,tier=front",
            False,
            id="all must hold",
        ),
        pytest.param(expression("app", "In", "web", "db"), "app in (db,web)", True, id="in"),
        pytest.param(expression("zone", "In", "a", "b"), "zone in (a,b)", False, id="in, label missing"),
        pytest.param(expression("app", "NotIn", "web"), "app!=web", False, id="not in"),
        pytest.param(expression("app", "NotIn", "db", "mq"), "app notin (db,mq)", True, id="not in others"),
        pytest.param(expression("zone", "NotIn", "a"), "zone!=a", True, id="not in, label missing"),
        pytest.param(expression("app", "Exists"), "app", True, id="exists"),
        pytest.param(expression("zone", "Exists"), "zone", False, id="exists, label missing"),
        pytest.param(expression("app", "DoesNotExist"), "!app", False, id="does not exist"),
        pytest.param(expression("zone", "DoesNotExist"), "!zone", True, id="does not exist, label missing"),
    ],
)
def test_matching(wire: LabelSelector | None, text: str, expected: bool) -> None:
    """A selector matches labels that meet all its conditions, and prints as kubectl would write it."""
    selector = parse_selector(wire)

    assert (str(selector), selector.matches(WEB)) == (text, expected)


def test_equal_conditions_make_equal_selectors() -> None:
    """How and in which order the conditions were written does not tell selectors apart."""
    labels = parse_selector(LabelSelector(match_labels={"a": "1", "b": "2"}))
    expressions = parse_selector(
        LabelSelector(
            match_labels={"b": "2"},
            match_expressions=(
                LabelSelectorRequirement(key="b", operator="In", values=("2",)),
                LabelSelectorRequirement(key="a", operator="In", values=("1", "1")),
            ),
        )
    )

    assert {labels: "same"}[expressions] == "same"


def test_constants() -> None:
    """The two selectors without conditions are opposites."""
    assert (parse_selector(None), parse_selector(LabelSelector())) == (NOTHING, EVERYTHING)


@pytest.mark.parametrize(
    ("wire", "sentence"),
    [
        pytest.param(
            expression("app", "Is", "web"),
            r"^label 'app': 'Is' is no operator: expected In, NotIn, Exists or DoesNotExist$",
            id="operator",
        ),
        pytest.param(
            expression("app", "In"), "^label 'app': In has no values: expected at least one$", id="in"
        ),
        pytest.param(expression("app", "NotIn"), "^label 'app': NotIn has no values: expected", id="not in"),
        pytest.param(
            expression("app", "Exists", "web"), "^label 'app': Exists has values: expected none$", id="exists"
        ),
        pytest.param(
            expression("app", "DoesNotExist", "web"),
            "^label 'app': DoesNotExist has values",
            id="does not exist",
        ),
    ],
)
def test_refused(wire: LabelSelector, sentence: str) -> None:
    """A selector that cannot be meant is refused with one sentence."""
    with pytest.raises(SelectorError, match=sentence):
        parse_selector(wire)
