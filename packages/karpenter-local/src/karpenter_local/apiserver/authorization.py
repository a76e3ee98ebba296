"""
Authorization of requests.

Authentication happened before: a client with the cluster's token, or one in the same process, is its
administrator, and a client with a token of a service account is that account. An administrator may
impersonate another user, and then has only that user's rights.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter_local.apiserver import access, errors
from karpenter_local.apiserver.access import ADMIN, AuthorizerAttributes, UserInfo

if TYPE_CHECKING:
    from karpenter.kube.transport import Request
    from karpenter_local.apiserver.backend import Backend
    from karpenter_local.apiserver.request import RequestInfo

# What system:public-info-viewer and system:discovery grant:
# https://kubernetes.io/docs/reference/access-authn-authz/rbac/#discovery-roles
_OPEN_PAGES = ("/version", "/healthz", "/livez", "/readyz", "/api", "/openapi")
# system:basic-user lets everyone ask about themselves:
# https://kubernetes.io/docs/reference/access-authn-authz/rbac/#discovery-roles
_ANYONE = frozenset({"selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews"})


AUTHENTICATED = "authenticated-as"
"""The header in which the front says who a client is, if not the administrator; clients cannot set it."""


def user_of(request: Request) -> UserInfo:
    account = request.header(AUTHENTICATED)
    if account:
        return UserInfo(account, access.known_groups(account))
    name = request.header("impersonate-user")
    if not name:
        return ADMIN
    groups = tuple(value for key, value in request.headers if key == "impersonate-group")
    return UserInfo(name, (*groups, *access.known_groups(name)))


def authorize(backend: Backend, request: Request, call: RequestInfo | None) -> None:
    user = user_of(request)
    if user.is_master:
        return
    if request.header(AUTHENTICATED) and request.header("impersonate-user"):
        raise _forbidden(
            user,
            AuthorizerAttributes(
                verb="impersonate", resource="users", name=request.header("impersonate-user")
            ),
        )
    if call is None:
        if request.path == "/" or request.path.startswith(_OPEN_PAGES):
            return
        asked = AuthorizerAttributes(verb=request.method.lower(), path=request.path)
    elif call.resource.plural in _ANYONE:
        return
    else:
        asked = AuthorizerAttributes(
            verb=call.verb,
            group=call.resource.group,
            resource=call.resource.plural,
            subresource=call.subresource,
            name=call.name,
            namespace=call.namespace,
        )
    if not access.allows(backend.store, user, asked):
        raise _forbidden(user, asked)


def _forbidden(user: UserInfo, asked: AuthorizerAttributes) -> errors.APIStatusError:
    if asked.path:
        why = f'User "{user.name}" cannot {asked.verb} path "{asked.path}"'
        return errors.APIStatusError(403, "Forbidden", f"forbidden: {why}", details={})
    full = f"{asked.resource}/{asked.subresource}" if asked.subresource else asked.resource
    where = f'in the namespace "{asked.namespace}"' if asked.namespace else "at the cluster scope"
    why = f'User "{user.name}" cannot {asked.verb} resource "{full}" in API group "{asked.group}" {where}'
    subject = errors.qualified(asked.resource, asked.group)
    name = f' "{asked.name}"' if asked.name else ""
    details = {"name": asked.name, "group": asked.group, "kind": asked.resource}
    return errors.APIStatusError(
        403,
        "Forbidden",
        f"{subject}{name} is forbidden: {why}",
        details={k: v for k, v in details.items() if v},
    )
