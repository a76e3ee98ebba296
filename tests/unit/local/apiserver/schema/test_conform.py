from typing import Any

import pytest

from karpenter_local.apiserver.schema.conform import Mismatch, conform, zero
from karpenter_local.apiserver.schema.typed import problem
from karpenter_local.apiserver.schema.types import built_in_types

POD = built_in_types().definition("io.k8s.api.core.v1.Pod")
DEPLOYMENT = built_in_types().definition("io.k8s.api.apps.v1.Deployment")
EVENT = built_in_types().definition("io.k8s.api.core.v1.Event")
WRONG = "json: cannot unmarshal"
INTO = "into Go struct field"


def pod(**container: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", **container}]}}


def test_unknown_fields_are_taken_out_and_named() -> None:
    """Each is named by its path; the case of letters matters."""
    value = pod(imagee="x", Image="y")
    value["spec"]["nope"] = {"deep": 1}

    unknown = conform(value, POD)

    assert unknown == ["spec.containers[0].imagee", "spec.containers[0].Image", "spec.nope"]
    assert value["spec"]["containers"] == [{"name": "c", "resources": {}}]


def test_quantities_are_written_canonically() -> None:
    """However a quantity came, it is stored in one way."""
    value = pod(resources={"requests": {"cpu": 0.5, "memory": "1024Mi"}, "limits": {"cpu": 1}})

    conform(value, POD)

    assert value["spec"]["containers"][0]["resources"] == {
        "requests": {"cpu": "500m", "memory": "1Gi"},
        "limits": {"cpu": "1"},
    }


def test_empty_fields_go_or_stay_as_the_kind_has_it() -> None:
    """An empty text goes, an empty struct stays, and what may be absent stays as it was given."""
    value = {"spec": {"nodeName": "", "hostNetwork": False, "enableServiceLinks": False, "volumes": []}}

    conform(value, POD)

    assert value == {"metadata": {}, "spec": {"enableServiceLinks": False, "containers": None}, "status": {}}


def test_times_are_written_in_utc() -> None:
    """Seconds for times, microseconds for those that have them."""
    value = {
        "involvedObject": {},
        "firstTimestamp": "2025-01-01T02:00:00+02:00",
        "eventTime": "2025-01-01T02:00:00.500000+02:00",
    }

    conform(value, EVENT)

    assert (value["firstTimestamp"], value["eventTime"]) == (
        "2025-01-01T00:00:00Z",
        "2025-01-01T00:00:00.500000Z",
    )


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        pytest.param(
            {"replicas": "three"},
            f"{WRONG} string {INTO} DeploymentSpec.spec.replicas of type int32",
            id="text for a number",
        ),
        pytest.param(
            {"replicas": 1.5},
            f"{WRONG} number 1.5 {INTO} DeploymentSpec.spec.replicas of type int32",
            id="a fraction for a whole number",
        ),
        pytest.param(
            {"replicas": 2**40},
            f"{WRONG} number {2**40} {INTO} DeploymentSpec.spec.replicas of type int32",
            id="a number that is too large",
        ),
        pytest.param(
            {"template": []},
            f"{WRONG} array {INTO} DeploymentSpec.spec.template of type v1.PodTemplateSpec",
            id="a list for a struct",
        ),
        pytest.param(
            {"template": {"spec": {"containers": {}}}},
            f"{WRONG} object {INTO} PodSpec.spec.template.spec.containers of type []v1.Container",
            id="a struct for a list",
        ),
        pytest.param(
            {"template": {"metadata": {"labels": {"a": 1}}}},
            f"{WRONG} number {INTO} ObjectMeta.spec.template.metadata.labels of type string",
            id="a number for a label",
        ),
        pytest.param(
            {"paused": "no"},
            f"{WRONG} string {INTO} DeploymentSpec.spec.paused of type bool",
            id="text for a truth",
        ),
    ],
)
def test_wrong_types_are_refused_in_the_words_of_the_api(spec: dict[str, Any], message: str) -> None:
    """The first value that cannot be read is named with its field and type."""
    with pytest.raises(Mismatch) as caught:
        conform({"spec": spec}, DEPLOYMENT)

    assert str(caught.value) == message


@pytest.mark.parametrize("amount", ["abc", True, "1Zi", "", [], {}])
def test_what_is_no_quantity(amount: Any) -> None:
    """A quantity is a number with a known suffix."""
    with pytest.raises(Mismatch, match="quantities must match the regular expression"):
        conform(pod(resources={"requests": {"cpu": amount}}), POD)


@pytest.mark.parametrize("text", ["yesterday", "2025-01-01", "2025-01-01T00:00:00", 5])
def test_what_is_no_time(text: Any) -> None:
    """A time has a date, a time of day and an offset."""
    with pytest.raises(Mismatch):
        conform({"metadata": {"creationTimestamp": text}}, POD)


def test_nulls_mean_absent() -> None:
    """In a list of structs a null is an empty one; elsewhere it goes."""
    value: dict[str, Any] = {"spec": {"nodeName": None, "containers": [None], "nodeSelector": {"a": None}}}

    conform(value, POD)

    assert value["spec"] == {"containers": [{"name": "", "resources": {}}], "nodeSelector": {"a": ""}}


def test_a_blank_object() -> None:
    """Every struct that is written even when empty is there."""
    blank = zero(DEPLOYMENT)

    assert blank["spec"]["strategy"] == {}
    assert blank["spec"]["template"]["spec"] == {"containers": None}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"replicas": 1, "template": {"spec": {"containers": []}}}, "", id="fits"),
        pytest.param({"nope": 1}, ".spec.nope: field not declared in schema", id="an unknown field"),
        pytest.param(
            {"replicas": "x"}, ".spec.replicas: expected numeric (int or float), got string", id="no number"
        ),
        pytest.param({"selector": "x"}, ".spec.selector: expected map, got &{x}", id="no map"),
        pytest.param({"paused": 1}, ".spec.paused: expected boolean, got &{1}", id="no truth"),
    ],
)
def test_a_configuration_is_held_against_the_schema(spec: dict[str, Any], expected: str) -> None:
    """Server-side apply has words of its own."""
    assert problem({"spec": spec}, DEPLOYMENT) == expected
