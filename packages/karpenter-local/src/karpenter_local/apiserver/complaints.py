"""
What validation has to say about one field, in the words of the Kubernetes API.

Collected by :mod:`karpenter_local.apiserver.validation` and :mod:`karpenter_local.apiserver.custom`; turned into an ``Invalid``
status by :func:`karpenter_local.apiserver.faults.invalid`.
"""

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable


class Complaint(msgspec.Struct, frozen=True):
    """One broken rule: where, what kind of breach, and a sentence."""

    field: str
    reason: str
    message: str


def render(value: Any) -> str:
    """Return `value` as the API prints it in a message: strings quoted, the rest as JSON."""
    if isinstance(value, str):
        return msgspec.json.encode(value).decode()
    if value is None:
        return "null"
    return msgspec.json.encode(value).decode()


def bad(field: str, value: Any, detail: str) -> Complaint:
    """The value is not acceptable."""
    return Complaint(field, "FieldValueInvalid", f"Invalid value: {render(value)}: {detail}")


def required(field: str, detail: str = "") -> Complaint:
    """The field must be there."""
    return Complaint(field, "FieldValueRequired", f"Required value: {detail}" if detail else "Required value")


def unsupported(field: str, value: Any, allowed: "Iterable[str]") -> Complaint:
    """The value is not one of a few."""
    known = ", ".join(render(item) for item in allowed)
    return Complaint(
        field, "FieldValueNotSupported", f"Unsupported value: {render(value)}: supported values: {known}"
    )


def duplicate(field: str, value: Any) -> Complaint:
    """The value must be unique and is not."""
    return Complaint(field, "FieldValueDuplicate", f"Duplicate value: {render(value)}")


def forbidden(field: str, detail: str) -> Complaint:
    """The field must not be set, or not be changed."""
    return Complaint(field, "FieldValueForbidden", f"Forbidden: {detail}")


def missing(field: str, value: Any) -> Complaint:
    """The value refers to something that is not there."""
    return Complaint(field, "FieldValueNotFound", f"Not found: {render(value)}")
