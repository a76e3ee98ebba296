"""Create: a new object from the body."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.local import options
from karpenter.local.bodies import read
from karpenter.local.presenting import reply_raw, warnings
from karpenter.local.writing import Intent, create

if TYPE_CHECKING:
    from karpenter.kube.transport import Response
    from karpenter.local.backend import Backend
    from karpenter.local.request import Call
    from karpenter.local.views import View


def post(backend: Backend, call: Call, view: View) -> Response:
    """Store the object in the body under a new name."""
    options.check(call)
    body = read(call.request, call.resource.kind)
    value, warned = backend.incoming(call, body.value, body.repeated)
    intent = Intent(manager=call.manager, version=call.resource.api_version, dry_run=call.dry_run)
    stored = backend.kept(call.resource)
    entry = create(backend, stored, call.namespace, value, intent)
    return reply_raw(view.one(entry), status=201, headers=warnings(warned))
