"""Reviews: questions that are asked by creating an object and answered in its status. Nothing is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from karpenter_local.apiserver import access, bodies, errors, incoming
from karpenter_local.apiserver.presenting import reply, warnings
from karpenter_local.apiserver.tokens import ISSUER
from karpenter_local.apiserver.verbs.binding import bind

if TYPE_CHECKING:
    from karpenter.kube.transport import Response
    from karpenter_local.apiserver.backend import Backend
    from karpenter_local.apiserver.entry import Object
    from karpenter_local.apiserver.request import RequestInfo


def review(backend: Backend, call: RequestInfo) -> Response:
    """Answer a question: a binding, or a review of who someone is or what they may do."""
    body = bodies.read(call.request, call.resource.kind)
    value, warned = incoming.built_in(call, body.value, body.repeated)
    match call.resource.plural:
        case "bindings":
            pods = backend.registry.find("", "v1", "pods")
            assert pods is not None
            return bind(backend, pods, call.namespace, value, dry_run=call.dry_run)
        case "selfsubjectreviews":
            value["status"] = {"userInfo": _info(backend.user(call.request))}
        case "tokenreviews":
            value["status"] = _token(backend, value.get("spec") or {})
        case "selfsubjectrulesreviews":
            namespace = (value.get("spec") or {}).get("namespace", "")
            rules = access.rules_of(backend.store, backend.user(call.request), namespace)
            keys = ("verbs", "apiGroups", "resources", "resourceNames")
            value["status"] = {
                "resourceRules": [
                    {key: rule[key] for key in keys if key in rule} for rule in rules if rule.get("resources")
                ],
                "nonResourceRules": [
                    {key: rule[key] for key in ("verbs", "nonResourceURLs")}
                    for rule in rules
                    if rule.get("nonResourceURLs")
                ],
                "incomplete": False,
            }
        case _:
            spec = value.get("spec") or {}
            user = backend.user(call.request) if call.resource.plural.startswith("self") else _subject(spec)
            asked = _question(spec)
            if call.namespace and call.namespace != asked.namespace:
                raise errors.bad_request(
                    f"spec.resourceAttributes.namespace must match namespace: {call.namespace}"
                )
            why = access.allows(backend.store, user, asked)
            value["status"] = {"allowed": True, "reason": why} if why else {"allowed": False}
    value["metadata"] = {"creationTimestamp": None} | value.get("metadata", {})
    return reply(value, status=201, headers=warnings(warned))


def _subject(spec: Object) -> access.UserInfo:
    name = spec.get("user") or ""
    groups = tuple(spec.get("groups") or ())
    if not name and not groups:
        raise errors.bad_request("at least one of user or group must be specified")
    return access.UserInfo(name, groups)


def _question(spec: Object) -> access.AuthorizerAttributes:
    wanted, page = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if (wanted is None) == (page is None):
        raise errors.bad_request(
            "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        )
    if page is not None:
        return access.AuthorizerAttributes(verb=page.get("verb", ""), path=page.get("path", ""))
    assert wanted is not None
    keys = ("verb", "group", "resource", "subresource", "name", "namespace")
    return access.AuthorizerAttributes(**{key: wanted.get(key) or "" for key in keys})


def _token(backend: Backend, spec: Object) -> dict[str, Any]:
    audiences = tuple(spec.get("audiences") or (ISSUER,))
    user = backend.tokens.user(spec.get("token") or "", now=backend.clock.now(), audiences=audiences)
    if user is None:
        return {"user": {}, "error": "[invalid bearer token]"}
    return {"authenticated": True, "user": _info(user), "audiences": list(audiences)}


def _info(user: access.UserInfo) -> dict[str, Any]:
    return {"username": user.name, "groups": list(user.groups)}
