"""The roles that grant the operator its permissions, and administrators theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from karpenter.delivery import permissions
from karpenter.delivery.objects.naming import metadata
from karpenter.delivery.tree import Fact, Items, When

if TYPE_CHECKING:
    from karpenter.delivery.tree import Tree

_GROUP: Final = "rbac.authorization.k8s.io"
_API: Final = f"{_GROUP}/v1"


def roles() -> list[Tree]:
    """Return what is granted, and to whom."""
    cluster: list[Tree] = [each.rule() for each in permissions.CLUSTER]
    return [
        _role("ClusterRole", metadata(namespaced=False), [*cluster, Items("additionalClusterRoleRules")]),
        _binding("ClusterRole", metadata(namespaced=False)),
        _role("Role", metadata(), [each.rule() for each in permissions.OWN_NAMESPACE]),
        _binding("Role", metadata()),
        When(permissions.ON_AWS, _role("Role", _system(), [each.rule() for each in permissions.SYSTEM])),
        When(permissions.ON_AWS, _binding("Role", _system())),
        _role(
            "ClusterRole",
            metadata("-admin", namespaced=False, fixed={f"{_GROUP}/aggregate-to-admin": "true"}),
            [each.rule() for each in permissions.ADMINISTRATION],
        ),
    ]


def _system() -> dict[str, Any]:
    return {**metadata("-dns"), "namespace": permissions.SYSTEM_NAMESPACE}


def _role(kind: str, meta: dict[str, Any], rules: list[Tree]) -> Tree:
    return {"apiVersion": _API, "kind": kind, "metadata": meta, "rules": rules}


def _binding(kind: str, meta: dict[str, Any]) -> Tree:
    return {
        "apiVersion": _API,
        "kind": f"{kind}Binding",
        "metadata": meta,
        "roleRef": {"apiGroup": _GROUP, "kind": kind, "name": meta["name"]},
        "subjects": [
            {"kind": "ServiceAccount", "name": Fact("account"), "namespace": Fact("namespace")},
        ],
    }
