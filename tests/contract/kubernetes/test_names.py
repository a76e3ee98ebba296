"""Names and labels: what they may be, and those that the server makes up."""

import re

import pytest

from tests.contract.kubernetes.api import Api
from tests.contract.kubernetes.objects import configmap

SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must"
    " start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is"
    " '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


@pytest.mark.parametrize(
    ("name", "status"),
    [
        pytest.param("a.b-c.1", 201, id="dots and dashes are fine"),
        pytest.param("0a", 201, id="may begin with a digit"),
        pytest.param("a" * 253, 201, id="253 characters are fine"),
        pytest.param("a" * 254, 422, id="254 characters are too many"),
        pytest.param("Upper", 422, id="upper case is refused"),
        pytest.param("a_b", 422, id="an underscore is refused"),
        pytest.param("-a", 422, id="a dash may not come first"),
        pytest.param("a-", 422, id="a dash may not come last"),
        pytest.param("a..b", 422, id="two dots in a row are refused"),
    ],
)
def test_names(api: Api, name: str, status: int) -> None:
    """Most names are DNS subdomains."""
    assert api.create("configmaps", configmap(name)).status == status


def test_the_complaint_about_a_name(api: Api) -> None:
    """A bad name is an invalid object, with the field and the rule."""
    answer = api.create("configmaps", configmap("A_b"))

    assert (answer.status, answer.reason) == (422, "Invalid")
    assert answer.causes == [
        (
            "metadata.name",
            "FieldValueInvalid",
            f'Invalid value: "A_b": {SUBDOMAIN}',
        )
    ]
    assert answer.message == f'ConfigMap "A_b" is invalid: metadata.name: {answer.causes[0][2]}'


def test_a_name_is_required(api: Api) -> None:
    """Neither name nor generateName is an invalid object."""
    answer = api.create("configmaps", {"metadata": {}})

    assert answer.status == 422
    assert answer.causes == [
        ("metadata.name", "FieldValueRequired", "Required value: name or generateName is required")
    ]


def test_generate_name_appends_five_characters(api: Api) -> None:
    """The server finishes the name, from consonants and digits that cannot spell a word."""
    made = api.make("configmaps", {"metadata": {"generateName": "web-"}})["metadata"]

    assert re.fullmatch(r"web-[bcdfghjklmnpqrstvwxz2456789]{5}", made["name"])
    assert made["generateName"] == "web-"


def test_generate_name_gives_way_to_a_name(api: Api) -> None:
    """A name that was given is taken."""
    assert (
        api.make("configmaps", {"metadata": {"name": "a", "generateName": "web-"}})["metadata"]["name"] == "a"
    )


def test_a_long_generate_name_is_cut(api: Api) -> None:
    """The prefix is cut at 58 characters so that the whole fits in 63."""
    made = api.make("configmaps", {"metadata": {"generateName": "x" * 70}})["metadata"]

    assert made["name"].startswith("x" * 58)
    assert len(made["name"]) == 63


@pytest.mark.parametrize(
    ("labels", "field", "complaint"),
    [
        pytest.param(
            {"a b": "c"},
            "metadata.labels",
            'Invalid value: "a b": name part must consist of alphanumeric characters',
            id="a space in a key",
        ),
        pytest.param(
            {"a": "b c"},
            "metadata.labels",
            'Invalid value: "b c": a valid label must be an empty string or consist of alphanumeric',
            id="a space in a value",
        ),
        pytest.param(
            {"a": "v" * 64}, "metadata.labels", 'Invalid value: "vvvv', id="a value of 64 characters"
        ),
        pytest.param(
            {"a/b/c": "v"}, "metadata.labels", 'Invalid value: "a/b/c": a valid label key', id="two slashes"
        ),
    ],
)
def test_bad_labels(api: Api, labels: dict[str, str], field: str, complaint: str) -> None:
    """Labels follow a grammar, and the refusal quotes what broke it."""
    answer = api.create("configmaps", configmap("a", labels=labels))

    assert answer.status == 422
    [(where, reason, message)] = answer.causes
    assert (where, reason) == (field, "FieldValueInvalid")
    assert message.startswith(complaint)
