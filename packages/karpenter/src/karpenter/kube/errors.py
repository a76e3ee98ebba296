"""
Everything that talking to an API server may raise, and what to do about it.

    KubeError |-- NotConfigured          no cluster to talk to, or its kubeconfig is wrong: tell the user
    |-- Unreachable            no answer came: the write may have happened; look before doing it again |--
    UndecodableResponse    the answer is not what was asked for: a bug, or a proxy in between `--
    StatusError            the server answered with a Status: ``code``, ``reason`` and ``message`` are its
    own
        |-- BadRequest         400, 405, 415...: the request is wrong: do not retry
        |-- Unauthorized       401: the credentials are missing, wrong or stale
        |-- Forbidden          403: a role is missing, or admission said no: tell the user
        |-- NotFound           404: already gone; for a delete, this is success
        |-- AlreadyExists      409: another client was first; read it
        |-- Conflict           409: it changed since, or a precondition failed: read and decide again
        |-- Gone               410: that resourceVersion or continue token is too old: list anew
        |-- Invalid            422: validation failed; ``causes`` names each field
        |-- TooManyRequests    429: wait ``retry_after``; for an eviction, a disruption budget says not yet
        `-- ServerFailed       5xx: its trouble, not ours: try again later (``retry_after`` if it said)

:func:`status_error` turns a response into the right leaf. Nothing here retries.
"""

from typing import TYPE_CHECKING, ClassVar

import msgspec

if TYPE_CHECKING:
    from karpenter.kube.transport import Request, Response


class Cause(msgspec.Struct, frozen=True):
    """One thing that is wrong: a field of an invalid object, or the budget that blocks an eviction."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(msgspec.Struct, frozen=True, rename="camel"):
    """Object that a Status is about, and the causes."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[Cause, ...] | None = None
    retry_after_seconds: int = 0


class Status(msgspec.Struct, frozen=True):
    """The API's own description of an outcome: the body of every error, and of a watch's ERROR event."""

    code: int = 0
    status: str = ""
    reason: str = ""
    message: str = ""
    details: StatusDetails | None = None


class KubeError(Exception):
    """Anything that went wrong between us and an API server."""

    hint: str = ""
    """What helps, where that is known."""


class NotConfigured(KubeError):  # noqa: N818  the tree reads as words
    """There is no cluster to talk to, or what describes it is wrong."""


class Unreachable(KubeError):  # noqa: N818  likewise
    """No answer came. The request may or may not have been carried out."""

    def __init__(self, why: str, *, request: "Request", sent: bool = True) -> None:
        super().__init__(f"{request.method} {request.path}: {why}")
        self.why = why
        self.request = request
        self.sent = sent
        """False where we know that the server never saw the request."""


class UndecodableResponse(KubeError):  # noqa: N818  likewise
    """An answer came that is not what was asked for."""

    def __init__(self, why: str, *, request: "Request", body: bytes = b"") -> None:
        super().__init__(f"{request.method} {request.path}: cannot read the answer: {why}")
        self.why = why
        self.request = request
        self.body = body


class StatusError(KubeError):
    """The server answered with an error."""

    codes: ClassVar[frozenset[int]] = frozenset()

    def __init__(self, status: Status, *, request: "Request", retry_after: float | None = None) -> None:
        super().__init__(f"{request.method} {request.path}: {status.message or status.reason or status.code}")
        details = status.details or StatusDetails()
        self.request = request
        self.code = status.code
        self.reason = status.reason
        self.message = status.message
        self.kind = details.kind
        self.name = details.name
        self.causes = details.causes or ()
        self.retry_after = retry_after if retry_after is not None else (details.retry_after_seconds or None)
        """Seconds to wait before asking again, where the server said."""


class BadRequest(StatusError):  # noqa: N818  the reason of a Status
    """The request itself is wrong."""


class Unauthorized(StatusError):  # noqa: N818  the reason of a Status
    """The server does not know who we are."""

    codes = frozenset({401})


class Forbidden(StatusError):  # noqa: N818  the reason of a Status
    """The server knows who we are and says no."""

    codes = frozenset({403})


class NotFound(StatusError):  # noqa: N818  the reason of a Status
    """There is no such object, or no such kind."""

    codes = frozenset({404})


class AlreadyExists(StatusError):  # noqa: N818  the reason of a Status
    """An object of that name is there already."""


class Conflict(StatusError):  # noqa: N818  the reason of a Status
    """The object is not what the caller thought it was."""

    codes = frozenset({409})


class Gone(StatusError):  # noqa: N818  the reason of a Status
    """That resourceVersion or continue token is too old."""

    codes = frozenset({410})


class Invalid(StatusError):  # noqa: N818  the reason of a Status
    """The object breaks its schema or its rules; ``causes`` names each field."""

    codes = frozenset({422})


class TooManyRequests(StatusError):  # noqa: N818  the reason of a Status
    """Slow down; or, for an eviction, a disruption budget allows no more now."""

    codes = frozenset({429})

    @property
    def by_budget(self) -> bool:
        """Whether a PodDisruptionBudget refused, rather than the server being busy."""
        return any(cause.reason == "DisruptionBudget" for cause in self.causes)


class ServerFailed(StatusError):  # noqa: N818  the reason of a Status
    """The server is in trouble."""


_BY_CODE: dict[int, type[StatusError]] = {
    code: leaf
    for leaf in (Unauthorized, Forbidden, NotFound, Conflict, Gone, Invalid, TooManyRequests)
    for code in leaf.codes
}
_SERVER_FAILED = 500


def status_error(request: "Request", response: "Response") -> StatusError:
    """Return the error that `response` amounts to; it must not be a success."""
    try:
        status = msgspec.json.decode(response.body, type=Status)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # A proxy in between, or a server too broken to say it properly.
        status = Status(message=response.body[:200].decode(errors="replace"))
    if not status.code:
        status = msgspec.structs.replace(status, code=response.status)
    header = response.header("retry-after")
    return status_error_of(request, status, retry_after=float(header) if header.isdigit() else None)


def status_error_of(request: "Request", status: Status, *, retry_after: float | None = None) -> StatusError:
    """Return the error that a Status amounts to, such as one that ended a watch."""
    leaf = _BY_CODE.get(status.code)
    if leaf is Conflict and status.reason == "AlreadyExists":
        leaf = AlreadyExists
    elif leaf is None:
        leaf = ServerFailed if status.code >= _SERVER_FAILED else BadRequest
    return leaf(status, request=request, retry_after=retry_after)
