"""Paths under an object: its status, its scale, and actions on it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from karpenter_local.apiserver import errors
from karpenter_local.apiserver.bodies import read
from karpenter_local.apiserver.field_errors import invalid
from karpenter_local.apiserver.metadata import stamp
from karpenter_local.apiserver.presenting import reply
from karpenter_local.apiserver.tokens import DEFAULT_SECONDS, ISSUER, SHORTEST_SECONDS
from karpenter_local.apiserver.verbs.binding import bind
from karpenter_local.apiserver.verbs.evicting import evict
from karpenter_local.apiserver.verbs.logs import FollowedLog, read_log
from karpenter_local.apiserver.verbs.patching import patch
from karpenter_local.apiserver.verbs.reading import get
from karpenter_local.apiserver.verbs.refusing import refusal
from karpenter_local.apiserver.verbs.scaling import scale
from karpenter_local.apiserver.verbs.updating import put

if TYPE_CHECKING:
    from karpenter.kube.transport import Response
    from karpenter_local.apiserver.backend import Backend
    from karpenter_local.apiserver.request import RequestInfo
    from karpenter_local.apiserver.views import ResponseView


def answer(backend: Backend, call: RequestInfo, view: ResponseView) -> Response | FollowedLog:
    match call.subresource:
        case "status" | "finalize" | "resize":
            return {"get": get, "update": put, "patch": patch}[call.verb](backend, call, view)
        case "scale":
            return scale(backend, call, view)
        case "binding":
            body = read(call.request, "Binding").value
            if (body.get("metadata") or {}).get("name") != call.name:
                raise errors.bad_request("name in URL does not match name in Binding object")
            return bind(backend, call.resource, call.namespace, body, dry_run=call.dry_run)
        case "eviction":
            return evict(backend, call)
        case "token":
            return _request_token(backend, call)
        case "log":
            return read_log(backend, call)
        case _:
            raise refusal(backend, call)


def _request_token(backend: Backend, call: RequestInfo) -> Response:
    """Give out a token of a service account (``kubectl create token``)."""
    entry = backend.entry(call.resource, call.namespace, call.name)
    if entry is None:
        raise errors.not_found(call.resource, call.name)
    body = read(call.request, "TokenRequest").value
    spec = body.get("spec") or {}
    audiences = list(spec.get("audiences") or [ISSUER])
    seconds = spec.get("expirationSeconds") or DEFAULT_SECONDS
    if seconds < SHORTEST_SECONDS:
        problem = invalid(
            "spec.expirationSeconds", seconds, "may not specify a duration less than 10 minutes"
        )
        raise errors.invalid("TokenRequest", "authentication.k8s.io", call.name, [problem])
    now = backend.clock.now()
    token = backend.tokens.issue(entry.object(), audiences=audiences, seconds=seconds, now=now)
    return reply(
        {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {
                "name": call.name,
                "namespace": call.namespace,
                "creationTimestamp": stamp(now),
            },
            "spec": {
                "audiences": audiences,
                "expirationSeconds": seconds,
                "boundObjectRef": spec.get("boundObjectRef"),
            },
            "status": {"token": token, "expirationTimestamp": stamp(now + timedelta(seconds=seconds))},
        },
        status=201,
    )
