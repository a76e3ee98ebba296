"""Expressions of users: names for parts, and what a loop may cost."""

from __future__ import annotations

import time

import pytest

from karpenter.api.meta import InvalidObject
from karpenter.api.schema.cel import FUNCTIONS, RuleFailed, compile_with
from karpenter.api.schema.cel_macros import MOST_ITEMS, TICK, CostMeter, rewrite_macros

TEN = f"[{','.join('1' * 10)}]"


def run(source: str) -> object:
    """Return what an expression says, with its loops counted."""
    program = compile_with(rewrite_macros(source), {**FUNCTIONS, TICK: CostMeter()})
    return program.run({}, {TICK: CostMeter()})


def bound(value: str, depth: int = 15) -> str:
    """Return names within names, each for a value that holds the one before several times."""
    opened = (f"cel.bind(a{n + 1}, {value.replace('a', f'a{n}')}, " for n in range(depth))
    return "".join(opened).replace("a0", "'aaaa'") + f"a{depth} == ''" + ")" * depth


def nested(depth: int, macro: str = "all", inner: str = "true") -> str:
    """Return loops over ten items, one within the other."""
    for each in range(depth):
        inner = f"{TEN}.{macro}(x{each}, {inner})"
    return inner


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param("device.driver == 'a'", "device.driver == 'a'", id="no names"),
        pytest.param(
            "cel.bind(x, a.b, x.c && x.d) || z",
            "[ a.b].map(x, costOfItem(x) ? (x.c && x.d) : dyn(false))[0] || z",
            id="one name",
        ),
        pytest.param("'cel.bind(x, 1, x)'", "'cel.bind(x, 1, x)'", id="a text in quotes"),
        pytest.param(
            'cel.bind(x, r"\\)", x)',
            '[ r"\\)"].map(x, costOfItem(x) ? (x) : dyn(false))[0]',
            id="raw quotes in it",
        ),
        pytest.param("cel.bind(x, 1)", "cel.bind(x, 1)", id="too few parts are left for others to refuse"),
        pytest.param("cel.bind(x, 1, x", "cel.bind(x, 1, x", id="so is a bracket that never closes"),
        pytest.param("[1].all(x)", "[1].all(x)", id="so is a loop without a body"),
        pytest.param("bind(x)", "bind(x)", id="another function"),
        pytest.param(
            "a.all // why\n (x, x > ')')",
            "a.all \n (x, costOfItem(x) ? (x > ')') : false)",
            id="a loop with a comment in it",
        ),
        pytest.param(
            "a.map(x, x > 1, x)", "a.map(x, costOfItem(x) ? (x > 1) : false, x)", id="a loop that chooses"
        ),
    ],
)
def test_macros_are_said_otherwise(source: str, expected: str) -> None:
    """Binding a name is looking at a list of one item, and a loop counts its items."""
    assert rewrite_macros(source) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param("cel.bind(x, 3, cel.bind(y, x + 1, [x, y]))", [3, 4], id="names within names"),
        pytest.param("[1, 2].map(x, [x].map(y, y + 1)[0])", [2, 3], id="a loop in a loop"),
        pytest.param("[1, 2, 3].map(x, x > 1, x * 2)", [4, 6], id="a loop that chooses"),
        pytest.param("[1, 2].filter(x, x > 1)", [2], id="a filter"),
        pytest.param("{'a': 1}.exists(k, k == 'a')", True, id="a map"),
        pytest.param("[1, 1].exists_one(k, k == 1)", False, id="exactly one"),
        pytest.param("r'\\' == '\\\\' && [1].all(x, x == 1)", True, id="raw text that ends with a backslash"),
    ],
)
def test_expressions_mean_the_same(source: str, expected: object) -> None:
    """What is rewritten says what was meant."""
    assert run(source) == expected


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(nested(9), id="nine loops of ten items"),
        pytest.param(nested(9, "exists", "false"), id="that look for one"),
        pytest.param(nested(9, "map", "1"), id="that make lists"),
        pytest.param(nested(9, "map", "true, 1"), id="that choose and make lists"),
        pytest.param(f"true || {nested(9)} || {nested(9)}", id="whose failure does not matter"),
        pytest.param(bound("a + a + a + a"), id="text that doubles"),
        pytest.param(bound("[a, a, a, a]"), id="lists that double"),
        pytest.param(f"'{'a' * 50}!'.find('^(a+)+$') == ''", id="a search that backtracks elsewhere"),
        pytest.param(f"'{'a' * 50}!'.findAll('^(a+)+$').size() == 0", id="for all matches"),
        pytest.param(f"'{'a' * 50}!'.matches('^(a|a)*$')", id="a match that backtracks elsewhere"),
    ],
)
def test_an_evaluation_ends_soon(source: str) -> None:
    """An evaluation is ended before it has taken a second, whatever the expression."""
    began = time.process_time()
    try:
        said = run(source)
    except RuleFailed as failure:
        said = str(failure)

    assert isinstance(said, bool | str)
    assert isinstance(said, bool) or "its loops visit more than" in said or "has more than" in said
    assert time.process_time() - began < 1.0


def test_a_loop_over_everything_a_device_has_is_not_too_much() -> None:
    """The bound is far above what a device can hold: a hundred items looked at a hundred times."""
    hundred = f"[{','.join('1' * 100)}]"

    assert run(f"{hundred}.all(x, {hundred}.all(y, x == y))") is True
    assert MOST_ITEMS > 100 * 101


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        pytest.param("'''a' + [1].all(x, true)'''", "has text in triple quotes", id="triple quotes"),
        pytest.param(nested(17), "nests macros deeper than 16", id="seventeen loops"),
        pytest.param(nested(1200), "nests macros deeper than 16", id="twelve hundred loops"),
        pytest.param("costOfItem(1)", "calls costOfItem, which is not there", id="what counts"),
    ],
)
def test_what_cannot_be_bounded_is_refused(source: str, problem: str) -> None:
    """The refusal says what is wrong, before anything is compiled."""
    with pytest.raises(InvalidObject, match=problem):
        rewrite_macros(source)


def test_brackets_that_never_close_are_looked_at_once() -> None:
    """Twelve hundred open loops take no longer than one."""
    began = time.process_time()

    assert rewrite_macros("a.all(b," * 1200) == "a.all(b," * 1200
    assert time.process_time() - began < 1.0
