"""
A requirement: which values of one label are allowed.

A `Requirement` is a set of allowed values of one label key: a finite set, or everything but a finite set,
optionally between integer bounds. Requirements are closed under intersection, which is all that scheduling
does to them.

Sets of requirements are in :mod:`.requirements`; what they mean for a catalog is in the scheduling package.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.labels import NORMALIZED_LABELS
from karpenter.base.pretty import excerpt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

# Go reads the values of Gt and Lt as 64-bit integers: https://pkg.go.dev/strconv#Atoi
MAX_INT: Final = 2**63 - 1
# Gte and Lte are Karpenter's own; the others are those of node affinity:
# https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#operators
OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte")
_BOUNDS: Final = frozenset({"Gt", "Lt", "Gte", "Lte"})
_NONE: Final[frozenset[str]] = frozenset()
_SHOWN_VALUES: Final = 5
_MOST_DIGITS: Final = len(str(MAX_INT))


class RequirementError(ValueError):
    """A requirement that cannot be read: the text names the key, the value and what is allowed."""


class RequirementTerm(msgspec.Struct, frozen=True):
    """A requirement in API form: one operator and its values."""

    key: str
    operator: str
    values: tuple[str, ...] = ()
    min_values: int | None = None


class Requirement(msgspec.Struct, frozen=True, gc=False):
    """The allowed values of one label key."""

    key: str
    values: frozenset[str] = _NONE
    """The allowed values; with `complement`, the excluded values."""

    complement: bool = False
    gte: int | None = None
    lte: int | None = None
    min_values: int | None = None

    @property
    def operator(self) -> str:
        """In, NotIn, Exists or DoesNotExist: the shape of the set, whatever its bounds."""
        # Bounds are complements with gte and lte, so Gt and Lt are Exists in this view.
        if self.complement:
            return "NotIn" if self.values else "Exists"
        return "In" if self.values else "DoesNotExist"

    @property
    def tolerates_absence(self) -> bool:
        """Whether a node without this label satisfies the requirement."""
        # NotIn and DoesNotExist match a node without the label, as in node affinity:
        # https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#node-affinity
        return bool(self.values) if self.complement else not self.values

    @property
    def bounded(self) -> bool:
        """Whether only integers between bounds are allowed."""
        return self.gte is not None or self.lte is not None

    def allows(self, value: str) -> bool:
        """Return whether `value` is allowed."""
        return ((value in self.values) != self.complement) and within(value, self.gte, self.lte)

    def size(self) -> int:
        """Return how many values are allowed; a complement counts as nearly MAX_INT."""
        return MAX_INT - len(self.values) if self.complement else len(self.values)

    def sample(self) -> str:
        """Return one allowed value, always the same one; empty when there is none."""
        if not self.complement:
            return min(self.values, default="")
        number = self.gte or 0
        while str(number) in self.values:
            number += 1
        return str(number) if self.lte is None or number <= self.lte else ""

    def without_min_values(self) -> Requirement:
        return self if self.min_values is None else msgspec.structs.replace(self, min_values=None)

    def intersect(self, other: Requirement) -> Requirement:
        if self is other or (self.values is other.values and self == other):
            return self
        # Of two minValues the larger holds: both must be met by the instance types of one launch:
        # https://karpenter.sh/docs/concepts/nodepools/#min-values
        gte = _tighter(self.gte, other.gte, max)
        lte = _tighter(self.lte, other.lte, min)
        min_values = _tighter(self.min_values, other.min_values, max)
        if gte is not None and lte is not None and gte > lte:
            return Requirement(self.key, min_values=min_values)
        match self.complement, other.complement:
            case True, True:
                values = self.values | other.values
            case True, False:
                values = other.values - self.values
            case False, True:
                values = self.values - other.values
            case _:
                values = self.values & other.values
        if gte is not None or lte is not None:
            values = frozenset(v for v in values if within(v, gte, lte))
        if self.complement and other.complement:
            return Requirement(self.key, values, True, gte, lte, min_values)
        return Requirement(self.key, values, min_values=min_values)

    def intersects(self, other: Requirement) -> bool:
        """Return whether some value is allowed by both."""
        gte = _tighter(self.gte, other.gte, max)
        lte = _tighter(self.lte, other.lte, min)
        if gte is not None and lte is not None and gte > lte:
            return False
        match self.complement, other.complement:
            case True, True:
                return True
            case True, False:
                left = other.values - self.values
            case False, True:
                left = self.values - other.values
            case _:
                left = self.values & other.values
        if gte is None and lte is None:
            return bool(left)
        return any(within(v, gte, lte) for v in left)

    def terms(self) -> tuple[RequirementTerm, ...]:
        """
        Return the requirement in API form.

        A bounded complement with excluded values needs several entries, which
        together mean the same set.
        """
        found = []
        if self.gte is not None:
            found.append(RequirementTerm(self.key, "Gte", (str(self.gte),), self.min_values))
        if self.lte is not None and self.lte < 0:  # the API accepts no negative bounds
            found.append(RequirementTerm(self.key, "Lt", ("0",), self.min_values))
        elif self.lte is not None:
            found.append(RequirementTerm(self.key, "Lte", (str(self.lte),), self.min_values))
        if self.values or not found:
            found.append(
                RequirementTerm(self.key, self.operator, tuple(sorted(self.values)), self.min_values)
            )
        return tuple(found)

    def __str__(self) -> str:
        parts = [self.key, self.operator]
        if self.values:
            shown = sorted(self.values)[:_SHOWN_VALUES]
            others = len(self.values) - len(shown)
            parts.append(f"[{' '.join(shown)}{f' and {others} others' if others else ''}]")
        if self.gte is not None:
            parts.append(f">={self.gte}")
        if self.lte is not None:
            parts.append(f"<={self.lte}")
        if self.min_values is not None:
            parts.append(f"minValues {self.min_values}")
        return " ".join(parts)


def requirement(
    key: str, operator: str, values: Iterable[str] = (), min_values: int | None = None
) -> Requirement:
    """
    Return the requirement that an API entry means; deprecated keys get their present name.

    Raises:
        RequirementError: naming the key, what it says and what is allowed.
    """
    # Deprecated label keys such as failure-domain.beta.kubernetes.io/zone mean their successors:
    # https://kubernetes.io/docs/reference/labels-annotations-taints/
    key = sys.intern(NORMALIZED_LABELS.get(key, key))
    match operator:
        case "In":
            return Requirement(key, frozenset(values), min_values=min_values)
        case "NotIn":
            return Requirement(key, frozenset(values), True, min_values=min_values)
        case "Exists":
            return Requirement(key, _NONE, True, min_values=min_values)
        case "DoesNotExist":
            return Requirement(key, _NONE, min_values=min_values)
        case _ if operator in _BOUNDS:
            return _bounded(key, operator, tuple(values), min_values)
        case _:
            allowed = ", ".join(OPERATORS)
            raise RequirementError(
                f"label {excerpt(key)}: {excerpt(operator)} is not one of the operators {allowed}"
            )


def within(value: str, gte: int | None, lte: int | None) -> bool:
    """Return whether `value` lies between the bounds; only integers lie between bounds."""
    if gte is None and lte is None:
        return True
    number = integer(value)
    if number is None:
        return False
    return (gte is None or number >= gte) and (lte is None or number <= lte)


def integer(value: str) -> int | None:
    """Return `value` as a base-10 integer of at most 64 bits, or None."""
    digits = value[1:] if value[:1] in {"+", "-"} else value
    if not (digits.isascii() and digits.isdigit()):
        return None
    digits = digits.lstrip("0") or "0"
    if len(digits) > _MOST_DIGITS:
        return None
    number = -int(digits) if value[0] == "-" else int(digits)
    return number if -MAX_INT - 1 <= number <= MAX_INT else None


def _bounded(key: str, operator: str, values: tuple[str, ...], min_values: int | None) -> Requirement:
    # Gt and Lt take one value, which is an integer as text:
    # https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#operators
    number = integer(values[0]) if len(values) == 1 else None
    if number is None or number < 0:
        found = ", ".join(excerpt(value) for value in values[:_SHOWN_VALUES]) or "nothing"
        raise RequirementError(
            f"label {excerpt(key)}: operator {operator} takes exactly one integer of 0 or more, not {found}"
        )
    match operator:
        case "Gt" if number == MAX_INT:
            return Requirement(key)
        case "Gt":
            return Requirement(key, _NONE, True, gte=number + 1, min_values=min_values)
        case "Gte":
            return Requirement(key, _NONE, True, gte=number, min_values=min_values)
        case "Lt":
            return Requirement(key, _NONE, True, lte=number - 1, min_values=min_values)
        case _:
            return Requirement(key, _NONE, True, lte=number, min_values=min_values)


def _tighter(a: int | None, b: int | None, pick: Callable[[int, int], int]) -> int | None:
    if a is None:
        return b
    return a if b is None else pick(a, b)
