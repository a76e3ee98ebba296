"""Bad input: the same status code and reason for everything that a client can get wrong."""

import pytest

from tests.contract.kubernetes.api import Api, Object
from tests.contract.kubernetes.objects import configmap, deployment, pod

YAML = "application/yaml"


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"{", id="an open brace"),
        pytest.param(b"", id="nothing"),
        pytest.param(b"a: b", id="yaml that is called json"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b'"x"', id="a string"),
        pytest.param(b'{"metadata":{"name":"a"}} x', id="something after the end"),
        pytest.param(b"\xff\xfe", id="not utf-8"),
        pytest.param(b'{"metadata":{"name":1}}', id="a number for a name"),
        pytest.param(b'{"metadata":[]}', id="a list for metadata"),
        pytest.param(b'{"metadata":{"name":"a","labels":{"x":1}}}', id="a number for a label"),
        pytest.param(b'{"metadata":{"name":"a","labels":["x"]}}', id="a list for labels"),
        pytest.param(b'{"metadata":{"name":"a"},"data":{"x":true}}', id="a boolean for a string"),
        pytest.param(b'{"metadata":{"name":"a"},"data":"x"}', id="a string for a map"),
        pytest.param(b'{"metadata":{"name":"a"},"immutable":"yes"}', id="a string for a boolean"),
        pytest.param(b'{"metadata":{"name":"a","creationTimestamp":"yesterday"}}', id="a word for a time"),
    ],
)
def test_bodies_that_cannot_be_read(api: Api, body: bytes) -> None:
    """A body that is no object of the kind is a bad request."""
    answer = api.create("configmaps", body)

    assert (answer.status, answer.reason) == (400, "BadRequest")


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"replicas": "3"}, id="a string for a number"),
        pytest.param({"replicas": 1.5}, id="a fraction for a whole number"),
        pytest.param({"replicas": 3000000000}, id="a number that is too large"),
        pytest.param({"paused": 1}, id="a number for a boolean"),
        pytest.param({"template": []}, id="a list for an object"),
        pytest.param(
            {"strategy": {"rollingUpdate": {"maxSurge": True}}}, id="a boolean for a number or string"
        ),
    ],
)
def test_wrong_types_deeper_down(api: Api, spec: Object) -> None:
    """Types are checked all the way down."""
    answer = api.create("deployments", deployment("a", spec=spec))

    assert (answer.status, answer.reason) == (400, "BadRequest")


def test_a_quantity_that_cannot_be_read(api: Api) -> None:
    """A quantity has a grammar, and the refusal quotes it."""
    answer = api.create("pods", pod("a", requests={"cpu": "lots"}))

    assert (answer.status, answer.reason) == (400, "BadRequest")
    assert "quantities must match the regular expression" in answer.message


def test_yaml_is_read(api: Api) -> None:
    """A body may be yaml when it says so."""
    answer = api.send(
        "POST", api.path("configmaps"), b"metadata: {name: a}\ndata: {x: one}", headers={"Content-Type": YAML}
    )

    assert (answer.status, answer.json["data"]) == (201, {"x": "one"})


def test_yaml_that_cannot_be_read(api: Api) -> None:
    """Broken yaml is a bad request."""
    answer = api.send("POST", api.path("configmaps"), b"a: b: c", headers={"Content-Type": YAML})

    assert (answer.status, answer.reason) == (400, "BadRequest")


def test_yaml_is_written(api: Api) -> None:
    """A client may ask for yaml."""
    api.make("configmaps", configmap("a", {"x": "1"}))

    answer = api.send("GET", api.path("configmaps", "a"), headers={"Accept": YAML})

    assert answer.headers["content-type"] == YAML
    assert b'data:\n  x: "1"\n' in answer.body


def test_a_body_of_an_unknown_type(api: Api) -> None:
    """A body that is neither json nor yaml is not looked at."""
    answer = api.send("POST", api.path("configmaps"), b"x", headers={"Content-Type": "text/plain"})

    assert (answer.status, answer.reason) == (415, "UnsupportedMediaType")


def test_an_answer_of_an_unknown_type(api: Api) -> None:
    """What the client accepts must be something that the server can write."""
    answer = api.send("GET", api.path("configmaps"), headers={"Accept": "text/html"})

    assert (answer.status, answer.reason) == (406, "NotAcceptable")


def test_a_client_that_accepts_anything(api: Api) -> None:
    """Everything is json unless asked otherwise."""
    answer = api.send("GET", api.path("configmaps"), headers={"Accept": "*/*"})

    assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("size", "status", "reason"),
    [
        pytest.param(3 * 1024 * 1024, 413, "RequestEntityTooLarge", id="more than a request may hold"),
        pytest.param(1024 * 1024 + 1, 422, "Invalid", id="more than a ConfigMap may hold"),
    ],
)
def test_bodies_that_are_too_large(api: Api, size: int, status: int, reason: str) -> None:
    """There is a limit to a request, and one to a ConfigMap."""
    answer = api.create("configmaps", configmap("a", {"x": "v" * size}))

    assert (answer.status, answer.reason) == (status, reason)


def test_the_connection_survives_a_body_that_is_too_large(api: Api) -> None:
    """After a refusal the next request is answered."""
    api.create("configmaps", configmap("a", {"x": "v" * 4 * 1024 * 1024}))

    assert api.create("configmaps", configmap("a")).status == 201


@pytest.mark.parametrize(
    "header", ["Bearer wrong", "Basic YTpi", ""], ids=["a wrong token", "a password", "nothing"]
)
def test_strangers(api: Api, header: str) -> None:
    """Without the right token, nothing is said but that."""
    answer = api.send("GET", api.path("pods"), headers={"Authorization": header})

    assert answer.status == 401
    assert answer.json == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "Unauthorized",
        "reason": "Unauthorized",
        "code": 401,
    }


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "configmaps/a"),
        ("PUT", "configmaps"),
        ("PATCH", "configmaps"),
        ("DELETE", ""),
        ("PUT", "pods/a/binding"),
        ("GET", "pods/a/eviction"),
        ("POST", "pods/a/status"),
    ],
)
def test_methods_that_do_not_fit(api: Api, method: str, path: str) -> None:
    """An address takes the methods that make sense on it."""
    place = f"/api/v1/namespaces/{api.namespace}/{path}" if path else "/api/v1/configmaps"

    answer = api.send(method, place, {} if method != "DELETE" else None)

    assert (answer.status, answer.reason) == (405, "MethodNotAllowed")
    assert answer.message == "the server does not allow this method on the requested resource"


def test_a_subresource_that_is_not_there(api: Api) -> None:
    """An unknown subresource is not found."""
    answer = api.send("GET", api.path("pods", "a", sub="nothing"))

    assert (answer.status, answer.message) == (404, "the server could not find the requested resource")
