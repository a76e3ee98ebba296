"""What an error sentence shows of the value it refuses."""

from __future__ import annotations

import pytest

from karpenter.base.pretty import excerpt


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        pytest.param("2Gi", "'2Gi'", id="text is quoted"),
        pytest.param("a\nb", r"'a\nb'", id="a line break is spelled out"),
        pytest.param("x" * 61, f"'{'x' * 60}'...", id="long text is cut"),
        pytest.param(None, "null", id="nothing is called what JSON calls it"),
        pytest.param(True, "true", id="so is true"),
        pytest.param(False, "false", id="so is false"),
        pytest.param(-12, "-12", id="a number is itself"),
        pytest.param(1 << 5000, "an integer of 5001 bits", id="an endless number is measured"),
        pytest.param(0.5, "0.5", id="a fraction is itself"),
        pytest.param([[1]], "a list", id="anything else is named in the words of JSON"),
    ],
)
def test_excerpt(value: object, shown: str) -> None:
    """An excerpt is short, fits on one line, and can be made of anything."""
    assert excerpt(value) == shown
