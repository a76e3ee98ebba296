"""Paths that are not about objects: version and health. Discovery and OpenAPI are beside."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.kube.transport import Request, Response
from karpenter_local.apiserver import discovery, errors
from karpenter_local.apiserver.openapi import documents
from karpenter_local.apiserver.presenting import reply
from karpenter_local.apiserver.resources import BUILT_IN_GROUPS

if TYPE_CHECKING:
    from karpenter_local.apiserver.backend import Backend

_HEALTH = frozenset({"/healthz", "/livez", "/readyz"})


def answer(backend: Backend, request: Request) -> Response:
    """Answer a request that names no kind."""
    path = request.path.rstrip("/") or "/"
    if request.method not in {"GET", "HEAD"}:
        raise errors.method_not_allowed()
    if path == "/version":
        return reply(version(backend.kubernetes))
    if path in _HEALTH or path.startswith(tuple(f"{page}/" for page in _HEALTH)):
        return Response(status=200, headers=(("content-type", "text/plain; charset=utf-8"),), body=b"ok")
    found = discovery.answer(backend.registry, request) or documents.answer(backend, request)
    if found is None:
        root, _, rest = path.lstrip("/").partition("/")
        known = root == "api" or (root == "apis" and rest.partition("/")[0] in BUILT_IN_GROUPS)
        raise errors.no_route() if known else errors.no_page()
    return found


def version(kubernetes: str) -> dict[str, str]:
    """Return what ``kubectl version`` shows for a version of Kubernetes such as ``1.36``."""
    major, _, minor = kubernetes.partition(".")
    return {
        "major": major,
        "minor": minor,
        "gitVersion": f"v{kubernetes}.0+embedded",
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": "python/embedded",
    }
