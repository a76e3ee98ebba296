"""A client in one function, for tests that look at the server's answers as they are."""

from typing import Any

import msgspec

from karpenter.kube.transport import Request, Response, Streaming
from karpenter_local.apiserver.server import Server

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"

PODS = "/api/v1/namespaces/default/pods"
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


class Answer:
    """What came back: a status, an object, and warnings."""

    def __init__(self, response: Response) -> None:
        self.status = response.status
        self.raw = response.body
        self.headers = response.headers
        self.warnings = [value for key, value in response.headers if key == "warning"]

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.raw)

    @property
    def reason(self) -> str:
        return str(self.json.get("reason", ""))

    @property
    def message(self) -> str:
        return str(self.json.get("message", ""))


def request(
    method: str,
    path: str,
    body: Any = None,
    *,
    kind: str = "application/json",
    headers: Any = (),
    **query: Any,
) -> Request:
    """Return a request; a body that is not bytes is sent as JSON."""
    raw = b"" if body is None else body if isinstance(body, bytes) else msgspec.json.encode(body)
    return Request(
        method=method,
        path=path,
        query=tuple((key, str(value)) for key, value in query.items()),
        headers=(
            ("content-type", kind),
            ("accept", "application/json"),
            ("user-agent", "tester/1"),
            *headers,
        ),
        body=raw,
    )


async def ask(server: Server, method: str, path: str, body: Any = None, **options: Any) -> Answer:
    answer = await server.handle(request(method, path, body, **options))
    assert isinstance(answer, Response)
    return Answer(answer)


async def watch(server: Server, path: str, **query: Any) -> Streaming:
    answer = await server.handle(request("GET", path, watch="true", **query))
    assert isinstance(answer, Streaming)
    return answer


async def take(stream: Streaming, count: int) -> list[tuple[str, str]]:
    """Return the next events as type and name."""
    events = [msgspec.json.decode(await anext(stream.lines)) for _ in range(count)]
    return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]


def configmap(name: str, data: dict[str, str] | None = None, **meta: Any) -> dict[str, Any]:
    return {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {"name": name, **meta},
        "data": data or {"a": "b"},
    }


def pod(name: str, *, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    meta: dict[str, Any] = {"name": name}
    if labels:
        meta["labels"] = labels
    containers = [{"name": "main", "image": "app:1"}]
    return {"kind": "Pod", "apiVersion": "v1", "metadata": meta, "spec": {"containers": containers, **spec}}


def deployment(name: str, replicas: int = 1) -> dict[str, Any]:
    """Return a deployment of an app named like itself."""
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "app:1"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": name}, "spec": spec}


def definition(
    *, group: str = "example.com", schema: dict[str, Any] | None = None, **version: Any
) -> dict[str, Any]:
    """Return the definition of a kind called Thing."""
    given = schema or {"type": "object", "properties": {"spec": {"type": "object", "properties": {}}}}
    shown = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": given}, **version}
    return {
        "kind": "CustomResourceDefinition",
        "apiVersion": "apiextensions.k8s.io/v1",
        "metadata": {"name": f"things.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [shown],
        },
    }


DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = "/apis/example.com/v1/namespaces/default/things"


def thing(name: str, **spec: Any) -> dict[str, Any]:
    """Return an object of the custom kind."""
    return {"kind": "Thing", "apiVersion": "example.com/v1", "metadata": {"name": name}, "spec": spec}
