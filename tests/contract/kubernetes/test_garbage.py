"""Garbage collection: what happens to what an object owns."""

import pytest

from tests.contract.kubernetes.api import Api, Object, done, eventually
from tests.contract.kubernetes.objects import configmap, deployment, pod


def owned_by(owner: Object, **fields: object) -> Object:
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        **fields,
    }


@pytest.fixture
def family(api: Api) -> Object:
    """An owner with a child and a grandchild; the child blocks a deletion in the foreground."""
    owner = api.make("configmaps", configmap("owner"))
    child = api.make(
        "configmaps", configmap("child", ownerReferences=[owned_by(owner, blockOwnerDeletion=True)])
    )
    api.make(
        "configmaps", configmap("grandchild", ownerReferences=[owned_by(child, blockOwnerDeletion=True)])
    )
    return owner


def test_background(api: Api, family: Object) -> None:
    """The owner goes at once, the others follow."""
    done(api.delete("configmaps", family["metadata"]["name"], propagationPolicy="Background"))

    assert api.gone("configmaps", "owner")
    assert eventually(lambda: api.gone("configmaps", "child") and api.gone("configmaps", "grandchild"))


def test_background_is_the_default(api: Api, family: Object) -> None:
    """A delete that says nothing propagates in the background."""
    done(api.delete("configmaps", family["metadata"]["name"]))

    assert eventually(lambda: api.gone("configmaps", "grandchild"))


@pytest.mark.usefixtures("family")
def test_foreground(api: Api) -> None:
    """The owner stays, marked, until the others are gone."""
    done(api.patch("configmaps", "grandchild", {"metadata": {"finalizers": ["x.io/wait"]}}))

    done(api.delete("configmaps", "owner", propagationPolicy="Foreground"))

    eventually(lambda: "deletionTimestamp" in api.read("configmaps", "grandchild")["metadata"])
    assert api.read("configmaps", "owner")["metadata"]["finalizers"] == ["foregroundDeletion"]
    done(api.patch("configmaps", "grandchild", {"metadata": {"finalizers": None}}))
    assert eventually(lambda: api.gone("configmaps", "owner"))
    assert api.gone("configmaps", "child")


@pytest.mark.usefixtures("family")
def test_orphan(api: Api) -> None:
    """The owner goes, the child stays without it."""
    done(api.delete("configmaps", "owner", propagationPolicy="Orphan"))

    assert eventually(lambda: api.gone("configmaps", "owner"))
    assert "ownerReferences" not in api.read("configmaps", "child")["metadata"]
    assert not api.gone("configmaps", "grandchild")


def test_two_owners(api: Api) -> None:
    """A child lives as long as one of its owners does; the reference to the other is removed."""
    owners = [api.make("configmaps", configmap(name)) for name in ("one", "two")]
    api.make("configmaps", configmap("child", ownerReferences=[owned_by(owner) for owner in owners]))

    done(api.delete("configmaps", "one"))

    eventually(lambda: len(api.read("configmaps", "child")["metadata"]["ownerReferences"]) == 1)
    done(api.delete("configmaps", "two"))
    assert eventually(lambda: api.gone("configmaps", "child"))


def test_an_owner_that_never_was(api: Api) -> None:
    """A child of nobody is collected."""
    owner = api.make("configmaps", configmap("owner"))
    ghost = owned_by(owner, uid="11111111-1111-4111-8111-111111111111")

    api.make("configmaps", configmap("child", ownerReferences=[ghost]))

    assert eventually(lambda: api.gone("configmaps", "child"))


def test_a_replaced_owner_is_another_owner(api: Api) -> None:
    """References hold on to the uid, not to the name."""
    owner = api.make("configmaps", configmap("owner"))
    api.make("configmaps", configmap("child", ownerReferences=[owned_by(owner)]))
    done(api.delete("configmaps", "owner"))

    api.make("configmaps", configmap("owner"))

    assert eventually(lambda: api.gone("configmaps", "child"))


def test_pods_go_with_their_deployment(api: Api) -> None:
    """Three generations of workload objects go together."""
    api.make("deployments", deployment("web", 2))
    eventually(lambda: len(api.names("pods", labelSelector="app=web")) == 2)

    done(api.delete("deployments", "web"))

    assert eventually(lambda: not api.names("pods", labelSelector="app=web"))
    assert eventually(lambda: not api.names("replicasets"))


def test_orphaned_pods_are_adopted(api: Api) -> None:
    """A ReplicaSet takes in pods that match and have no owner."""
    api.make("pods", pod("stray", labels={"app": "web"}))

    api.make("deployments", deployment("other", 0))
    labels = {"app": "web"}
    body = deployment("web", 1)
    body["kind"] = "ReplicaSet"
    api.make("replicasets", body)

    owner = eventually(lambda: api.read("pods", "stray")["metadata"]["ownerReferences"][0])
    assert (owner["kind"], owner["name"], owner["controller"]) == ("ReplicaSet", "web", True)
    assert api.names("pods", labelSelector=f"app={labels['app']}") == ["stray"]


@pytest.mark.parametrize(
    ("reference", "field"),
    [
        pytest.param({"uid": ""}, "metadata.ownerReferences.uid", id="without a uid"),
        pytest.param({"kind": ""}, "metadata.ownerReferences.kind", id="without a kind"),
        pytest.param({"name": ""}, "metadata.ownerReferences.name", id="without a name"),
        pytest.param({"apiVersion": ""}, "metadata.ownerReferences.apiVersion", id="without a version"),
    ],
)
def test_references_are_whole(api: Api, reference: Object, field: str) -> None:
    """An owner reference says all of what it refers to."""
    owner = api.make("configmaps", configmap("owner"))

    answer = api.create("configmaps", configmap("child", ownerReferences=[owned_by(owner, **reference)]))

    assert answer.status == 422
    assert field in [where for where, _, _ in answer.causes]


def test_one_controller_only(api: Api) -> None:
    """An object is controlled by one owner."""
    owners = [api.make("configmaps", configmap(name)) for name in ("one", "two")]
    references = [owned_by(owner, controller=True) for owner in owners]

    answer = api.create("configmaps", configmap("child", ownerReferences=references))

    assert answer.status == 422
    assert answer.causes[0][0] == "metadata.ownerReferences"
