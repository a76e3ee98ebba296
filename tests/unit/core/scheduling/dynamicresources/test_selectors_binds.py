"""Names for parts of an expression."""

from __future__ import annotations

import pytest

from karpenter.core.scheduling.dynamicresources.selectors import without_binds


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param("device.driver == 'a'", "device.driver == 'a'", id="no names"),
        pytest.param("cel.bind(x, a.b, x.c && x.d)", "[ a.b].map(x,  x.c && x.d)[0]", id="one name"),
        pytest.param(
            "cel.bind(x, f(a, b), cel.bind(y, x[1], y > 2)) || z",
            "[ f(a, b)].map(x,  [ x[1]].map(y,  y > 2)[0])[0] || z",
            id="a name within another, and commas in brackets",
        ),
        pytest.param("'cel.bind(x, 1, x)'", "'cel.bind(x, 1, x)'", id="a text in quotes"),
        pytest.param("cel.bind(x, ',)', x == ',)')", "[ ',)'].map(x,  x == ',)')[0]", id="quotes in it"),
        pytest.param('cel.bind(x, r"\\)", x)', '[ r"\\)"].map(x,  x)[0]', id="raw quotes in it"),
        pytest.param("cel.bind(x, 1)", "cel.bind(x, 1)", id="too few parts are left for others to refuse"),
        pytest.param("cel.bind(x, 1, x", "cel.bind(x, 1, x", id="so is a bracket that never closes"),
        pytest.param("bind(x)", "bind(x)", id="another function"),
    ],
)
def test_names_are_said_otherwise(source: str, expected: str) -> None:
    """Binding a name is looking at a list of one item."""
    assert without_binds(source) == expected
