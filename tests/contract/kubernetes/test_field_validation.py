"""Unknown fields and fields said twice: ignored, warned about or refused, as the client asks."""

import pytest

from tests.contract.kubernetes.api import JSON_PATCH, MERGE, STRATEGIC, Api
from tests.contract.kubernetes.objects import configmap, container, pod

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
    """Validation of fields is chosen by one of three words."""
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
