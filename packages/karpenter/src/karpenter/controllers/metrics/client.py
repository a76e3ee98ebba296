"""Requests to the API server, as metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karpenter.telemetry.metrics import Metrics, runtime

if TYPE_CHECKING:
    from collections.abc import Callable

    from karpenter.kube.transport import Request


_SHORTEST: Final = 2
"""How many parts a path has at least behind its group: a version and a kind."""


def client_request_metrics(metrics: Metrics, host: str) -> Callable[[Request, int, float], None]:
    """Return a listener that counts and times the requests of a client to the API server."""

    def note(request: Request, code: int, seconds: float) -> None:
        answer = str(code) if code else "<error>"
        metrics[runtime.CLIENT_REQUESTS].add(code=answer, host=host, method=request.method)
        metrics[runtime.CLIENT_REQUEST_DURATION].observe(seconds, host=host, method=request.method)
        metrics[runtime.CLIENT_GO_REQUESTS].add(code=answer, method=request.method)
        labels = request_labels(request.method, request.path)
        if labels is not None:
            metrics[runtime.CLIENT_GO_REQUEST_DURATION].observe(seconds, **labels)

    return note


def request_labels(method: str, path: str) -> dict[str, str] | None:
    """Return what a request does with which kind of objects; None if it is not about objects."""
    root, *parts = path.strip("/").split("/")
    if root not in {"api", "apis"}:
        return None
    group, parts = ("", parts) if root == "api" else (parts[0] if parts else "", parts[1:])
    if len(parts) < _SHORTEST:
        return None
    version, rest = parts[0], parts[1:]
    if rest[0] == "namespaces" and len(rest) > _SHORTEST:  # a namespace itself has no more behind it
        rest = rest[2:]
    kind, *behind = rest
    verb = {"POST": "CREATE", "PUT": "UPDATE"}.get(method, method)
    if method == "GET" and not behind:
        verb = "LIST"
    return {
        "verb": verb,
        "group": group,
        "version": version,
        "kind": kind,
        "subresource": behind[1] if len(behind) > 1 else "",
    }
