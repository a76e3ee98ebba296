"""
The API server without sockets: one request in, one answer or one stream out.

Finds out what is asked (:mod:`.request`), in which shape (:mod:`.views`), and calls the verb. Every refusal
becomes a ``Status``; anything else that is raised is a bug here and answers 500. :mod:`.http` puts it on a
port.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from karpenter.base.clock import Clock, SystemClock
from karpenter.kube.transport import Request, Response, Streaming
from karpenter_local import bootstrap
from karpenter_local.apiserver import errors, pages
from karpenter_local.apiserver.authorization import authorize
from karpenter_local.apiserver.backend import Backend
from karpenter_local.apiserver.journal import JournalError
from karpenter_local.apiserver.negotiation import view_for, wants_yaml
from karpenter_local.apiserver.presenting import as_yaml, refuse
from karpenter_local.apiserver.request import RequestInfo, parse
from karpenter_local.apiserver.resources import REVIEW
from karpenter_local.apiserver.store import ObjectStore
from karpenter_local.apiserver.verbs import subresources
from karpenter_local.apiserver.verbs.collection import delete_collection
from karpenter_local.apiserver.verbs.creating import post
from karpenter_local.apiserver.verbs.deleting import delete
from karpenter_local.apiserver.verbs.logs import TEXT, FollowedLog
from karpenter_local.apiserver.verbs.patching import patch
from karpenter_local.apiserver.verbs.reading import get, list_
from karpenter_local.apiserver.verbs.reviewing import review
from karpenter_local.apiserver.verbs.updating import put
from karpenter_local.apiserver.verbs.watching import Watch

if TYPE_CHECKING:
    from collections.abc import Callable

    from karpenter_local.apiserver.views import ResponseView

log = structlog.get_logger(__name__)

_VERBS: dict[str, Callable[[Backend, RequestInfo, ResponseView], Response]] = {
    "get": get,
    "list": list_,
    "create": post,
    "update": put,
    "patch": patch,
    "delete": delete,
    "deletecollection": delete_collection,
}


class Server:
    """Answers the Kubernetes API from a store. Implements :class:`karpenter.kube.transport.Handler`."""

    def __init__(
        self, *, clock: Clock | None = None, store: ObjectStore | None = None, seed: int | None = None
    ) -> None:
        self.store = store or ObjectStore()
        self.backend = Backend(store=self.store, clock=clock or SystemClock(), seed=seed)
        bootstrap.fill(self.backend)

    async def handle(self, request: Request) -> Response | Streaming:
        answer = await self.answer(request)
        if isinstance(answer, Watch):
            return Streaming(lines=answer.lines(), headers=(("content-type", answer.content_type),))
        if isinstance(answer, FollowedLog):
            return Streaming(lines=answer.lines(), headers=TEXT)
        return answer

    async def answer(self, request: Request) -> Response | Watch | FollowedLog:
        """Answer `request`; a stream is handed back whole, so that a front can write its parts in batches."""
        try:
            answer = self._decide(request)
        except errors.APIStatusError as fault:
            return refuse(fault)
        except Exception as error:
            log.exception("request.failed", method=request.method, path=request.path)
            return refuse(errors.internal(f"{type(error).__name__}: {error}"))
        if request.method != "GET":
            try:
                await self.store.settled(self.store.revision)
            except JournalError as error:
                return refuse(errors.internal(str(error)))
        if isinstance(answer, Response) and wants_yaml(request.header("accept")):
            return as_yaml(answer)
        return answer

    def _decide(self, request: Request) -> Response | Watch | FollowedLog:
        call = parse(request, self.backend.registry)
        authorize(self.backend, request, call)
        if call is None:
            return pages.answer(self.backend, request)
        view = view_for(self.backend, call)
        if call.verb == "watch":
            return Watch(self.backend, call, view)
        if call.subresource:
            return subresources.answer(self.backend, call, view)
        if call.resource.verbs == REVIEW:
            return review(self.backend, call)
        return _VERBS[call.verb](self.backend, call, view)
