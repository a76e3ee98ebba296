"""
Field errors and field paths, as ``k8s.io/apimachinery/pkg/util/validation/field`` has them.

A problem is a path, a reason and a message. The messages are those of a Kubernetes API server, so that a
message is the same wherever it was made. Paths are spelled as the API spells them: ``spec.taints[0].key``,
``metadata.labels[app]``. Problems are found in :mod:`.validation` and :mod:`.rules`.
"""

from collections.abc import Iterable

import msgspec

from karpenter.base.pretty import excerpt

INVALID = "FieldValueInvalid"
REQUIRED = "FieldValueRequired"
DUPLICATE = "FieldValueDuplicate"
NOT_SUPPORTED = "FieldValueNotSupported"
FORBIDDEN = "FieldValueForbidden"
NOT_FOUND = "FieldValueNotFound"
TOO_LONG = "FieldValueTooLong"
TOO_MANY = "FieldValueTooMany"
TYPE_INVALID = "FieldValueTypeInvalid"
INTERNAL = "InternalError"

NOWHERE = "<nil>"
"""The field of a problem that belongs to the object as a whole."""


class FieldProblem(msgspec.Struct, frozen=True):
    """One thing wrong: where, of what sort, and in words."""

    field: str
    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.field or NOWHERE}: {self.message}"


_LARGEST_WRITTEN_OUT = 1e21

OMITTED = object()
"""A value that is not shown."""


def render(value: object) -> str:
    """Return a value as the API prints it: text quoted, whole numbers without a point, the rest as JSON."""
    if isinstance(value, float) and value.is_integer() and abs(value) < _LARGEST_WRITTEN_OUT:
        return str(int(value))
    try:
        return msgspec.json.encode(value, order="sorted").decode()
    except (TypeError, ValueError, RecursionError):
        return excerpt(value)  # not a value JSON has: say as much as can be said


def invalid(field: str, value: object, detail: str) -> FieldProblem:
    """The value is of the right sort but not acceptable."""
    shown = "" if value is OMITTED else f"{render(value)}: "
    return FieldProblem(field, INVALID, f"Invalid value: {shown}{detail}")


def type_invalid(field: str, found: str, detail: str) -> FieldProblem:
    """The value is of the wrong type."""
    return FieldProblem(field, TYPE_INVALID, f"Invalid value: {render(found)}: {detail}")


def required(field: str, detail: str = "") -> FieldProblem:
    return FieldProblem(field, REQUIRED, f"Required value: {detail}" if detail else "Required value")


def forbidden(field: str, detail: str) -> FieldProblem:
    """The field must not be set, or not be changed."""
    return FieldProblem(field, FORBIDDEN, f"Forbidden: {detail}" if detail else "Forbidden")


def duplicate(field: str, value: object) -> FieldProblem:
    """The value must be unique and is not."""
    shown = "" if value is OMITTED else f": {render(value)}"
    return FieldProblem(field, DUPLICATE, f"Duplicate value{shown}")


def not_supported(field: str, value: object, allowed: Iterable[object]) -> FieldProblem:
    known = ", ".join(render(each if isinstance(each, str) else render(each)) for each in allowed)
    return FieldProblem(
        field, NOT_SUPPORTED, f"Unsupported value: {render(value)}: supported values: {known}"
    )


def too_long(field: str, limit: int) -> FieldProblem:
    unit = "byte" if limit == 1 else "bytes"
    return FieldProblem(field, TOO_LONG, f"Too long: may not be more than {limit} {unit}")


def too_many(field: str, count: int, limit: int) -> FieldProblem:
    """The list or map has more members than allowed."""
    unit = "item" if limit == 1 else "items"
    return FieldProblem(field, TOO_MANY, f"Too many: {count}: must have at most {limit} {unit}")


def child(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def key(path: str, name: str) -> str:
    return f"{path}[{name}]"


def index(path: str, position: int) -> str:
    return f"{path}[{position}]"
