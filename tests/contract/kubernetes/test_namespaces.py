"""Namespaces: what is in them from the start, and how they go."""

import pytest

from tests.contract.kubernetes.api import STRATEGIC, Api, done, eventually
from tests.contract.kubernetes.objects import configmap, deployment


def test_a_new_namespace(api: Api) -> None:
    """A namespace is active, carries its name as a label and has a finalizer of its own."""
    found = api.read("namespaces", api.namespace)

    assert found["status"]["phase"] == "Active"
    assert found["metadata"]["labels"] == {"kubernetes.io/metadata.name": api.namespace}
    assert found["spec"]["finalizers"] == ["kubernetes"]


def test_a_namespace_gets_its_account(api: Api) -> None:
    """A controller makes the default service account."""
    assert eventually(lambda: "default" in api.names("serviceaccounts"))


def test_a_namespace_goes_with_everything_in_it(api: Api) -> None:
    """Deleting a namespace empties it first."""
    name = api.make("namespaces", {"metadata": {"name": f"{api.unique}-b"}})["metadata"]["name"]
    done(api.send("POST", api.path("configmaps", namespace=name), configmap("a")))
    done(api.send("POST", api.path("deployments", namespace=name), deployment("web", 1)))

    answer = api.delete("namespaces", name)

    assert answer.json["status"]["phase"] == "Terminating"
    assert eventually(lambda: api.gone("namespaces", name))
    assert done(api.send("GET", api.path("configmaps", namespace=name)))["items"] == []


def test_a_terminating_namespace_takes_nothing_new(api: Api) -> None:
    """What is on its way out cannot grow."""
    name = api.make("namespaces", {"metadata": {"name": f"{api.unique}-b"}})["metadata"]["name"]
    held = api.path("configmaps", namespace=name)
    done(api.send("POST", held, configmap("held", finalizers=["x.io/wait"])))
    done(api.delete("namespaces", name))

    answer = api.send("POST", held, configmap("late"))

    assert (answer.status, answer.reason) == (403, "Forbidden")
    assert answer.message == (
        f'configmaps "late" is forbidden: unable to create new content in namespace {name}'
        " because it is being terminated"
    )
    assert ("metadata.namespace", "NamespaceTerminating") in [
        (field, reason) for field, reason, _ in answer.causes
    ]
    conditions = eventually(lambda: api.read("namespaces", name)["status"].get("conditions"))
    assert "NamespaceDeletionDiscoveryFailure" in [each["type"] for each in conditions]
    done(
        api.send(
            "PATCH", f"{held}/held", {"metadata": {"finalizers": None}}, headers={"Content-Type": STRATEGIC}
        )
    )
    assert eventually(lambda: api.gone("namespaces", name))


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public", "kube-node-lease"])
def test_namespaces_that_come_with_the_cluster(api: Api, name: str) -> None:
    """Four namespaces are there from the start."""
    assert api.read("namespaces", name)["status"]["phase"] == "Active"


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
def test_namespaces_that_cannot_go(api: Api, name: str) -> None:
    """Some of them cannot be deleted."""
    answer = api.delete("namespaces", name)

    assert (answer.status, answer.reason) == (403, "Forbidden")
    assert answer.message == f'namespaces "{name}" is forbidden: this namespace may not be deleted'


def test_names_of_namespaces_are_labels(api: Api) -> None:
    """A namespace's name has no dots and at most 63 characters."""
    answers = [api.create("namespaces", {"metadata": {"name": name}}).status for name in ("a.b", "x" * 64)]

    assert answers == [422, 422]
