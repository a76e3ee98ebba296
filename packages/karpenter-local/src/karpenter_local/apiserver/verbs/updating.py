"""Update: replace an object, its status or its finalizers with the body."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter_local.apiserver import errors, metadata, options
from karpenter_local.apiserver.bodies import read
from karpenter_local.apiserver.presenting import reply_raw, warnings
from karpenter_local.apiserver.writing import WriteOptions, create, update

if TYPE_CHECKING:
    from karpenter.kube.transport import Response
    from karpenter_local.apiserver.backend import Backend
    from karpenter_local.apiserver.request import RequestInfo
    from karpenter_local.apiserver.views import ResponseView


def put(backend: Backend, call: RequestInfo, view: ResponseView) -> Response:
    """Replace what is stored, if it is still what the client has seen."""
    options.check(call)
    body = read(call.request, call.resource.kind)
    value, warned = backend.incoming(call, body.value, body.repeated)
    meta = metadata.of(value)
    given = meta.get("name")
    if not given:
        raise errors.bad_request(
            f"the name of the object ({call.name} based on URL) was undeterminable: name must be provided"
        )
    if given != call.name:
        raise errors.bad_request(
            f"the name of the object ({given}) does not match the name on the URL ({call.name})"
        )
    intent = WriteOptions(
        manager=call.manager,
        version=call.resource.api_version,
        dry_run=call.dry_run,
        subresource=call.subresource,
        user=backend.user(call.request),
    )
    stored = backend.kept(call.resource)
    old = backend.entry(stored, call.namespace, call.name)
    if old is None:
        if call.subresource or not backend.strategy(stored).create_on_update:
            raise errors.not_found(call.resource, call.name)
        meta["name"] = call.name
        entry = create(backend, stored, call.namespace, value, intent)
        return reply_raw(view.one(entry), status=201, headers=warnings([*warned, *intent.warnings]))
    entry = update(backend, stored, value, old, intent)
    return reply_raw(view.one(entry), headers=warnings([*warned, *intent.warnings]))
