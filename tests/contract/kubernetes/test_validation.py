"""Objects that can be read but not accepted, and changes that are not allowed."""

from typing import Any

import pytest

from tests.contract.kubernetes.api import STRATEGIC, Api, Object, done
from tests.contract.kubernetes.objects import configmap, container, deployment, pod

TERMS = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"

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
        (f"{TERMS}[0].matchExpressions[0].operator", "FieldValueInvalid"),
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
