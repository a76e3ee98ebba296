"""Deletecollection: delete everything that a list would show."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter_local.apiserver.presenting import reply_raw
from karpenter_local.apiserver.verbs.deleting import read_options, remove
from karpenter_local.apiserver.verbs.selecting import current, selector

if TYPE_CHECKING:
    from karpenter.kube.transport import Response
    from karpenter_local.apiserver.backend import Backend
    from karpenter_local.apiserver.request import RequestInfo
    from karpenter_local.apiserver.views import ResponseView


def delete_collection(backend: Backend, call: RequestInfo, view: ResponseView) -> Response:
    options = read_options(backend, call)
    stored = backend.kept(call.resource)
    entries = current(backend, call, selector(backend, call))
    done = [remove(backend, stored, entry, options).entry for entry in entries]
    return reply_raw(view.many({"resourceVersion": str(backend.store.revision)}, done))
