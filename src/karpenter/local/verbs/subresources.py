"""Paths under an object: its status, its scale, and actions on it. Reviews, which are questions and not objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.local import faults
from karpenter.local.bodies import read
from karpenter.local.verbs.binding import bind
from karpenter.local.verbs.evicting import evict
from karpenter.local.verbs.patching import patch
from karpenter.local.verbs.reading import get
from karpenter.local.verbs.updating import put

if TYPE_CHECKING:
    from karpenter.kube.transport import Response
    from karpenter.local.backend import Backend
    from karpenter.local.request import Call
    from karpenter.local.views import View


def answer(backend: Backend, call: Call, view: View) -> Response:
    """Answer a request for a subresource."""
    match call.subresource:
        case "status" | "finalize" | "ephemeralcontainers" | "resize":
            return {"get": get, "update": put, "patch": patch}[call.verb](backend, call, view)
        case "binding":
            body = read(call.request, "Binding").value
            body.setdefault("metadata", {}).setdefault("name", call.name)
            return bind(backend, call.resource, call.namespace, body, dry_run=call.dry_run)
        case "eviction":
            return evict(backend, call)
        case _:
            raise faults.not_implemented(f"{call.subresource} is not there yet")


def review(backend: Backend, call: Call) -> Response:
    """Answer a question: a binding, or a review of access."""
    body = read(call.request, call.resource.kind).value
    if call.resource.plural == "bindings":
        pods = backend.registry.find("", "v1", "pods")
        assert pods is not None
        return bind(backend, pods, call.namespace, body, dry_run=call.dry_run)
    raise faults.not_implemented(f"{call.resource.plural} are not there yet")
