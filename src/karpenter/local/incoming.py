"""
From what a client sent to an object in the version and form in which it is stored.

Checks that the body is of the kind that the path names, converts it, and takes out unknown fields; whether that is worth
a refusal, a warning or nothing is the client's choice (``fieldValidation``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.local import conversion, faults
from karpenter.local.complaints import unsupported
from karpenter.local.schema.conform import Mismatch, conform
from karpenter.local.schema.facts import facts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karpenter.local.entry import Object
    from karpenter.local.request import Call
    from karpenter.local.resources import Resource

_OPTIONS = {"create": "CreateOptions", "update": "UpdateOptions", "patch": "PatchOptions"}


def validation_mode(call: Call) -> str:
    """Return ``Strict``, ``Warn`` or ``Ignore``."""
    mode = call.request.parameter("fieldValidation")
    if mode in {"", "Warn"}:
        return "Warn"
    if mode not in {"Strict", "Ignore"}:
        complaint = unsupported("fieldValidation", mode, ("", "Ignore", "Strict", "Warn"))
        raise faults.invalid(_OPTIONS.get(call.verb, "CreateOptions"), "meta.k8s.io", "", [complaint])
    return mode


def check_kind(resource: Resource, value: Object) -> None:
    """Refuse a body of another kind or version; fill in what it leaves out."""
    kind, api_version = value.get("kind") or resource.kind, value.get("apiVersion") or resource.api_version
    if not isinstance(kind, str) or not isinstance(api_version, str):
        raise faults.bad_request("couldn't get version/kind; json parse error: kind and apiVersion must be strings")
    if kind != resource.kind:
        version = api_version.rpartition("/")[2]
        raise faults.bad_request(
            f'{kind} in version "{version}" cannot be handled as a {resource.kind}: '
            f'no kind "{kind}" is served by {resource.plural} of "{resource.api_version}"'
        )
    if api_version != resource.api_version:
        raise faults.bad_request(
            f"the API version in the data ({api_version}) does not match the expected API version ({resource.api_version})"
        )
    value["kind"], value["apiVersion"] = kind, api_version


def built_in(call: Call, value: Object, repeated: Sequence[str]) -> tuple[Object, list[str]]:
    """Return a body of a built-in kind as it is stored, and warnings about it."""
    mode = validation_mode(call)
    resource = call.resource
    check_kind(resource, value)
    definition = facts().of_kind(resource.group, resource.version, resource.kind)
    assert definition is not None, resource.kind
    try:
        unknown = conform(value, definition)
    except Mismatch as error:
        raise faults.bad_request(_cannot(resource, str(error))) from None
    sentences = [*repeated, *(f'unknown field "{path}"' for path in unknown)]
    judge(resource, mode, sentences)
    if not resource.stored:
        value = conversion.to_stored(resource, value)
    return value, sentences if mode == "Warn" else []


def judge(resource: Resource, mode: str, sentences: Sequence[str]) -> None:
    """Refuse in strict mode what would otherwise be a warning."""
    if sentences and mode == "Strict":
        raise faults.bad_request(_cannot(resource, f"strict decoding error: {', '.join(sentences)}"))


def _cannot(resource: Resource, why: str) -> str:
    return f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {why}'
