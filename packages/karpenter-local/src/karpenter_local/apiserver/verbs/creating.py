"""Create: a new object from the body."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter_local.apiserver import options
from karpenter_local.apiserver.bodies import read
from karpenter_local.apiserver.presenting import reply_raw, warnings
from karpenter_local.apiserver.writing import WriteOptions, create

if TYPE_CHECKING:
    from karpenter.kube.transport import Response
    from karpenter_local.apiserver.backend import Backend
    from karpenter_local.apiserver.request import RequestInfo
    from karpenter_local.apiserver.views import ResponseView


def post(backend: Backend, call: RequestInfo, view: ResponseView) -> Response:
    """Store the object in the body under a new name."""
    options.check(call)
    body = read(call.request, call.resource.kind)
    value, warned = backend.incoming(call, body.value, body.repeated)
    intent = WriteOptions(
        manager=call.manager,
        version=call.resource.api_version,
        dry_run=call.dry_run,
        user=backend.user(call.request),
    )
    stored = backend.kept(call.resource)
    entry = create(backend, stored, call.namespace, value, intent)
    return reply_raw(view.one(entry), status=201, headers=warnings([*warned, *intent.warnings]))
