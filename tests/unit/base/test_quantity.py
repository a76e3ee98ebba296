"""Kubernetes quantities: what is read, what is refused, what is printed."""

from __future__ import annotations

import pytest

from karpenter.base.quantity import NANOS, Format, Quantity, QuantityError, parse_quantity

LARGEST_BINARY = 2**63 - 1


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        pytest.param("0", "0", id="zero"),
        pytest.param("-0", "0", id="zero has no sign"),
        pytest.param("0Ki", "0", id="zero has no suffix"),
        pytest.param("+7", "7", id="a plus sign is dropped"),
        pytest.param("  7 ", "7", id="blanks around it are dropped"),
        pytest.param("007", "7", id="leading zeros are dropped"),
        pytest.param("1000m", "1", id="the largest exact suffix is used"),
        pytest.param("1500m", "1500m", id="a fraction keeps its suffix"),
        pytest.param("1.5", "1500m", id="a decimal point becomes a suffix"),
        pytest.param("1.125", "1125m", id="also after three digits"),
        pytest.param(".5", "500m", id="a number may begin with its point"),
        pytest.param("5.", "5", id="a number may end with its point"),
        pytest.param("1000k", "1M", id="thousands of thousands are millions"),
        pytest.param("1100k", "1100k", id="hundreds are kept"),
        pytest.param("12345", "12345", id="a plain number stays plain"),
        pytest.param("1000000", "1M", id="a round number gets a suffix"),
        pytest.param("1048576", "1048576", id="a plain number never turns binary"),
        pytest.param("100n", "100n", id="billionths"),
        pytest.param("100u", "100u", id="millionths"),
        pytest.param("3G", "3G", id="billions"),
        pytest.param("3T", "3T", id="trillions"),
        pytest.param("3P", "3P", id="quadrillions"),
        pytest.param("3E", "3E", id="a lone E is a suffix"),
        pytest.param("3000E", "3e21", id="past the last suffix the exponent is written"),
        pytest.param("0.1n", "1n", id="below a billionth rounds up"),
        pytest.param("-0.1n", "-1n", id="below a billionth rounds away from zero"),
        pytest.param("1e-400", "1e-9", id="far below a billionth as well"),
        pytest.param("1.0000000001", "1000000001n", id="the rest of a billionth rounds up"),
        pytest.param("1Ki", "1Ki", id="binary stays binary"),
        pytest.param("1024Ki", "1Mi", id="binary uses the largest suffix"),
        pytest.param("1023Ki", "1023Ki", id="binary stays exact"),
        pytest.param("1.5Gi", "1536Mi", id="a binary fraction becomes whole"),
        pytest.param("-1.5Gi", "-1536Mi", id="below zero as well"),
        pytest.param("0.5Ki", "512", id="below 1024 binary prints plainly"),
        pytest.param("1.1Ki", "1126400m", id="a binary amount that is not whole prints in decimals"),
        pytest.param("0.0001Ki", "102400u", id="a binary amount below one prints in decimals"),
        pytest.param("1Ti", "1Ti", id="tebi"),
        pytest.param("1Pi", "1Pi", id="pebi"),
        pytest.param("7Ei", "7Ei", id="exbi"),
        pytest.param("8Ei", str(LARGEST_BINARY), id="binary stops at 64 bits"),
        pytest.param("-9Ei", f"-{LARGEST_BINARY}", id="also below zero"),
        pytest.param("10E", "10E", id="decimal does not stop at 64 bits"),
        pytest.param("1e3", "1e3", id="an exponent stays an exponent"),
        pytest.param("1E3", "1e3", id="in small letters"),
        pytest.param("12e4", "120e3", id="in steps of three"),
        pytest.param("1e+2", "100", id="exponent zero is not written"),
        pytest.param("1e-3", "1e-3", id="a negative exponent"),
        pytest.param("0e999999999", "0", id="zero times anything is zero"),
        pytest.param(4, "4", id="a JSON integer"),
        pytest.param(-4, "-4", id="a negative JSON integer"),
        pytest.param(0.25, "250m", id="a JSON number with a fraction"),
        pytest.param(1e21, "1e21", id="a JSON number with an exponent"),
    ],
)
def test_canonical_text(written: str | float, canonical: str) -> None:
    """A quantity prints without fraction and with the largest suffix that keeps it exact."""
    assert str(parse_quantity(written)) == canonical


@pytest.mark.parametrize(
    "written",
    [
        pytest.param("", id="nothing"),
        pytest.param(" ", id="a blank"),
        pytest.param("+", id="only a sign"),
        pytest.param(".", id="only a point"),
        pytest.param("m", id="only a suffix"),
        pytest.param("--1", id="two signs"),
        pytest.param("1 Gi", id="a blank inside"),
        pytest.param("1.2.3", id="two points"),
        pytest.param("1ki", id="a small k is not binary"),
        pytest.param("1K", id="a large K is not decimal"),
        pytest.param("1GB", id="bytes are not spelled"),
        pytest.param("1e", id="an exponent without a number"),
        pytest.param("1e3.5", id="a fractional exponent"),
        pytest.param("1e3Ki", id="an exponent and a suffix"),
        pytest.param("0x10", id="another base"),
        pytest.param("1_000", id="grouped digits"),
        pytest.param("\u0661", id="digits of another script"),
        pytest.param("five", id="words"),
        pytest.param("1" * 201, id="an endless text"),
        pytest.param(float("nan"), id="not a number"),
        pytest.param(float("inf"), id="infinity"),
        pytest.param(True, id="a truth value"),
        pytest.param(None, id="null"),
        pytest.param(["1"], id="a list"),
    ],
)
def test_refused(written: object) -> None:
    """What is not a quantity is refused with one sentence that names it and says what is allowed."""
    with pytest.raises(QuantityError, match=r"is not a quantity: expected a number such as 2, 0\.5 or 1e3"):
        parse_quantity(written)


@pytest.mark.parametrize(
    "written",
    [
        pytest.param("1e999999999", id="a huge exponent"),
        pytest.param("11e99", id="a large number times a large exponent"),
        pytest.param("9" * 110, id="many digits"),
        pytest.param(10**5000, id="an endless integer"),
    ],
)
def test_too_large(written: object) -> None:
    """A number that no cluster can count to is refused instead of being built."""
    with pytest.raises(QuantityError, match="is too large a quantity: expected at most 1e100 in magnitude"):
        parse_quantity(written)


@pytest.mark.parametrize(
    ("written", "value", "milli"),
    [
        pytest.param("2", 2, 2000, id="whole"),
        pytest.param("1.0001", 2, 1001, id="rounded up"),
        pytest.param("-1.0001", -2, -1001, id="rounded away from zero"),
        pytest.param("1n", 1, 1, id="a little is something"),
        pytest.param("0", 0, 0, id="nothing is nothing"),
    ],
)
def test_whole_units_and_thousandths(written: str, value: int, milli: int) -> None:
    """Units and thousandths round away from zero."""
    quantity = parse_quantity(written)

    assert (quantity.value, quantity.milli) == (value, milli)


def test_equal_amounts_are_equal_however_written() -> None:
    """Quantities compare by amount, so they serve as keys whatever their suffix."""
    assert {parse_quantity("1Ki"), parse_quantity("1024"), parse_quantity("1.024k")} == {
        Quantity(1024 * NANOS)
    }


def test_a_quantity_equals_nothing_else() -> None:
    """A quantity is not the number it stands for."""
    assert parse_quantity("1") != 1


def test_order() -> None:
    """Quantities are ordered by amount."""
    small, large = parse_quantity("1G"), parse_quantity("1Gi")

    assert (small < large, small <= large, small > large, small >= large) == (True, True, False, False)


def test_truth() -> None:
    """Only zero is false."""
    assert (bool(parse_quantity("0")), bool(parse_quantity("1n"))) == (False, True)


@pytest.mark.parametrize(
    ("left", "right", "total", "difference"),
    [
        pytest.param("1Gi", "1G", "2073741824", "73741824", id="the left side decides the format"),
        pytest.param("0", "1Gi", "1Gi", "-1Gi", id="unless it is zero"),
        pytest.param("1", "250m", "1250m", "750m", id="fractions are exact"),
        pytest.param("7Ei", "7Ei", "16140901064495857664", "0", id="sums may pass 64 bits"),
    ],
)
def test_sums(left: str, right: str, total: str, difference: str) -> None:
    """Quantities add and subtract exactly."""
    a, b = parse_quantity(left), parse_quantity(right)

    assert (str(a + b), str(a - b)) == (total, difference)


def test_negation_keeps_the_format() -> None:
    """The opposite of a quantity prints in the same family of suffixes."""
    assert -parse_quantity("1Ki") == Quantity(-1024 * NANOS, Format.BINARY_SI)
