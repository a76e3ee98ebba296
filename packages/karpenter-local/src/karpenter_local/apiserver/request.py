"""
What a request asks for: which kind, which object, which subresource, which verb.

Pure reading of method, path and query; whether the object exists is the verb's business.
"""

from __future__ import annotations

from urllib.parse import unquote

import msgspec

from karpenter.kube.transport import Request
from karpenter_local.apiserver import errors
from karpenter_local.apiserver.resources import BUILT_IN_GROUPS, APIResource, Registry

_CORE = 2  # /api/v1
_GROUPED = 3  # /apis/GROUP/VERSION
# https://kubernetes.io/docs/reference/access-authn-authz/authorization/#determine-the-request-verb
_IN_A_NAMESPACE = frozenset({"create", "deletecollection"})
_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})


class RequestInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A request for one kind, taken apart."""

    verb: str
    resource: APIResource
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    request: Request

    def flag(self, name: str) -> bool:
        return self.request.parameter(name).lower() in {"true", "1", "t"}

    @property
    def dry_runs(self) -> list[str]:
        """The values of ``dryRun``."""
        return [value for key, value in self.request.query if key == "dryRun"]

    @property
    def dry_run(self) -> bool:
        return "All" in self.dry_runs

    @property
    def manager(self) -> str:
        """Who is writing: ``fieldManager``, or the first word of the user agent."""
        return self.request.parameter("fieldManager") or agent(self.request.header("user-agent"))


def agent(header: str) -> str:
    """Return the field manager that stands for a user agent: what comes before the first slash."""
    return header.partition("/")[0] or "unknown"


def parse(request: Request, registry: Registry) -> RequestInfo | None:
    """Return what `request` asks for, or None when its path is not that of a served kind."""
    parts = [part for part in request.path.split("/") if part]
    if "%" in request.path:
        parts = [unquote(part) for part in parts]
    if len(parts) > _CORE and parts[0] == "api":
        group, version, rest = "", parts[1], parts[2:]
    elif len(parts) > _GROUPED and parts[0] == "apis":
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    watching = rest[0] == "watch" and len(rest) > 1  # the way to watch before there was a parameter for it
    if watching:
        rest = rest[1:]
    match rest:
        case ["namespaces", _, part] if not group and part in _NAMESPACE_SUBRESOURCES:
            namespace = ""
        case ["namespaces", namespace, _, *_]:
            rest = rest[2:]
        case _:
            namespace = ""
    resource = registry.find(group, version, rest[0])
    if resource is None:
        raise errors.no_route() if not group or group in BUILT_IN_GROUPS else errors.no_page()
    return _call(request, resource, namespace, rest[1:], watching=watching)


def _call(
    request: Request, resource: APIResource, namespace: str, rest: list[str], *, watching: bool = False
) -> RequestInfo:
    if namespace and not resource.namespaced:
        raise errors.no_route()
    name = rest[0] if rest else ""
    subresource = rest[1] if len(rest) > 1 else ""
    if resource.namespaced and name and not namespace:
        raise errors.no_route()
    verb = "watch" if watching and request.method == "GET" else _verb(request, named=bool(name))
    if subresource:
        found = resource.subresource(subresource)
        if found is None:
            raise errors.no_route()
        if verb not in found.verbs:
            raise errors.method_not_allowed()
    elif (
        verb not in resource.verbs
        or (verb == "create" and name)
        or (verb in _IN_A_NAMESPACE and resource.namespaced and not namespace)
    ):
        raise errors.method_not_allowed()
    return RequestInfo(
        verb=verb, resource=resource, namespace=namespace, name=name, subresource=subresource, request=request
    )


def _verb(request: Request, *, named: bool) -> str:
    watching = request.parameter("watch").lower() in {"true", "1"}
    match request.method:
        case "GET" | "HEAD" if named:
            return "get"
        case "GET" | "HEAD":
            return "watch" if watching else "list"
        case "POST":
            return "create"
        case "PUT" if named:
            return "update"
        case "PATCH" if named:
            return "patch"
        case "DELETE":
            return "delete" if named else "deletecollection"
        case _:
            raise errors.method_not_allowed()
