"""Settings that are given by name on a command line."""

from __future__ import annotations

import pytest

from karpenter.cli.errors import CommandError
from karpenter.cli.files import named_values


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param((), {}, id="nothing"),
        pytest.param(("a=1", "b=", "a=2=3"), {"a": "2=3", "b": ""}, id="the last one counts"),
        pytest.param(
            ("feature-gates=A=true", "feature-gates=B=true,C=false"),
            {"feature-gates": "A=true,B=true,C=false"},
            id="gates may be given one by one",
        ),
    ],
)
def test_values_have_names(given: tuple[str, ...], expected: dict[str, str]) -> None:
    """What is after the first sign is the value."""
    assert named_values(given) == expected


def test_a_value_without_a_name_is_refused() -> None:
    """The sentence says what was given and what is expected."""
    with pytest.raises(CommandError) as caught:
        named_values(["packing-policy"])

    assert str(caught.value) == "--set: 'packing-policy' is not NAME=VALUE"
