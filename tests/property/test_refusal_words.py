"""What is wrong with a field is said in words: no pattern, no type of Python, whatever is in the field."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from karpenter.api.kinds import ALL_KINDS, Kind
from karpenter.api.manifests import Document
from karpenter.api.meta import InvalidObject, convert
from karpenter.api.validation.documents import Finding, check_document
from karpenter.api.validation.objects import schema_of
from karpenter.api.validation.words import IN_WORDS, message_in_words
from karpenter_local.apiserver.offline import create_problems

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karpenter.api.schema import Schema
    from karpenter.api.validation.documents import ServerRules

OURS = tuple(each for each in ALL_KINDS if each.ours)
NOT_WORDS = re.compile(
    r"Expected `|json:|NoneType|should match|regex|regular expression|\]\*|\)\?|\(\["
    r"|\b(str|int|float|bool|dict|tuple|datetime|msgspec)\b(?![^\"]*\"$)"
)
VALUES: tuple[Any, ...] = (
    *("", "x y", "1core", "soon", "-", 5, -1, 1.5, 2**70, True, None),
    *([], [1], ["x y"], {}, {"a b": "c d"}),
)


def places(schema: Schema | bool | None, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the path of every field; ``[]`` is an item of a list, and ``{}`` a value of a map."""
    if schema is None or isinstance(schema, bool):
        return
    yield path
    for name, member in schema.properties.items():
        yield from places(member, (*path, name))
    yield from places(schema.items, (*path, "[]"))
    yield from places(schema.additional_properties, (*path, "{}"))


def patterns(schema: Schema | bool | None) -> Iterator[str]:
    if schema is None or isinstance(schema, bool):
        return
    yield from filter(None, [schema.pattern])
    for below in (*schema.properties.values(), schema.items, schema.additional_properties):
        yield from patterns(below)


def with_value(path: tuple[str, ...], value: object) -> Any:
    """Return an object that has nothing but a value at a path."""
    for step in reversed(path):
        value = [value] if step == "[]" else {"key" if step == "{}" else step: value}
    return value


def said(kind: Kind, path: tuple[str, ...], rules: ServerRules | None = None) -> set[str]:
    """Return what is said about every value at a place of an otherwise empty object."""
    found = set()
    for value in VALUES:
        plain = with_value(path, value) | {"apiVersion": kind.api_version, "kind": kind.name}
        document = Document("f", {"metadata": {"name": "x"}} | plain)
        found |= {each.message for each in check_document(document, rules=rules) if isinstance(each, Finding)}
        try:
            convert(plain, kind.struct)
        except InvalidObject as error:
            found.add(error.problem)
    return found


@pytest.mark.parametrize("kind", OURS, ids=lambda each: each.name)
def test_every_field_of_our_definitions(kind: Kind) -> None:
    """What is wrong with any value of any field of a definition is said in words."""
    fields = [path for path in places(schema_of(kind)) if path]
    found = {each for path in fields for each in said(kind, path)}

    assert found
    assert [each for each in found if NOT_WORDS.search(each)] == []


POD = ("spec", "containers", "[]")
THEIRS = (
    ("metadata", "labels", "{}"),
    ("metadata", "name"),
    ("spec",),
    ("spec", "priority"),
    ("spec", "replicas"),
    ("spec", "minAvailable"),
    ("spec", "tolerations", "[]"),
    ("spec", "tolerations", "[]", "tolerationSeconds"),
    ("spec", "template", "spec", "containers", "[]", "resources", "requests", "{}"),
    ("spec", "resources", "requests", "{}"),
    ("provisioner",),
    (*POD, "resources", "requests", "{}"),
    (*POD, "ports", "[]", "hostPort"),
    (*POD, "name"),
)


@pytest.mark.parametrize("rules", [None, create_problems], ids=["without a server", "with its rules"])
@pytest.mark.parametrize("path", THEIRS, ids=".".join)
def test_fields_of_kubernetes(path: tuple[str, ...], rules: ServerRules | None) -> None:
    """The same holds for kinds of Kubernetes, with the rules of the embedded API server or without."""
    found = {each for kind in ALL_KINDS if not kind.ours for each in said(kind, path, rules)}

    assert found
    assert [each for each in found if NOT_WORDS.search(each)] == []


def test_every_pattern_has_words() -> None:
    """Every pattern of our definitions is said in words."""
    assert {each for kind in OURS for each in patterns(schema_of(kind))} <= IN_WORDS.keys()


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        pytest.param(
            "Invalid value: \"1core\": quantities must match the regular expression '^([+-]?[0-9.]+)$'",
            'Invalid value: "1core": must be an amount such as 500m, 2 or 1.5Gi',
            id="a quantity",
        ),
        pytest.param(
            "must be lower case (e.g. 'example.com', regex used for validation is '[a-z]([-a-z]*)?')",
            "must be lower case (e.g. 'example.com')",
            id="a rule that has words already",
        ),
        pytest.param(
            "Invalid value: \"x\": spec.x in body should match '^[q]+$'",
            "Invalid value: \"x\": spec.x in body should match '^[q]+$'",
            id="a pattern of others stays",
        ),
    ],
)
def test_messages_of_a_server(message: str, expected: str) -> None:
    """Messages of an API server are said in words as far as they are known."""
    assert message_in_words(message) == expected
