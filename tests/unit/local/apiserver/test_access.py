from typing import Any

import pytest

from karpenter_local.apiserver.access import ADMIN, AuthorizerAttributes, UserInfo, allows, known_groups
from karpenter_local.apiserver.server import Server
from tests.unit.local.apiserver.asking import CONFIGMAPS, PODS, ask

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ACCOUNT = "system:serviceaccount:default:robot"


async def ruled(*rules: dict[str, Any], namespaced: bool = False) -> Server:
    """Return a server where the account `robot` has a role with some rules."""
    server = Server(seed=1)
    subject = [{"kind": "ServiceAccount", "name": "robot", "namespace": "default"}]
    place = f"{RBAC}/namespaces/default/" if namespaced else f"{RBAC}/cluster"
    kind = "Role" if namespaced else "ClusterRole"
    body = {"metadata": {"name": "r"}, "rules": list(rules)}
    assert (await ask(server, "POST", f"{place}roles", body)).status == 201
    body = {"metadata": {"name": "b"}, "roleRef": {"kind": kind, "name": "r"}, "subjects": subject}
    assert (await ask(server, "POST", f"{place}rolebindings", body)).status == 201
    return server


READ = {"apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": ["get", "list"]}


@pytest.mark.parametrize(
    ("rule", "question", "expected"),
    [
        pytest.param(READ, AuthorizerAttributes(verb="get", resource="pods"), True, id="what the rule says"),
        pytest.param(READ, AuthorizerAttributes(verb="delete", resource="pods"), False, id="another verb"),
        pytest.param(
            READ, AuthorizerAttributes(verb="get", resource="pods", group="x"), False, id="another group"
        ),
        pytest.param(
            READ,
            AuthorizerAttributes(verb="get", resource="pods", subresource="log"),
            True,
            id="a subresource",
        ),
        pytest.param(
            READ,
            AuthorizerAttributes(verb="get", resource="pods", subresource="exec"),
            False,
            id="not that one",
        ),
        pytest.param(
            {**READ, "resourceNames": ["a"]},
            AuthorizerAttributes(verb="get", resource="pods", name="b"),
            False,
            id="a name",
        ),
        pytest.param(
            {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
            AuthorizerAttributes(verb="watch", group="x", resource="y", subresource="z"),
            True,
            id="stars cover everything",
        ),
        pytest.param(
            {"nonResourceURLs": ["/metrics/*"], "verbs": ["get"]},
            AuthorizerAttributes(verb="get", path="/metrics/a"),
            True,
            id="a page by its beginning",
        ),
    ],
)
async def test_rules(rule: dict[str, Any], question: AuthorizerAttributes, expected: bool) -> None:
    """A rule covers what all of its parts cover."""
    server = await ruled(rule)

    assert bool(allows(server.store, UserInfo(ACCOUNT, known_groups(ACCOUNT)), question)) is expected


async def test_a_role_counts_in_its_namespace() -> None:
    """What a namespaced role grants ends at the namespace."""
    server = await ruled(READ, namespaced=True)
    user = UserInfo(ACCOUNT)

    answers = [
        bool(allows(server.store, user, AuthorizerAttributes(verb="get", resource="pods", namespace=space)))
        for space in ("default", "other")
    ]

    assert answers == [True, False]


def test_the_administrator_may_do_everything() -> None:
    """No role is needed for the one real user."""
    assert allows(Server(seed=1).store, ADMIN, AuthorizerAttributes(verb="destroy", resource="worlds"))


async def test_who_is_impersonated_is_held_to_their_rights() -> None:
    """An administrator who acts for someone may do what that one may, and the refusal names them."""
    server = await ruled(READ)
    headers = (("impersonate-user", ACCOUNT),)

    assert (await ask(server, "GET", PODS, headers=headers)).status == 200
    refused = await ask(server, "GET", CONFIGMAPS, headers=headers)

    assert (refused.status, refused.reason) == (403, "Forbidden")
    assert refused.message == (
        f'configmaps is forbidden: User "{ACCOUNT}" cannot list resource "configmaps" in API group "" '
        'in the namespace "default"'
    )


async def test_anyone_may_ask_about_themselves() -> None:
    """Kubectl auth can-i works for those who may nothing."""
    server = await ruled(READ)
    body = {"spec": {"resourceAttributes": {"verb": "get", "resource": "secrets", "namespace": "default"}}}

    answer = await ask(
        server,
        "POST",
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        body,
        headers=(("impersonate-user", ACCOUNT),),
    )

    assert (answer.status, answer.json["status"]) == (201, {"allowed": False})
