"""How much is done at a time."""

import pytest

from karpenter.operator.options import COMMON, LIFECYCLE, ConcurrencyRange


@pytest.mark.parametrize(
    ("span", "millicores", "expected"),
    [
        pytest.param(COMMON, 500, 10, id="half a core"),
        pytest.param(COMMON, 1000, 10, id="one core"),
        pytest.param(COMMON, 1500, 26, id="a core and a half counts as two"),
        pytest.param(COMMON, 15000, 244, id="fifteen cores"),
        pytest.param(COMMON, 60000, 1000, id="sixty cores"),
        pytest.param(COMMON, 99000, 1000, id="more are not used"),
        pytest.param(COMMON, 0, 10, id="nothing said"),
        pytest.param(COMMON, -5, 10, id="less than nothing said"),
        pytest.param(LIFECYCLE, 1000, 1000, id="claims are many at a time from the start"),
        pytest.param(ConcurrencyRange(1, 1), 60000, 1, id="what is done one by one stays so"),
    ],
)
def test_more_cores_more_at_a_time(span: ConcurrencyRange, millicores: int, expected: int) -> None:
    """Between one core and sixty the number grows in a straight line."""
    assert span.at(millicores) == expected
