"""
Role-based access control, read from the roles and bindings in the store.

The only user of an embedded cluster belongs to ``system:masters`` and may do everything. Other users exist
only by name: a client may impersonate them, or create a SubjectAccessReview for them, which is how the
roles of a chart are tested. See https://kubernetes.io/docs/reference/access-authn-authz/rbac/
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karpenter_local.apiserver.store import ObjectStore

# The group that may do everything, before RBAC is asked:
# https://kubernetes.io/docs/reference/access-authn-authz/rbac/#user-facing-roles
MASTERS = "system:masters"
_RBAC = "rbac.authorization.k8s.io"
# https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/
_ACCOUNT = "system:serviceaccount:"


class UserInfo(msgspec.Struct, frozen=True):
    """A name and the groups that it belongs to."""

    name: str
    groups: tuple[str, ...] = ()

    @property
    def is_master(self) -> bool:
        """Whether no rule applies to this user."""
        return MASTERS in self.groups


ADMIN = UserInfo("kubernetes-admin", (MASTERS, "system:authenticated"))


class AuthorizerAttributes(msgspec.Struct, frozen=True, kw_only=True):
    """The attributes of a request that a rule is checked against."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""
    namespace: str = ""
    path: str = ""
    """Of a page that is no resource; the other fields are then empty."""


def known_groups(name: str) -> tuple[str, ...]:
    """Return the groups that a user belongs to by name alone."""
    if name.startswith(_ACCOUNT):
        namespace = name.removeprefix(_ACCOUNT).partition(":")[0]
        return "system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"
    return ("system:authenticated",)


def allows(store: ObjectStore, user: UserInfo, question: AuthorizerAttributes) -> str:
    """Return why `user` may, or nothing when they may not."""
    if user.is_master:
        return f'the user belongs to "{MASTERS}"'
    for binding, rules in _granted(store, user, question.namespace):
        if any(_covers(rule, question) for rule in rules):
            return f"RBAC: allowed by {binding}"
    return ""


def rules_of(store: ObjectStore, user: UserInfo, namespace: str) -> list[dict[str, Any]]:
    if user.is_master:
        return [
            {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
            {"verbs": ["*"], "nonResourceURLs": ["*"]},
        ]
    return [rule for _, rules in _granted(store, user, namespace) for rule in rules]


def _granted(
    store: ObjectStore, user: UserInfo, namespace: str
) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    for entry in store.table(f"clusterrolebindings.{_RBAC}").entries.values():
        binding = entry.object()
        if _binds(binding, user, ""):
            name, role = binding["metadata"]["name"], binding["roleRef"]
            yield f'ClusterRoleBinding "{name}" of {role["kind"]} "{role["name"]}"', _rules(store, role, "")
    table = store.table(f"rolebindings.{_RBAC}")
    for key in table.between(namespace) if namespace else ():
        binding = table.entries[key].object()
        if _binds(binding, user, namespace):
            name, role = binding["metadata"]["name"], binding["roleRef"]
            text = f'RoleBinding "{name}/{namespace}" of {role["kind"]} "{role["name"]}"'
            yield text, _rules(store, role, namespace)


def _rules(store: ObjectStore, role: dict[str, Any], namespace: str) -> list[dict[str, Any]]:
    table, key = (
        (f"clusterroles.{_RBAC}", role["name"])
        if role["kind"] == "ClusterRole"
        else (f"roles.{_RBAC}", f"{namespace}/{role['name']}")
    )
    entry = store.get(table, key)
    rules: list[dict[str, Any]] = (entry.object().get("rules") or []) if entry is not None else []
    return rules


def _binds(binding: dict[str, Any], user: UserInfo, namespace: str) -> bool:
    for subject in binding.get("subjects") or ():
        match subject["kind"]:
            case "User" if subject["name"] == user.name:
                return True
            case "Group" if subject["name"] in user.groups:
                return True
            case "ServiceAccount":
                home = subject.get("namespace") or namespace
                if user.name == f"{_ACCOUNT}{home}:{subject['name']}":
                    return True
    return False


def _covers(rule: dict[str, Any], asked: AuthorizerAttributes) -> bool:
    verbs = rule.get("verbs") or ()
    if asked.verb not in verbs and "*" not in verbs:
        return False
    if asked.path:
        return any(
            url in ("*", asked.path) or (url.endswith("*") and asked.path.startswith(url[:-1]))
            for url in rule.get("nonResourceURLs") or ()
        )
    groups, resources = rule.get("apiGroups") or (), rule.get("resources") or ()
    full = f"{asked.resource}/{asked.subresource}" if asked.subresource else asked.resource
    names = rule.get("resourceNames") or ()
    return (
        ("*" in groups or asked.group in groups)
        and (
            "*" in resources
            or full in resources
            or (bool(asked.subresource) and f"*/{asked.subresource}" in resources)
        )
        and (not names or asked.name in names)
    )
