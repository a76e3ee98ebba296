"""
Field errors of validation, in the words of ``k8s.io/apimachinery/pkg/util/validation/field``.

Collected by :mod:`karpenter_local.apiserver.validation` and :mod:`karpenter_local.apiserver.custom`; turned
into an ``Invalid`` status by :func:`karpenter_local.apiserver.errors.invalid`.
"""

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable


class FieldError(msgspec.Struct, frozen=True):
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


def invalid(field: str, value: Any, detail: str) -> FieldError:
    return FieldError(field, "FieldValueInvalid", f"Invalid value: {render(value)}: {detail}")


def required(field: str, detail: str = "") -> FieldError:
    return FieldError(
        field, "FieldValueRequired", f"Required value: {detail}" if detail else "Required value"
    )


def not_supported(field: str, value: Any, allowed: "Iterable[str]") -> FieldError:
    known = ", ".join(render(item) for item in allowed)
    return FieldError(
        field, "FieldValueNotSupported", f"Unsupported value: {render(value)}: supported values: {known}"
    )


def duplicate(field: str, value: Any) -> FieldError:
    """The value must be unique and is not."""
    return FieldError(field, "FieldValueDuplicate", f"Duplicate value: {render(value)}")


def forbidden(field: str, detail: str) -> FieldError:
    """The field must not be set, or not be changed."""
    return FieldError(field, "FieldValueForbidden", f"Forbidden: {detail}")


def not_found(field: str, value: Any) -> FieldError:
    """The value refers to something that is not there."""
    return FieldError(field, "FieldValueNotFound", f"Not found: {render(value)}")
