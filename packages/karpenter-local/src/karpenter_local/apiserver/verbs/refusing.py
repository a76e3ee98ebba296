"""What a cluster without containers and networks cannot do, said in one sentence each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter_local.apiserver import errors

if TYPE_CHECKING:
    from karpenter_local.apiserver.backend import Backend
    from karpenter_local.apiserver.request import RequestInfo

_WHY = {
    "log": "has no logs",
    "exec": "cannot run a command",
    "attach": "cannot be attached to",
    "portforward": "has no ports to forward",
    "proxy": "cannot be reached",
    "ephemeralcontainers": "cannot be given a debug container",
}


def refusal(backend: Backend, call: RequestInfo) -> errors.APIStatusError:
    """Return why not, if there is such an object at all."""
    if backend.entry(call.resource, call.namespace, call.name) is None:
        return errors.not_found(call.resource, call.name)
    subject = f"{call.resource.singular} {call.name} {_WHY[call.subresource]}"
    return errors.not_implemented(f"{subject}: the embedded cluster simulates nodes and runs no containers")
