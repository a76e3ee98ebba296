"""Every call that a client makes to an API server, as permissions name it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from karpenter.api.kinds import KINDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from karpenter.kube.transport import Request, Response, Streaming, Transport

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class Grant(NamedTuple):
    """Something that may be done, or was done."""

    verb: str
    group: str
    resource: str
    """With its subresource, as in ``pods/eviction``."""

    name: str = ""
    """The one object that it is about, where permissions tell objects apart."""


class Call(NamedTuple):
    """A call, and where it went."""

    grant: Grant
    namespace: str


class Recording:
    """Carries requests to another transport, and remembers them."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.calls: set[Call] = set()

    async def send(self, request: Request) -> Response:
        self._remember(request, watch=False)
        return await self._inner.send(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Response | Streaming]:
        self._remember(request, watch=True)
        async with self._inner.stream(request) as answer:
            yield answer

    async def close(self) -> None:
        await self._inner.close()

    def _remember(self, request: Request, *, watch: bool) -> None:
        if (call := read(request, watch=watch)) is not None:
            self.calls.add(call)
        self.calls.update(implied(request))


def read(request: Request, *, watch: bool) -> Call | None:
    """Return the call that a request is; None for what all may ask, such as which kinds exist."""
    _, root, *parts = request.path.split("/")
    if root == "version":
        return None
    group = "" if root == "api" else parts.pop(0)
    parts = parts[1:]  # the version
    if not parts:
        return None
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 2:
        namespace, parts = parts[1], parts[2:]
    resource, name, subresource = (*parts, "", "")[:3]
    reads = "get" if name else "list"
    verb = "watch" if watch else _VERBS.get(request.method, reads)
    where = f"{resource}/{subresource}" if subresource else resource
    return Call(Grant(verb, group, where, name), namespace)


def implied(request: Request) -> set[Call]:
    """
    Return what a write needs besides itself.

    A client that makes an object's owner wait for it must be allowed to put finalizers on the owner, where a
    cluster has the admission plugin OwnerReferencesPermissionEnforcement.
    """
    body = msgspec.json.decode(request.body) if request.body else {}
    owners = body.get("metadata", {}).get("ownerReferences", ()) if isinstance(body, dict) else ()
    kinds = [KINDS[each["apiVersion"], each["kind"]] for each in owners if each.get("blockOwnerDeletion")]
    return {Call(Grant("update", kind.group, f"{kind.plural}/finalizers"), "") for kind in kinds}


def granted(rules: Iterable[dict[str, Any]]) -> set[Grant]:
    return {
        Grant(verb, group, resource, name)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    }
