"""Requests for a token of a service account: ``kubectl create token``."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from karpenter_local.apiserver import errors
from karpenter_local.apiserver.bodies import read
from karpenter_local.apiserver.field_errors import invalid
from karpenter_local.apiserver.metadata import stamp
from karpenter_local.apiserver.presenting import reply
from karpenter_local.apiserver.tokens import DEFAULT_SECONDS, ISSUER, SHORTEST

if TYPE_CHECKING:
    from karpenter.kube.rest import Response
    from karpenter_local.apiserver.backend import Backend
    from karpenter_local.apiserver.request import RequestInfo


def request_token(backend: Backend, call: RequestInfo) -> Response:
    """Give out a token of a service account."""
    entry = backend.entry(call.resource, call.namespace, call.name)
    if entry is None:
        raise errors.not_found(call.resource, call.name)
    body = read(call.request, "TokenRequest").value
    spec = body.get("spec") or {}
    audiences = list(spec.get("audiences") or [ISSUER])
    seconds = spec.get("expirationSeconds") or DEFAULT_SECONDS
    if seconds < SHORTEST:
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
