"""Who may do what: roles, bindings, and asking on behalf of others."""

from typing import Any

import pytest

from tests.contract.kubernetes.api import Api, Object, done, eventually
from tests.contract.kubernetes.objects import configmap
from tests.contract.kubernetes.wire import Answer

RBAC = "rbac.authorization.k8s.io"


def as_bob(api: Api, method: str, path: str, body: object = None, **query: Any) -> Answer:
    """Send a request on behalf of a user without any rights of his own."""
    return api.send(method, path, body, headers={"Impersonate-User": f"bob-{api.unique}"}, **query)


def let_bob(api: Api, *rules: Object) -> None:
    """Give him rights in the test's namespace."""
    api.make("roles", {"metadata": {"name": "r"}, "rules": list(rules)})
    subject = {"kind": "User", "name": f"bob-{api.unique}", "apiGroup": RBAC}
    role = {"kind": "Role", "name": "r", "apiGroup": RBAC}
    api.make("rolebindings", {"metadata": {"name": "b"}, "subjects": [subject], "roleRef": role})


def rule(verbs: str, resources: str, **fields: Any) -> Object:
    """Return a rule for the core group."""
    return {"apiGroups": [""], "verbs": verbs.split(), "resources": resources.split(), **fields}


REFUSED = [
    ("GET", "secrets", 'secrets is forbidden: User "{}" cannot list resource "secrets" in API group ""'),
    ("GET", "secrets/a", 'secrets "a" is forbidden: User "{}" cannot get resource "secrets" in API group ""'),
    ("DELETE", "pods/a", 'pods "a" is forbidden: User "{}" cannot delete resource "pods" in API group ""'),
    (
        "GET",
        "pods/a/status",
        'pods "a" is forbidden: User "{}" cannot get resource "pods/status" in API group ""',
    ),
]


@pytest.mark.parametrize(
    ("method", "path", "message"), REFUSED, ids=[f"{each[0]} {each[1]}" for each in REFUSED]
)
def test_refusals(api: Api, method: str, path: str, message: str) -> None:
    """A refusal names the user, the verb, the resource and where."""
    answer = as_bob(api, method, f"/api/v1/namespaces/{api.namespace}/{path}")

    assert (answer.status, answer.reason) == (403, "Forbidden")
    expected = message.format(f"bob-{api.unique}")
    assert answer.message == f'{expected} in the namespace "{api.namespace}"'


def test_a_refusal_at_the_scope_of_the_cluster(api: Api) -> None:
    """Outside namespaces the refusal says so."""
    answer = as_bob(api, "GET", api.path("nodes"))

    assert answer.message == (
        f'nodes is forbidden: User "bob-{api.unique}" cannot list resource "nodes" in API group ""'
        " at the cluster scope"
    )


def test_a_role_allows_what_it_says(api: Api) -> None:
    """A role binding gives rights in its namespace and no other."""
    api.make("configmaps", configmap("a"))
    let_bob(api, rule("get list", "configmaps"))

    assert eventually(lambda: as_bob(api, "GET", api.path("configmaps", "a")).status == 200)
    assert as_bob(api, "DELETE", api.path("configmaps", "a")).status == 403
    assert as_bob(api, "GET", api.path("configmaps", namespace="default")).status == 403


def test_a_role_may_name_objects(api: Api) -> None:
    """A rule may be about some objects only."""
    for name in "ab":
        api.make("configmaps", configmap(name))
    let_bob(api, rule("get", "configmaps", resourceNames=["a"]))

    assert eventually(lambda: as_bob(api, "GET", api.path("configmaps", "a")).status == 200)
    assert as_bob(api, "GET", api.path("configmaps", "b")).status == 403


def test_a_cluster_role_is_for_all_namespaces(api: Api) -> None:
    """A cluster role binding gives rights everywhere."""
    body = {"metadata": {"name": api.unique}, "rules": [rule("list", "nodes")]}
    api.make("clusterroles", body)
    subject = {"kind": "User", "name": f"bob-{api.unique}", "apiGroup": RBAC}
    role = {"kind": "ClusterRole", "name": api.unique, "apiGroup": RBAC}
    api.make(
        "clusterrolebindings", {"metadata": {"name": api.unique}, "subjects": [subject], "roleRef": role}
    )

    assert eventually(lambda: as_bob(api, "GET", api.path("nodes")).status == 200)


@pytest.mark.parametrize(("verb", "allowed"), [("get", True), ("delete", False)])
def test_asking_about_somebody(api: Api, verb: str, allowed: bool) -> None:
    """A review says what a user may do without doing it."""
    let_bob(api, rule("get", "configmaps"))
    attributes = {"namespace": api.namespace, "verb": verb, "resource": "configmaps"}
    spec = {"user": f"bob-{api.unique}", "resourceAttributes": attributes}
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}

    def answered() -> bool:
        found = done(api.send("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body))
        return bool(found["status"]["allowed"] is allowed)

    assert eventually(answered)
