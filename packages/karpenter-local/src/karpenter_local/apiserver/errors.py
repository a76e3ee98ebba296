"""
Errors of the API server: one exception with its ``Status``, and a constructor for every kind of refusal.

A verb raises a :func:`not_found`, :func:`conflict` and so on; :mod:`.server` turns it into a response.
Codes, reasons and wording are those of the Kubernetes API, because clients read them. Field errors of
validation are in :mod:`.field_errors` and end in :func:`invalid`.
"""

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karpenter_local.apiserver.field_errors import FieldError
    from karpenter_local.apiserver.resources import APIResource

# The request limit of kube-apiserver; etcd's is 1.5 MiB:
# https://kubernetes.io/docs/reference/using-api/api-concepts/
MAX_BODY = 3 * 1024 * 1024
"""Bytes of a request body beyond which the API refuses it."""


class APIStatusError(Exception):
    """A refusal: an HTTP code with a ``Status`` body."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: dict[str, Any] | None = None,
        headers: tuple[tuple[str, str], ...] = (),
        continues: str = "",
        text: str = "",
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.headers = headers
        self.continues = continues
        """A token to go on listing with, where the old one has expired."""
        self.text = text
        """What to answer instead of a ``Status``."""

    def status(self) -> dict[str, Any]:
        meta: dict[str, Any] = {"continue": self.continues} if self.continues else {}
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": meta,
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            body["reason"] = self.reason
        if self.details is not None:
            body["details"] = self.details
        body["code"] = self.code
        return body

    def encode(self) -> bytes:
        return msgspec.json.encode(self.status())


def qualified(name: str, group: str) -> str:
    """Return ``deployments.apps``, or the bare name in the core group."""
    return f"{name}.{group}" if group else name


def _about(resource: "APIResource", name: str) -> dict[str, Any]:
    details: dict[str, Any] = {"name": name} if name else {}
    if resource.group:
        details["group"] = resource.group
    details["kind"] = resource.plural
    return details


def not_found(resource: "APIResource", name: str) -> APIStatusError:
    message = f'{qualified(resource.plural, resource.group)} "{name}" not found'
    return APIStatusError(404, "NotFound", message, details=_about(resource, name))


def no_route() -> APIStatusError:
    """The path names nothing that this server serves."""
    return APIStatusError(404, "NotFound", "the server could not find the requested resource", details={})


def no_page() -> APIStatusError:
    """The path is outside of every group that this server knows."""
    return APIStatusError(404, "NotFound", "404 page not found", text="404 page not found\n")


def already_exists(resource: "APIResource", name: str, *, leaving: bool = False) -> APIStatusError:
    """The name is taken, perhaps by an object that is being deleted."""
    message = f'{qualified(resource.plural, resource.group)} "{name}" already exists'
    if leaving:
        message = f"object is being deleted: {message}"
    return APIStatusError(409, "AlreadyExists", message, details=_about(resource, name))


def conflict(resource: "APIResource", name: str, why: str = "") -> APIStatusError:
    """The object has moved on, or a precondition does not hold."""
    why = why or "the object has been modified; please apply your changes to the latest version and try again"
    message = f'Operation cannot be fulfilled on {qualified(resource.plural, resource.group)} "{name}": {why}'
    return APIStatusError(409, "Conflict", message, details=_about(resource, name))


def apply_conflict(causes: "Sequence[tuple[str, str]]") -> APIStatusError:
    """A server-side apply touched fields of other managers; causes are (manager, field) pairs."""
    if len(causes) == 1:
        manager, field = causes[0]
        message = f"Apply failed with 1 conflict: conflict with {manager}: {field}"
    else:
        message = f"Apply failed with {len(causes)} conflicts: {_conflicts(causes)}"
    details = {
        "causes": [
            {"reason": "FieldManagerConflict", "message": f"conflict with {manager}", "field": field}
            for manager, field in causes
        ]
    }
    return APIStatusError(409, "Conflict", message, details=details)


def _conflicts(causes: "Sequence[tuple[str, str]]") -> str:
    managers: dict[str, list[str]] = {}
    for manager, field in causes:
        managers.setdefault(manager, []).append(field)
    return "\n".join(
        f"conflicts with {manager}:\n" + "\n".join(f"- {field}" for field in fields)
        for manager, fields in managers.items()
    )


def invalid(kind: str, group: str, name: str, field_errors: "Sequence[FieldError]") -> APIStatusError:
    """The object breaks rules; every broken one is named."""
    sentences: list[str] = []
    causes = []
    for error in field_errors:
        sentence = f"{error.field}: {error.message}"
        if sentence not in sentences:
            sentences.append(sentence)
        causes.append({"reason": error.reason, "message": error.message, "field": error.field})
    text = sentences[0] if len(sentences) == 1 else f"[{', '.join(sentences)}]"
    details: dict[str, Any] = {"name": name} if name else {}
    if group:
        details["group"] = group
    details |= {"kind": kind, "causes": causes}
    return APIStatusError(
        422, "Invalid", f'{qualified(kind, group)} "{name}" is invalid: {text}', details=details
    )


def bad_request(message: str) -> APIStatusError:
    return APIStatusError(400, "BadRequest", message)


def wrong_version(given: str, expected: str) -> APIStatusError:
    """The body is of another version than the path."""
    return bad_request(
        f"the API version in the data ({given}) does not match the expected API version ({expected})"
    )


def unrecognized(kind: str, why: str) -> APIStatusError:
    """The body cannot be read as an object of `kind`."""
    return bad_request(f"the object provided is unrecognized (must be of type {kind}): {why}")


def patch_invalid(shown: str, why: str) -> APIStatusError:
    """The patch is well formed, and leaves no object that could be read."""
    quoted = msgspec.json.encode(shown).decode()
    message = f"Invalid value: {quoted}: {why}"
    cause = {"reason": "FieldValueInvalid", "message": message, "field": "patch"}
    return APIStatusError(422, "Invalid", f' "" is invalid: patch: {message}', details={"causes": [cause]})


def unauthorized() -> APIStatusError:
    return APIStatusError(401, "Unauthorized", "Unauthorized")


def forbidden(resource: "APIResource", name: str, why: str) -> APIStatusError:
    message = f'{qualified(resource.plural, resource.group)} "{name}" is forbidden: {why}'
    return APIStatusError(403, "Forbidden", message, details=_about(resource, name))


def method_not_allowed() -> APIStatusError:
    """The path exists, the method does not."""
    message = "the server does not allow this method on the requested resource"
    return APIStatusError(405, "MethodNotAllowed", message, details={})


def not_acceptable() -> APIStatusError:
    """The client accepts no encoding that this server has."""
    known = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
    streams = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
    message = f"406: Not Acceptable\n\nAvailable representations: {known}, {streams}"
    return APIStatusError(406, "NotAcceptable", message, details={})


def unsupported_media_type(accepted: "Sequence[str]") -> APIStatusError:
    """The client sends an encoding that this server does not read."""
    known = ", ".join(accepted)
    message = f"the body of the request was in an unknown format - accepted media types include: {known}"
    return APIStatusError(415, "UnsupportedMediaType", message)


def too_large() -> APIStatusError:
    """The body is bigger than any object may be."""
    message = f"Request entity too large: limit is {MAX_BODY}"
    return APIStatusError(413, "RequestEntityTooLarge", message)


def expired(message: str, *, continues: str = "") -> APIStatusError:
    """The history that was asked for is gone."""
    return APIStatusError(410, "Expired", message, continues=continues)


def too_many_requests(
    message: str, *, retry_after: int = 0, causes: "Sequence[dict[str, str]]" = ()
) -> APIStatusError:
    """Not now: an eviction would break a budget."""
    details: dict[str, Any] = {}
    if causes:
        details["causes"] = list(causes)
    if retry_after:
        details["retryAfterSeconds"] = retry_after
    headers = (("retry-after", str(retry_after)),) if retry_after else ()
    return APIStatusError(429, "TooManyRequests", message, details=details, headers=headers)


def internal(message: str) -> APIStatusError:
    return APIStatusError(500, "InternalError", f"Internal error occurred: {message}")


def not_implemented(message: str) -> APIStatusError:
    """A real cluster could; this one has no containers or networks."""
    return APIStatusError(501, "NotImplemented", message)
