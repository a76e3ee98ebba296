"""Bad input: the same status code and reason for everything that a client can get wrong."""

from typing import Any

import pytest

from tests.contract.kubernetes.api import JSON_PATCH, MERGE, STRATEGIC, Api, Object, done
from tests.contract.kubernetes.objects import configmap, container, deployment, pod

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


UNKNOWN = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "dat": {"x": "1"}}


def test_unknown_fields_are_dropped_with_a_warning(api: Api) -> None:
    """Unless told otherwise, the server warns."""
    answer = api.create("configmaps", UNKNOWN)

    assert answer.status == 201
    assert "dat" not in answer.json
    assert answer.headers["warning"] == '299 - "unknown field \\"dat\\""'


def test_unknown_fields_may_be_ignored(api: Api) -> None:
    """fieldValidation=Ignore drops them without a word."""
    answer = api.create("configmaps", UNKNOWN, fieldValidation="Ignore")

    assert (answer.status, answer.headers.get("warning")) == (201, None)


def test_unknown_fields_may_be_refused(api: Api) -> None:
    """fieldValidation=Strict refuses them by name."""
    answer = api.create("configmaps", UNKNOWN, fieldValidation="Strict")

    assert (answer.status, answer.reason) == (400, "BadRequest")
    assert answer.message.endswith('strict decoding error: unknown field "dat"')


def test_fields_said_twice_are_warned_about(api: Api) -> None:
    """A key that comes twice counts once, with a warning."""
    answer = api.create("configmaps", b'{"metadata":{"name":"a"},"data":{"x":"1"},"data":{"y":"2"}}')

    assert answer.status == 201
    assert answer.headers["warning"] == '299 - "duplicate field \\"data\\""'


def test_fields_said_twice_are_refused_when_strict(api: Api) -> None:
    """Strict refuses a key that comes twice."""
    body = b'{"metadata":{"name":"a"},"data":{"x":"1"},"data":{"y":"2"}}'

    answer = api.create("configmaps", body, fieldValidation="Strict")

    assert answer.status == 400
    assert answer.message.endswith('strict decoding error: duplicate field "data"')


def test_strictness_goes_deep_and_lists_all(api: Api) -> None:
    """Every unknown field is named with its path."""
    sent = pod("a", spec={"containers": [{**container(), "imag": "x"}], "nodeNam": "x"})

    answer = api.create("pods", sent, fieldValidation="Strict")

    assert answer.status == 400
    assert answer.message.endswith(
        'strict decoding error: unknown field "spec.containers[0].imag", unknown field "spec.nodeNam"'
    )


def test_fields_in_the_wrong_case_are_unknown(api: Api) -> None:
    """Names of fields are read as they are written."""
    answer = api.create(
        "configmaps", {"metadata": {"name": "a"}, "Data": {"x": "1"}}, fieldValidation="Strict"
    )

    assert answer.status == 400
    assert answer.message.endswith('unknown field "Data"')


def test_an_unknown_way_to_validate(api: Api) -> None:
    """fieldValidation takes three words."""
    answer = api.create("configmaps", configmap("a"), fieldValidation="Nope")

    assert (answer.status, answer.reason) == (422, "Invalid")
    assert answer.causes == [
        (
            "fieldValidation",
            "FieldValueNotSupported",
            'Unsupported value: "Nope": supported values: "", "Ignore", "Strict", "Warn"',
        )
    ]


@pytest.mark.parametrize("kind", [MERGE, STRATEGIC], ids=["merge", "strategic"])
def test_strict_patches(api: Api, kind: str) -> None:
    """An unknown field in a patch is refused when strict."""
    api.make("configmaps", configmap("a"))

    answer = api.patch("configmaps", "a", {"dat": {"x": "1"}}, kind=kind, fieldValidation="Strict")

    assert (answer.status, answer.reason) == (422, "Invalid")
    assert 'unknown field "dat"' in answer.message


def test_a_strict_json_patch(api: Api) -> None:
    """An unknown field from a JSON patch is warned about."""
    api.make("configmaps", configmap("a"))

    answer = api.patch("configmaps", "a", [{"op": "add", "path": "/dat", "value": "x"}], kind=JSON_PATCH)

    assert answer.status == 200
    assert answer.headers["warning"] == '299 - "unknown field \\"dat\\""'


def test_a_strict_replace(api: Api) -> None:
    """A PUT is held to the same."""
    api.make("configmaps", configmap("a"))

    answer = api.replace("configmaps", {**configmap("a"), "dat": "x"}, fieldValidation="Strict")

    assert (answer.status, answer.reason) == (400, "BadRequest")


INVALID_PODS: list[tuple[str, Object, tuple[str, str]]] = [
    ("no containers", {"containers": []}, ("spec.containers", "FieldValueRequired")),
    (
        "a container without a name",
        {"containers": [container("")]},
        ("spec.containers[0].name", "FieldValueRequired"),
    ),
    ("no image", {"containers": [container(image="")]}, ("spec.containers[0].image", "FieldValueRequired")),
    (
        "a container's name in upper case",
        {"containers": [container("Main")]},
        ("spec.containers[0].name", "FieldValueInvalid"),
    ),
    (
        "two containers of one name",
        {"containers": [container(), container()]},
        ("spec.containers[1].name", "FieldValueDuplicate"),
    ),
    (
        "an unknown restart policy",
        {"restartPolicy": "Maybe"},
        ("spec.restartPolicy", "FieldValueNotSupported"),
    ),
    (
        "a negative request",
        {"containers": [container(requests={"cpu": "-1"})]},
        ("spec.containers[0].resources.requests[cpu]", "FieldValueInvalid"),
    ),
    (
        "a request over the limit",
        {"containers": [container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}})]},
        ("spec.containers[0].resources.requests", "FieldValueInvalid"),
    ),
    (
        "an unknown pull policy",
        {"containers": [container(imagePullPolicy="Perhaps")]},
        ("spec.containers[0].imagePullPolicy", "FieldValueNotSupported"),
    ),
    (
        "a toleration of an unknown operator",
        {"tolerations": [{"key": "a", "operator": "Is"}]},
        ("spec.tolerations[0].operator", "FieldValueNotSupported"),
    ),
    (
        "a toleration that exists and has a value",
        {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]},
        ("spec.tolerations[0].operator", "FieldValueInvalid"),
    ),
    (
        "a spread without a key",
        {
            "topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": "", "whenUnsatisfiable": "DoNotSchedule"}
            ]
        },
        ("spec.topologySpreadConstraints[0].topologyKey", "FieldValueRequired"),
    ),
    (
        "a spread with no skew",
        {
            "topologySpreadConstraints": [
                {"maxSkew": 0, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}
            ]
        },
        ("spec.topologySpreadConstraints[0].maxSkew", "FieldValueInvalid"),
    ),
    (
        "an affinity of an unknown operator",
        {
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Like"}]}]
                    }
                }
            }
        },
        (
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"
            ".matchExpressions[0].operator",
            "FieldValueInvalid",
        ),
    ),
    (
        "a negative grace",
        {"terminationGracePeriodSeconds": -1, "activeDeadlineSeconds": 0},
        ("spec.activeDeadlineSeconds", "FieldValueInvalid"),
    ),
    ("a bad node name", {"nodeName": "A_b"}, ("spec.nodeName", "FieldValueInvalid")),
]


@pytest.mark.parametrize(
    ("spec", "complaint"), [pytest.param(spec, complaint, id=name) for name, spec, complaint in INVALID_PODS]
)
def test_invalid_pods(api: Api, spec: Object, complaint: tuple[str, str]) -> None:
    """What a pod must not say, by field and kind of complaint."""
    answer = api.create("pods", pod("a", spec=spec))

    assert (answer.status, answer.reason) == (422, "Invalid")
    assert complaint in [(field, reason) for field, reason, _ in answer.causes]


INVALID_OTHERS: list[tuple[str, str, Object, tuple[str, str]]] = [
    (
        "a selector that does not match its template",
        "deployments",
        deployment("a", spec={"selector": {"matchLabels": {"app": "other"}}}),
        ("spec.template.metadata.labels", "FieldValueInvalid"),
    ),
    (
        "a deployment without a selector",
        "deployments",
        deployment("a", spec={"selector": None}),
        ("spec.selector", "FieldValueRequired"),
    ),
    (
        "negative replicas",
        "deployments",
        deployment("a", -1),
        ("spec.replicas", "FieldValueInvalid"),
    ),
    (
        "a deployment whose pods may end",
        "deployments",
        deployment("a", restartPolicy="Never"),
        ("spec.template.spec.restartPolicy", "FieldValueNotSupported"),
    ),
    (
        "a rolling update that cannot move",
        "deployments",
        deployment(
            "a",
            spec={
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}
            },
        ),
        ("spec.strategy.rollingUpdate.maxUnavailable", "FieldValueInvalid"),
    ),
    (
        "a budget of two minds",
        "poddisruptionbudgets",
        {"metadata": {"name": "a"}, "spec": {"minAvailable": 1, "maxUnavailable": 1}},
        ("spec", "FieldValueInvalid"),
    ),
    (
        "a budget over a hundred percent",
        "poddisruptionbudgets",
        {"metadata": {"name": "a"}, "spec": {"minAvailable": "101%"}},
        ("spec.minAvailable", "FieldValueInvalid"),
    ),
    (
        "a key that a ConfigMap cannot have",
        "configmaps",
        configmap("a", {"a/b": "x"}),
        ("data[a/b]", "FieldValueInvalid"),
    ),
]


@pytest.mark.parametrize(
    ("resource", "body", "complaint"),
    [pytest.param(resource, body, complaint, id=name) for name, resource, body, complaint in INVALID_OTHERS],
)
def test_invalid_objects(api: Api, resource: str, body: Any, complaint: tuple[str, str]) -> None:
    """What other kinds must not say."""
    answer = api.create(resource, body)

    assert (answer.status, answer.reason) == (422, "Invalid")
    assert complaint in [(field, reason) for field, reason, _ in answer.causes]


def test_invalid_messages_list_every_complaint(api: Api) -> None:
    """With several complaints, the message brackets them all."""
    answer = api.create("pods", pod("a", spec={"containers": [], "restartPolicy": "Maybe"}))

    assert answer.message.startswith('Pod "a" is invalid: [')
    assert answer.message.count(", spec.") >= 1
    assert len(answer.causes) >= 2


def test_what_of_a_pod_may_change(api: Api) -> None:
    """Most of a pod's spec is fixed once it exists."""
    api.make("pods", pod("a"))

    answer = api.patch("pods", "a", {"spec": {"terminationGracePeriodSeconds": 5}})

    assert (answer.status, answer.reason) == (422, "Invalid")
    [(field, reason, message)] = answer.causes
    assert (field, reason) == ("spec", "FieldValueForbidden")
    assert message.startswith(
        "Forbidden: pod updates may not change fields other than `spec.containers[*].image`"
    )


def test_the_image_of_a_pod_may_change(api: Api) -> None:
    """The image may be replaced in place."""
    api.make("pods", pod("a"))
    change = {"spec": {"containers": [{"name": "main", "image": "new:2"}]}}

    assert done(api.patch("pods", "a", change, kind=STRATEGIC))["spec"]["containers"][0]["image"] == "new:2"


def test_the_selector_of_a_deployment_may_not_change(api: Api) -> None:
    """Selectors are forever."""
    api.make("deployments", deployment("a", 0))
    labels = {"app": "b"}
    change = {"spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}}}}

    answer = api.patch("deployments", "a", change)

    assert answer.status == 422
    assert answer.causes[0][:2] == ("spec.selector", "FieldValueInvalid")
    assert answer.causes[0][2].endswith("field is immutable")
