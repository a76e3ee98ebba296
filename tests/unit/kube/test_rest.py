"""Requests are values: method, path, query, headers and body are all there is to them."""

import json
from typing import Any

import pytest

from karpenter.api.node import Node
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.pod import Pod
from karpenter.kube import rest
from karpenter.kube.patches import Apply, MergePatch
from karpenter.kube.rest import Preconditions, Selection
from karpenter.kube.targets import target_of, untyped
from karpenter.kube.transport import Request

PODS = target_of(Pod)
NODES = target_of(Node)
CLAIMS = target_of(NodeClaim)


@pytest.mark.parametrize(
    ("request_", "method", "address"),
    [
        pytest.param(
            rest.get(PODS, "web-0", namespace="shop"),
            "GET",
            "/api/v1/namespaces/shop/pods/web-0",
            id="one pod",
        ),
        pytest.param(rest.get(NODES, "n1"), "GET", "/api/v1/nodes/n1", id="one node"),
        pytest.param(
            rest.get(CLAIMS, "c1", subresource="status"),
            "GET",
            "/apis/karpenter.sh/v1/nodeclaims/c1/status",
            id="a subresource of a custom resource",
        ),
        pytest.param(rest.get(NODES, "a/b c"), "GET", "/api/v1/nodes/a%2Fb%20c", id="odd names are quoted"),
        pytest.param(rest.list_page(PODS), "GET", "/api/v1/pods", id="all pods"),
        pytest.param(
            rest.list_page(PODS, Selection(namespace="shop", labels="a=b", fields="spec.nodeName="), limit=5),
            "GET",
            "/api/v1/namespaces/shop/pods?labelSelector=a=b&fieldSelector=spec.nodeName=&limit=5",
            id="some pods",
        ),
        pytest.param(
            rest.list_page(PODS, limit=5, after="token"),
            "GET",
            "/api/v1/pods?limit=5&continue=token",
            id="the next page",
        ),
        pytest.param(
            rest.watch(PODS, Selection(labels="a=b"), since="7", seconds=300),
            "GET",
            "/api/v1/pods?labelSelector=a=b&watch=true&allowWatchBookmarks=true&resourceVersion=7&timeoutSeconds=300",
            id="a watch with bookmarks",
        ),
        pytest.param(
            rest.create(PODS, {}, namespace="shop", manager="me"),
            "POST",
            "/api/v1/namespaces/shop/pods?fieldManager=me",
            id="a new pod",
        ),
        pytest.param(
            rest.create(NODES, {}, manager="me", dry_run=True),
            "POST",
            "/api/v1/nodes?fieldManager=me&dryRun=All",
            id="a node that is only tried",
        ),
        pytest.param(
            rest.replace(NODES, {}, name="n1", manager="me"),
            "PUT",
            "/api/v1/nodes/n1?fieldManager=me",
            id="a whole node",
        ),
        pytest.param(
            rest.patch(CLAIMS, "c1", MergePatch({}), subresource="status", manager="me"),
            "PATCH",
            "/apis/karpenter.sh/v1/nodeclaims/c1/status?fieldManager=me",
            id="part of a status",
        ),
        pytest.param(
            rest.patch(CLAIMS, "c1", Apply({}), manager="me"),
            "PATCH",
            "/apis/karpenter.sh/v1/nodeclaims/c1?fieldManager=me&force=true",
            id="applying by force",
        ),
        pytest.param(
            rest.patch(CLAIMS, "c1", Apply({}, force=False), manager="me"),
            "PATCH",
            "/apis/karpenter.sh/v1/nodeclaims/c1?fieldManager=me&force=false",
            id="applying with conflicts",
        ),
        pytest.param(rest.delete(NODES, "n1"), "DELETE", "/api/v1/nodes/n1", id="deleting"),
        pytest.param(
            rest.delete(NODES, "n1", dry_run=True),
            "DELETE",
            "/api/v1/nodes/n1?dryRun=All",
            id="trying to delete",
        ),
        pytest.param(
            rest.evict("web-0", namespace="shop"),
            "POST",
            "/api/v1/namespaces/shop/pods/web-0/eviction",
            id="evicting",
        ),
        pytest.param(
            rest.bind("web-0", namespace="shop", node="n1"),
            "POST",
            "/api/v1/namespaces/shop/pods/web-0/binding",
            id="binding",
        ),
    ],
)
def test_address(request_: Request, method: str, address: str) -> None:
    """Every verb has its method, its path and its query."""
    query = "&".join(f"{key}={value}" for key, value in request_.query)

    assert (request_.method, request_.path + (f"?{query}" if query else "")) == (method, address)


@pytest.mark.parametrize(
    ("request_", "body"),
    [
        pytest.param(
            rest.create(NODES, {"metadata": {"name": "n1"}}, manager="me"),
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}},
            id="an object says its kind",
        ),
        pytest.param(
            rest.delete(NODES, "n1"),
            {"apiVersion": "v1", "kind": "DeleteOptions"},
            id="a delete without conditions",
        ),
        pytest.param(
            rest.delete(
                NODES, "n1", only_if=Preconditions(uid="u", version="7"), propagation="Foreground", grace=0
            ),
            {
                "apiVersion": "v1",
                "kind": "DeleteOptions",
                "preconditions": {"uid": "u", "resourceVersion": "7"},
                "propagationPolicy": "Foreground",
                "gracePeriodSeconds": 0,
            },
            id="a delete with all of them",
        ),
        pytest.param(
            rest.evict("web-0", namespace="shop"),
            {
                "apiVersion": "policy/v1",
                "kind": "Eviction",
                "metadata": {"name": "web-0", "namespace": "shop"},
            },
            id="an eviction",
        ),
        pytest.param(
            rest.evict("web-0", namespace="shop", only_if=Preconditions(uid="u"), grace=30),
            {
                "apiVersion": "policy/v1",
                "kind": "Eviction",
                "metadata": {"name": "web-0", "namespace": "shop"},
                "deleteOptions": {"preconditions": {"uid": "u"}, "gracePeriodSeconds": 30},
            },
            id="an eviction of that very pod",
        ),
        pytest.param(
            rest.bind("web-0", namespace="shop", node="n1", uid="u"),
            {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": "web-0", "namespace": "shop", "uid": "u"},
                "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
            },
            id="a binding",
        ),
    ],
)
def test_body(request_: Request, body: dict[str, Any]) -> None:
    """Bodies hold what was asked for and nothing else."""
    assert json.loads(request_.body) == body


def test_every_body_says_what_it_is() -> None:
    """Servers tell patches apart by their content type alone."""
    applied = rest.patch(NODES, "n1", Apply({}), manager="me")

    assert applied.header("content-type") == "application/apply-patch+yaml"
    assert rest.delete(NODES, "n1").header("content-type") == "application/json"
    assert rest.get(NODES, "n1").header("accept") == "application/json"


def test_an_object_of_a_namespace_needs_one() -> None:
    """Asking for one pod of all namespaces is a mistake, found before it is sent."""
    with pytest.raises(ValueError, match="Pod web-0 needs a namespace"):
        rest.get(PODS, "web-0")


def test_a_cluster_object_ignores_a_namespace() -> None:
    """An untyped kind of the whole cluster has no namespace in its path."""
    zones = untyped("example.com/v1", "zones", kind="Zone", namespaced=False)

    assert rest.get(zones, "a", namespace="shop").path == "/apis/example.com/v1/zones/a"
