"""
From what a client sent to an object in the version and form in which it is stored.

Checks that the body is of the kind that the path names, converts it, and takes out unknown fields; whether
that is worth a refusal, a warning or nothing is the client's choice (``fieldValidation``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter_local.apiserver import conversion, errors
from karpenter_local.apiserver.options import validation_mode
from karpenter_local.apiserver.schema import typed
from karpenter_local.apiserver.schema.conform import Mismatch, conform
from karpenter_local.apiserver.schema.types import built_in_types

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from karpenter_local.apiserver.entry import Object
    from karpenter_local.apiserver.request import RequestInfo
    from karpenter_local.apiserver.resources import APIResource

_OLDER_VERSIONS = frozenset(
    f"{group}/{version}"
    for group, versions in {
        "apps": ("v1beta1", "v1beta2"),
        "batch": ("v1beta1",),
        "policy": ("v1beta1",),
        "storage.k8s.io": ("v1alpha1", "v1beta1"),
        "scheduling.k8s.io": ("v1alpha1", "v1beta1"),
        "coordination.k8s.io": ("v1beta1",),
        "discovery.k8s.io": ("v1beta1",),
        "events.k8s.io": ("v1beta1",),
        "rbac.authorization.k8s.io": ("v1alpha1", "v1beta1"),
        "resource.k8s.io": ("v1alpha3", "v1beta1", "v1beta2"),
    }.items()
    for version in versions
)
"""Versions that the API has known, and that are told apart from those it never had."""


def check_kind(resource: APIResource, value: Object) -> None:
    """Refuse a body of another kind or version; fill in what it leaves out."""
    kind, api_version = value.get("kind") or resource.kind, value.get("apiVersion") or resource.api_version
    if not isinstance(kind, str) or not isinstance(api_version, str):
        raise errors.bad_request(
            "couldn't get version/kind; json parse error: kind and apiVersion must be strings"
        )
    if kind != resource.kind:
        version = api_version.rpartition("/")[2]
        why = f'no kind "{kind}" is served by {resource.plural} of "{resource.api_version}"'
        raise Unfit(f'{kind} in version "{version}" cannot be handled as a {resource.kind}: {why}', why)
    if api_version != resource.api_version:
        if api_version in _OLDER_VERSIONS:
            raise errors.wrong_version(api_version, resource.api_version)
        why = f'no kind "{kind}" is registered for version "{api_version}"'
        version = api_version.rpartition("/")[2]
        raise Unfit(f'{kind} in version "{version}" cannot be handled as a {resource.kind}: {why}', why)
    value["kind"], value["apiVersion"] = kind, api_version


def built_in(
    call: RequestInfo,
    value: Object,
    repeated: Sequence[str],
    touched: Collection[str] | None = None,
    before: Object | None = None,
) -> tuple[Object, list[str]]:
    """
    Return a body of a built-in kind as it is stored, and warnings about it.

    All but the fields that are `touched`, if that is given, are as they are stored already; so is what the
    body shares with the object `before`.
    """
    mode = validation_mode(call)
    resource = call.resource
    check_kind(resource, value)
    definition = built_in_types().of_kind(resource.group, resource.version, resource.kind)
    assert definition is not None, resource.kind
    try:
        unknown = conform(value, definition, touched, before)
    except Mismatch as error:
        raise unfit(resource, str(error)) from None
    sentences = [*repeated, *(f'unknown field "{path}"' for path in unknown)]
    warn_or_refuse(resource, mode, sentences)
    if not resource.stored:
        value = conversion.to_stored(resource, value)
    return value, sentences if mode == "Warn" else []


def configuration(call: RequestInfo, value: Object, repeated: Sequence[str]) -> tuple[Object, list[str]]:
    """Return the body of an apply in the stored version, and warnings about it.

    Nothing is filled in: what a configuration does not say, it does not own.
    """
    resource = call.resource
    definition = built_in_types().of_kind(resource.group, resource.version, resource.kind)
    assert definition is not None, resource.kind
    wrong = typed.problem(value, definition)
    if wrong:
        raise untyped(call, value, wrong)
    mode = validation_mode(call)
    warn_or_refuse(resource, mode, repeated)
    if not resource.stored:
        value = conversion.to_stored(resource, value)
    return value, list(repeated) if mode == "Warn" else []


def untyped(call: RequestInfo, value: Object, wrong: str) -> errors.APIStatusError:
    """The body of an apply does not fit its kind's schema."""
    namespace = (value.get("metadata") or {}).get("namespace", "")
    kind = f"{call.resource.group}/{call.resource.version}, Kind={call.resource.kind}"
    why = f"failed to create typed patch object ({namespace}/{call.name}; {kind}): {wrong}"
    return errors.APIStatusError(500, "", why)


def normal(resource: APIResource, value: Object) -> Object:
    """Return an object of a built-in kind in the form in which it is stored."""
    definition = built_in_types().of_kind(resource.group, resource.version, resource.kind)
    assert definition is not None, resource.kind
    try:
        conform(value, definition)
    except Mismatch as error:
        raise unfit(resource, str(error)) from None
    return value


def warn_or_refuse(resource: APIResource, mode: str, sentences: Sequence[str]) -> None:
    """Refuse in strict mode what would otherwise be a warning."""
    if sentences and mode == "Strict":
        raise unfit(resource, f"strict decoding error: {', '.join(sentences)}")


class Unfit(errors.APIStatusError):
    """The body is not an object of the kind."""

    def __init__(self, message: str, why: str) -> None:
        super().__init__(400, "BadRequest", message)
        self.why = why
        """The reason alone, for those who wrap it differently."""


def unfit(resource: APIResource, why: str) -> Unfit:
    """The body is of the right kind by name, and cannot be read as one."""
    kind = resource.kind
    return Unfit(f'{kind} in version "{resource.version}" cannot be handled as a {kind}: {why}', why)
