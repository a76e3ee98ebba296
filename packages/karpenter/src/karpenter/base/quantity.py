"""
Kubernetes quantities: ``2``, ``100m``, ``1.5Gi``, ``12e6``, read exactly and printed canonically.

A quantity is a number of billionths held as an integer, together with the family of suffixes it was written
in, because that family decides how it is printed. Anything finer than a billionth rounds away from zero, so
that a small request is never zero. Quantities with a binary suffix stop at the largest signed 64-bit
number, as they do in the API server; the other families do not.

The canonical text has no fraction and the largest suffix that keeps it exact, so
``1.5Gi`` prints as ``1536Mi`` and ``1000m`` as ``1``. It reads back as the same number.

Knows nothing of resources: which quantities are counted in thousandths and which in
units is decided in ``core.model.resources``.
"""

from __future__ import annotations

import re
from enum import Enum
from functools import lru_cache
from typing import Final

import msgspec

from karpenter.base.pretty import excerpt

NANOS: Final = 10**9
"""Billionths in a unit."""

_NANOS_PER_MILLI: Final = 10**6
# Quantities with a binary suffix are capped at what 63 bits can hold:
# https://pkg.go.dev/k8s.io/apimachinery/pkg/api/resource#Quantity
_LARGEST_BINARY: Final = (2**63 - 1) * NANOS
_LARGEST_EXPONENT: Final = 100  # no cluster counts past it, and 1e999999999 would eat the memory
_LARGEST: Final = NANOS * 10**_LARGEST_EXPONENT
_LONGEST_TEXT: Final = 200
_KIBI: Final = 1024

_DECIMAL_SUFFIXES: Final = {
    -9: "n",
    -6: "u",
    -3: "m",
    0: "",
    3: "k",
    6: "M",
    9: "G",
    12: "T",
    15: "P",
    18: "E",
}
_BINARY_SUFFIXES: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL_EXPONENT: Final = {suffix: exponent for exponent, suffix in _DECIMAL_SUFFIXES.items()}
_BINARY_FACTOR: Final = {suffix: _KIBI**power for power, suffix in enumerate(_BINARY_SUFFIXES) if power}

# https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
_GRAMMAR: Final = re.compile(
    r"(?P<sign>[+-]?)(?:(?P<whole>[0-9]+)(?:\.(?P<part>[0-9]*))?|\.(?P<only_part>[0-9]+))"
    r"(?:(?P<binary>[KMGTPE]i)|(?P<decimal>[numkMGTPE])|[eE](?P<exponent>[+-]?[0-9]+))?"
)
_EXPECTED: Final = (
    "expected a number such as 2, 0.5 or 1e3, "
    "optionally with one of the suffixes n u m k M G T P E or Ki Mi Gi Ti Pi Ei"
)


class QuantityError(ValueError):
    """The value is not a Kubernetes quantity; the message is one sentence that names it."""


class Format(Enum):
    """The families of suffixes."""

    DECIMAL_SI = "DecimalSI"
    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"


class Quantity(msgspec.Struct, frozen=True, eq=False):
    """An exact amount; equal and ordered by amount alone, however it was written."""

    nanos: int
    format: Format = Format.DECIMAL_SI

    @property
    def value(self) -> int:
        return _divide_away_from_zero(self.nanos, NANOS)

    @property
    def milli(self) -> int:
        return _divide_away_from_zero(self.nanos, _NANOS_PER_MILLI)

    def __add__(self, other: Quantity) -> Quantity:
        """Return the sum, in the format of the left side unless that is zero."""
        return Quantity(self.nanos + other.nanos, self.format if self.nanos else other.format)

    def __sub__(self, other: Quantity) -> Quantity:
        """Return the difference, in the format of the left side unless that is zero."""
        return Quantity(self.nanos - other.nanos, self.format if self.nanos else other.format)

    def __neg__(self) -> Quantity:
        return Quantity(-self.nanos, self.format)

    def __eq__(self, other: object) -> bool:
        return self.nanos == other.nanos if isinstance(other, Quantity) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.nanos)

    def __lt__(self, other: Quantity) -> bool:
        return self.nanos < other.nanos

    def __le__(self, other: Quantity) -> bool:
        return self.nanos <= other.nanos

    def __gt__(self, other: Quantity) -> bool:
        return self.nanos > other.nanos

    def __ge__(self, other: Quantity) -> bool:
        return self.nanos >= other.nanos

    def __bool__(self) -> bool:
        return self.nanos != 0

    def __str__(self) -> str:
        if (
            self.format is Format.BINARY_SI
            and _KIBI * NANOS <= abs(self.nanos) <= _LARGEST_BINARY
            and self.nanos % NANOS == 0
        ):
            return _binary_text(self.nanos // NANOS)
        if self.nanos == 0:
            return "0"
        number, exponent = self.nanos, -9
        while number % 1000 == 0:
            number //= 1000
            exponent += 3
        if self.format is not Format.DECIMAL_EXPONENT and exponent in _DECIMAL_SUFFIXES:
            return f"{number}{_DECIMAL_SUFFIXES[exponent]}"
        return f"{number}e{exponent}" if exponent else str(number)


def parse_quantity(written: object) -> Quantity:
    """
    Return the quantity that `written`, a text or a number of JSON or YAML, stands for.

    Raises:
        QuantityError: if it is not a quantity, or is larger than anything we count.
    """
    if isinstance(written, str):
        return _parse_text(written)
    if isinstance(written, float):
        return _parse_text(repr(written))
    if type(written) is int:  # true and false are integers to Python, but not to JSON
        return _checked(written * NANOS, Format.DECIMAL_SI, written)
    raise _refuse(written)


@lru_cache(maxsize=16384)  # the pods of a cluster repeat a few hundred texts
def _parse_text(text: str) -> Quantity:
    stripped = text.strip()
    match = _GRAMMAR.fullmatch(stripped) if len(stripped) <= _LONGEST_TEXT else None
    if match is None:
        raise _refuse(text)
    sign, whole, part, only_part, binary, decimal, exponent = match.groups()
    fraction = part or only_part or ""
    digits = int((whole or "") + fraction)
    if binary:
        nanos = _scale(digits * _BINARY_FACTOR[binary], 9 - len(fraction), text)
        nanos = min(nanos, _LARGEST_BINARY)
        chosen = Format.DECIMAL_SI if nanos < NANOS else Format.BINARY_SI
    else:
        power = int(exponent) if exponent else _DECIMAL_EXPONENT[decimal or ""]
        nanos = _scale(digits, power + 9 - len(fraction), text)
        chosen = Format.DECIMAL_EXPONENT if exponent else Format.DECIMAL_SI
    return _checked(-nanos if sign == "-" else nanos, chosen, text)


def _scale(digits: int, power: int, text: str) -> int:
    """Return digits x 10^power without ever building a number larger than we allow."""
    if digits == 0:
        return 0
    if power >= 0:
        if power > _LARGEST_EXPONENT + 9:
            raise _too_large(text)
        raised: int = 10**power
        return digits * raised
    if -power > _LONGEST_TEXT:
        return 1
    divisor: int = 10**-power
    return _divide_away_from_zero(digits, divisor)


def _checked(nanos: int, chosen: Format, written: object) -> Quantity:
    if abs(nanos) > _LARGEST:
        raise _too_large(written)
    return Quantity(nanos, chosen)


def _divide_away_from_zero(number: int, by: int) -> int:
    return -(-number // by) if number >= 0 else number // by


def _binary_text(units: int) -> str:
    power = 0
    while units % _KIBI == 0 and power < len(_BINARY_SUFFIXES) - 1:
        units //= _KIBI
        power += 1
    return f"{units}{_BINARY_SUFFIXES[power]}"


def _refuse(written: object) -> QuantityError:
    return QuantityError(f"{excerpt(written)} is not a quantity: {_EXPECTED}")


def _too_large(written: object) -> QuantityError:
    return QuantityError(
        f"{excerpt(written)} is too large a quantity: expected at most 1e{_LARGEST_EXPONENT} in magnitude"
    )
