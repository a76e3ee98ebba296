"""
A client of Kubernetes that is thin enough to see through: resources by name, objects as dictionaries.

Each test has one, bound to a namespace of its own. ``make`` and its like are for getting there and fail
loudly; ``create`` and its like return whatever the server answered, because that is what a test is about.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.client import HTTPResponse
from typing import Any, TypeVar

from tests.contract.kubernetes.wire import PATIENCE, Answer, Wire

Object = dict[str, Any]
T = TypeVar("T")

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"

GROUPS = {
    "/api/v1": (
        "configmaps secrets pods services persistentvolumeclaims events serviceaccounts"
        " replicationcontrollers resourcequotas limitranges podtemplates endpoints"
    ),
    "/apis/apps/v1": "deployments replicasets statefulsets daemonsets controllerrevisions",
    "/apis/batch/v1": "jobs cronjobs",
    "/apis/policy/v1": "poddisruptionbudgets",
    "/apis/coordination.k8s.io/v1": "leases",
    "/apis/discovery.k8s.io/v1": "endpointslices",
    "/apis/rbac.authorization.k8s.io/v1": "roles rolebindings",
    "/apis/resource.k8s.io/v1": "resourceclaims resourceclaimtemplates",
    "/apis/autoscaling/v2": "horizontalpodautoscalers",
    "/apis/networking.k8s.io/v1": "ingresses networkpolicies",
}
CLUSTER_GROUPS = {
    "/api/v1": "nodes namespaces persistentvolumes",
    "/apis/storage.k8s.io/v1": "storageclasses csinodes volumeattachments csidrivers",
    "/apis/scheduling.k8s.io/v1": "priorityclasses",
    "/apis/apiextensions.k8s.io/v1": "customresourcedefinitions",
    "/apis/rbac.authorization.k8s.io/v1": "clusterroles clusterrolebindings",
    "/apis/resource.k8s.io/v1": "resourceslices deviceclasses",
    "/apis/networking.k8s.io/v1": "ingressclasses",
    "/apis/admissionregistration.k8s.io/v1": (
        "mutatingwebhookconfigurations validatingwebhookconfigurations"
        " validatingadmissionpolicies validatingadmissionpolicybindings"
    ),
    "/apis/apiregistration.k8s.io/v1": "apiservices",
    "/apis/flowcontrol.apiserver.k8s.io/v1": "flowschemas prioritylevelconfigurations",
}
_NAMESPACED = {name: prefix for prefix, names in GROUPS.items() for name in names.split()}
_CLUSTER = {name: prefix for prefix, names in CLUSTER_GROUPS.items() for name in names.split()}


class Watch:
    """An open watch: its events one after the other."""

    def __init__(self, response: HTTPResponse) -> None:
        self._response = response

    @property
    def status(self) -> int:
        """The status of the answer that opened the watch."""
        return self._response.status

    def next(self) -> Object:
        """Return the next event; a watch that says nothing for a while is an error."""
        line = self._response.readline()
        assert line, "the server ended the watch"
        event: Object = json.loads(line)
        return event

    def take(self, count: int) -> list[tuple[str, str]]:
        """Return type and object name of the next `count` events."""
        return [(event["type"], event["object"]["metadata"]["name"]) for event in self.many(count)]

    def many(self, count: int) -> list[Object]:
        """Return the next `count` events."""
        return [self.next() for _ in range(count)]

    def rest(self) -> list[Object]:
        """Return every event until the server ends the watch."""
        return [json.loads(line) for line in iter(self._response.readline, b"")]


class Api:
    """What a test asks a server through; see the module."""

    def __init__(self, wire: Wire, *, namespace: str, unique: str) -> None:
        self.wire = wire
        self.namespace = namespace
        self.unique = unique
        """A word that no other test uses, for names outside the namespace."""

        self._trash: list[str] = []

    def path(self, resource: str, name: str = "", *, sub: str = "", namespace: str | None = None) -> str:
        """Return where `resource` is: a plural name such as ``pods``, or a whole path."""
        if resource in _CLUSTER:
            place = f"{_CLUSTER[resource]}/{resource}"
        elif resource in _NAMESPACED:
            place = f"{_NAMESPACED[resource]}/namespaces/{namespace or self.namespace}/{resource}"
        else:
            place = resource
        return "/".join(part for part in (place, name, sub) if part)

    def everywhere(self, resource: str) -> str:
        """Return where `resource` is listed over all namespaces."""
        return f"{_NAMESPACED[resource]}/{resource}"

    def send(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        headers: Mapping[str, str] | None = None,
        **query: Any,
    ) -> Answer:
        return self.wire.send(method, path, query=query, body=body, headers=headers)

    def create(self, resource: str, body: object, *, sub: str = "", name: str = "", **query: Any) -> Answer:
        """POST `body`."""
        answer = self.send("POST", self.path(resource, name, sub=sub), body, **query)
        if answer.status == 201 and not sub and (resource in _CLUSTER or resource.startswith("/")):
            self._trash.append(self.path(resource, answer.json["metadata"]["name"]))
        return answer

    def get(self, resource: str, name: str, *, sub: str = "", **query: Any) -> Answer:
        return self.send("GET", self.path(resource, name, sub=sub), **query)

    def find(self, resource: str, **query: Any) -> Answer:
        return self.send("GET", self.path(resource), **query)

    def replace(self, resource: str, body: Object, *, sub: str = "", **query: Any) -> Answer:
        """PUT `body` where its name says."""
        return self.send("PUT", self.path(resource, body["metadata"]["name"], sub=sub), body, **query)

    def patch(
        self, resource: str, name: str, body: object, *, kind: str = MERGE, sub: str = "", **query: Any
    ) -> Answer:
        """PATCH in one of the four ways."""
        return self.send(
            "PATCH", self.path(resource, name, sub=sub), body, headers={"Content-Type": kind}, **query
        )

    def apply(
        self, resource: str, body: Object, *, manager: str = "tester", sub: str = "", **query: Any
    ) -> Answer:
        """Apply `body` on the server's side as `manager`."""
        name = body["metadata"]["name"]
        answer = self.patch(resource, name, body, kind=APPLY, sub=sub, fieldManager=manager, **query)
        if answer.status == 201 and (resource in _CLUSTER or resource.startswith("/")):
            self._trash.append(self.path(resource, name))
        return answer

    def delete(self, resource: str, name: str, body: object = None, **query: Any) -> Answer:
        """DELETE one object; `body` holds options."""
        return self.send("DELETE", self.path(resource, name), body, **query)

    def delete_all(self, resource: str, body: object = None, **query: Any) -> Answer:
        return self.send("DELETE", self.path(resource), body, **query)

    def make(self, resource: str, body: Object, **query: Any) -> Object:
        """Create `body` and return what the server made of it."""
        return done(self.create(resource, body, **query))

    def read(self, resource: str, name: str) -> Object:
        return done(self.get(resource, name))

    def names(self, resource: str, **query: Any) -> list[str]:
        """Return the names in the collection, in the server's order."""
        return [item["metadata"]["name"] for item in done(self.find(resource, **query))["items"]]

    def gone(self, resource: str, name: str) -> bool:
        return self.get(resource, name).status == 404

    @contextmanager
    def watch(self, resource: str, **query: Any) -> Iterator[Watch]:
        """Open a watch on the collection, or on a whole path."""
        with self.wire.stream(self.path(resource), query={"watch": "true", **query}) as response:
            yield Watch(response)

    def clean(self) -> None:
        """Remove what was made outside the namespace."""
        for path in reversed(self._trash):
            answer = self.send("GET", path)
            if answer.status == 404:
                continue
            if answer.json["metadata"].get("finalizers"):
                self.send("PATCH", path, {"metadata": {"finalizers": None}}, headers={"Content-Type": MERGE})
            self.send("DELETE", path)


def done(answer: Answer) -> Object:
    """Return the object in an answer that must be a success."""
    assert answer.status in {200, 201}, f"{answer.status}: {answer.body[:600]!r}"
    found: Object = answer.json
    return found


def eventually(
    probe: Callable[[], T | None], *, within: float = PATIENCE, meanwhile: Callable[[], object] | None = None
) -> T:
    """Return the first true value of `probe`; controllers and schedulers take their time.

    Before each look, `meanwhile` plays the part of somebody whom they wait for.
    """
    deadline = time.monotonic() + within
    pause = 0.005
    while True:
        last: object = None
        if meanwhile is not None:
            meanwhile()
        with suppress(KeyError, IndexError, StopIteration):
            found = probe()
            if found:
                return found
            last = found
        assert time.monotonic() < deadline, f"still {last!r} after {within:g} s"
        time.sleep(pause)
        pause = min(pause * 1.5, 0.1)
