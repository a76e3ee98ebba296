"""Tokens of service accounts: asked for, shown, reviewed."""

from tests.contract.kubernetes.api import Api, done, eventually

REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"


def token(api: Api, name: str = "bot") -> str:
    """Return a token of a new service account."""
    api.make("serviceaccounts", {"metadata": {"name": name}})
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    made = done(api.create("serviceaccounts", body, name=name, sub="token"))
    assert made["spec"]["expirationSeconds"] == 3600
    found: str = made["status"]["token"]
    return found


def test_a_service_account_has_the_rights_of_its_roles(api: Api) -> None:
    """A client with a token of a service account may do what is bound to that, and no more."""
    shown = {"Authorization": f"Bearer {token(api)}"}
    user = f"system:serviceaccount:{api.namespace}:bot"
    before = api.send("GET", api.path("pods"), headers=shown)
    api.make(
        "roles",
        {"metadata": {"name": "r"}, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]},
    )
    subject = {"kind": "ServiceAccount", "name": "bot", "namespace": api.namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}
    api.make("rolebindings", {"metadata": {"name": "b"}, "subjects": [subject], "roleRef": role})

    after = eventually(
        lambda: found if (found := api.send("GET", api.path("pods"), headers=shown)).status == 200 else None
    )

    assert (before.status, after.status) == (403, 200)
    assert before.message.startswith(f'pods is forbidden: User "{user}" cannot list resource "pods"')
    assert api.send("GET", api.path("secrets"), headers=shown).status == 403
    assert api.send("GET", api.path("pods"), headers={**shown, "Impersonate-User": "x"}).status == 403


def test_a_token_that_is_reviewed(api: Api) -> None:
    """A review says whose a token is; a text that is no token lets no client in."""
    given = token(api)

    good = api.send("POST", REVIEWS, {"spec": {"token": given}}).json["status"]
    bad = api.send("POST", REVIEWS, {"spec": {"token": given + "x"}}).json["status"]

    assert good["authenticated"] is True
    assert good["user"]["username"] == f"system:serviceaccount:{api.namespace}:bot"
    assert f"system:serviceaccounts:{api.namespace}" in good["user"]["groups"]
    assert not bad.get("authenticated")
    assert api.send("GET", api.path("pods"), headers={"Authorization": f"Bearer {given}x"}).status == 401


def test_a_token_ends_with_its_service_account(api: Api) -> None:
    """Once the account is gone, its tokens are good for nothing."""
    shown = {"Authorization": f"Bearer {token(api)}"}
    assert api.send("GET", api.path("pods"), headers=shown).status == 403

    done(api.delete("serviceaccounts", "bot"))

    assert eventually(lambda: api.send("GET", api.path("pods"), headers=shown).status == 401)


def test_a_token_for_a_moment(api: Api) -> None:
    """A token is good for ten minutes at least."""
    api.make("serviceaccounts", {"metadata": {"name": "bot"}})
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": 5},
    }

    answer = api.create("serviceaccounts", body, name="bot", sub="token")

    assert (answer.status, answer.causes[0][0]) == (422, "spec.expirationSeconds")
