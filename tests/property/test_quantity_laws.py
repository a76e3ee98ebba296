"""Quantities against a slow reader that is obviously right, and laws that hold for all of them."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

from hypothesis import given
from hypothesis import strategies as st

from karpenter.base.quantity import NANOS, Quantity, QuantityError, parse_quantity

SUFFIXES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    **{letter: Fraction(1000) ** power for power, letter in enumerate("kMGTPE", start=1)},
    **{f"{letter}i": Fraction(1024) ** power for power, letter in enumerate("KMGTPE", start=1)},
}

digits = st.text("0123456789", min_size=1, max_size=12)
numbers = st.one_of(
    digits,
    st.builds("{}.{}".format, digits, digits),
    st.builds("{}.".format, digits),
    st.builds(".{}".format, digits),
)
exponents = st.builds(
    "{}{}{}".format, st.sampled_from("eE"), st.sampled_from(["", "+", "-"]), st.integers(0, 40)
)
texts = st.builds(
    "{}{}{}".format,
    st.sampled_from(["", "+", "-"]),
    numbers,
    st.one_of(st.sampled_from(sorted(SUFFIXES)), exponents),
)


def read_slowly(text: str) -> Fraction:
    """Read a quantity digit by digit, with fractions and no cleverness."""
    sign = -1 if text.startswith("-") else 1
    text = text.lstrip("+-")
    number = "".join(letter for position, letter in enumerate(text) if is_number(text[: position + 1]))
    suffix = text[len(number) :]
    whole, _, part = number.partition(".")
    amount = Fraction(int(whole or "0")) + Fraction(int(part or "0"), 10 ** len(part))
    amount *= SUFFIXES[suffix] if suffix in SUFFIXES else Fraction(10) ** int(suffix[1:])
    amount = Fraction(ceil(amount * NANOS), NANOS)
    if suffix.endswith("i"):
        amount = min(amount, Fraction(2**63 - 1))
    return sign * amount


def is_number(text: str) -> bool:
    """Say whether every letter belongs to a number without suffix."""
    return all(letter in "0123456789." for letter in text)


@given(texts)
def test_reads_like_the_slow_reader(text: str) -> None:
    """Every text of the grammar stands for the number that long division gives."""
    assert Fraction(parse_quantity(text).nanos, NANOS) == read_slowly(text)


@given(texts)
def test_canonical_text_reads_back(text: str) -> None:
    """Printing loses nothing, and printing twice changes nothing."""
    quantity = parse_quantity(text)
    again = parse_quantity(str(quantity))

    assert (again, str(again)) == (quantity, str(quantity))


@given(texts)
def test_canonical_text_has_no_fraction(text: str) -> None:
    """The canonical text never has a decimal point."""
    assert "." not in str(parse_quantity(text))


@given(st.one_of(st.integers(-(10**40), 10**40), st.floats(-1e40, 1e40)))
def test_numbers_read_as_their_text(number: float) -> None:
    """A JSON number means what its text means."""
    assert parse_quantity(number) == parse_quantity(repr(number))


@given(texts, texts)
def test_sums_are_exact_and_ordered(left: str, right: str) -> None:
    """Addition is commutative, undone by subtraction, and agrees with the order."""
    a, b = parse_quantity(left), parse_quantity(right)

    assert (a + b == b + a, (a + b) - b == a, (a < b) == (Quantity(0) < b - a)) == (True, True, True)


@given(texts)
def test_rounding_never_loses(text: str) -> None:
    """Units and thousandths are the nearest ones that hold at least as much."""
    quantity = parse_quantity(text)
    size = abs(quantity.nanos)

    assert (abs(quantity.value), abs(quantity.milli)) == (-(-size // NANOS), -(-size // 10**6))


garbage = st.one_of(
    st.text(max_size=300),
    st.text("0123456789.eE+-numkKMGTPi ", max_size=20),
    st.integers(),
    st.integers(10**200, 10**201),
    st.floats(),
    st.booleans(),
    st.none(),
    st.binary(max_size=5),
    st.recursive(st.none(), lambda inner: st.lists(inner, max_size=2), max_leaves=20),
)


def answer(value: object) -> str:
    """Return what comes of `value`: the quantity it reads as, or the sentence that refuses it."""
    try:
        return str(parse_quantity(value))
    except QuantityError as error:
        return str(error)


@given(garbage)
def test_garbage_is_read_or_refused(value: object) -> None:
    """Whatever comes in, either a quantity or one sentence comes out."""
    assert "\n" not in answer(value)
