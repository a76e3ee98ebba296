import pytest

from karpenter_local.apiserver.entry import Entry
from karpenter_local.apiserver.errors import APIStatusError
from karpenter_local.apiserver.selectors import ListSelector, from_object, parse_fields, parse_labels


@pytest.mark.parametrize(
    ("text", "labels", "expected"),
    [
        pytest.param("a=b", {"a": "b"}, True, id="equal"),
        pytest.param("a!=b", {}, True, id="a missing label differs from everything"),
        pytest.param("a in (b, c)", {"a": "c"}, True, id="one of"),
        pytest.param("a notin (b)", {"a": "b"}, False, id="none of"),
        pytest.param("a", {"a": ""}, True, id="exists, even empty"),
        pytest.param("!a", {"a": ""}, False, id="must not exist"),
        pytest.param("a>2", {"a": "10"}, True, id="numbers compare as numbers"),
        pytest.param("a>2", {"a": "many"}, False, id="what is no number is not greater"),
        pytest.param("a=b,c=d", {"a": "b"}, False, id="all must hold"),
        pytest.param("a in (,b)", {"a": ""}, True, id="an empty value in a list"),
        pytest.param("x.io/a=b", {"x.io/a": "b"}, True, id="a key with a domain"),
    ],
)
def test_label_selectors(text: str, labels: dict[str, str], expected: bool) -> None:
    """Selectors mean what they mean to the API."""
    assert all(item.matches(labels) for item in parse_labels(text)) is expected


@pytest.mark.parametrize("text", ["=", "a in b", "a in (b", "a,,b", "a=b c", "-a=b", "a=b!", "a b", "a>x"])
def test_what_cannot_be_read_is_a_bad_request(text: str) -> None:
    """A selector is read whole or refused."""
    with pytest.raises(APIStatusError) as caught:
        parse_labels(text)

    assert (caught.value.code, caught.value.reason) == (400, "BadRequest")


def entry(**fields: str) -> Entry:
    return Entry("space/name", 5, b"{}", {}, {key.replace("__", "."): value for key, value in fields.items()})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("spec.nodeName=n", True, id="a field of the kind"),
        pytest.param("spec.nodeName!=n", False, id="not equal"),
        pytest.param("metadata.name=name,metadata.namespace=space", True, id="name and namespace"),
        pytest.param("spec.nodeName==n", True, id="two equal signs"),
        pytest.param("spec.nodeName=", False, id="empty means unset"),
    ],
)
def test_field_selectors(text: str, expected: bool) -> None:
    """Fields are compared as text, and an unset one is empty."""
    chosen = ListSelector((), parse_fields(text, {"spec.nodeName"}))

    assert chosen.matches(entry(spec__nodeName="n")) is expected


def test_an_unknown_field_is_refused() -> None:
    """Only some fields of a kind can be asked for."""
    with pytest.raises(APIStatusError, match=r"field label not supported: spec\.color"):
        parse_fields("spec.color=red", {"spec.nodeName"})


def test_a_selector_object() -> None:
    """Labels and expressions are one conjunction; no selector at all selects nothing."""
    given = {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "DoesNotExist"}]}

    found = from_object(given)

    assert found is not None
    assert all(item.matches({"a": "b"}) for item in found)
    assert not all(item.matches({"a": "b", "c": ""}) for item in found)
    assert from_object(None) is None
    assert from_object({}) == ()
