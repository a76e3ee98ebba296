"""The parts that schemas are enforced with."""

from typing import Any

import pytest

from karpenter.api.meta import InvalidObject
from karpenter.api.schema import (
    ABSENT,
    apply_defaults,
    check,
    check_rules,
    find_bad_rules,
    load,
    prune_unknown_fields,
)
from karpenter.api.schema.cel import matches, to_ascii_classes
from karpenter.api.schema.field import render
from karpenter.api.schema.formats import is_of_format
from karpenter.api.schema.rules import spell
from karpenter.api.schema.validation import type_name

HEAD, TAIL = "123e4567-e89b", "426614174000"


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        pytest.param("b", "abc", True, id="a pattern may match anywhere"),
        pytest.param("^b", "abc", False, id="unless it says where"),
        pytest.param("^a$", "a\n", False, id="the end is the end"),
        pytest.param(r"^\d+$", "\u0663", False, id="digits are ASCII"),
        pytest.param(r"^[\d.]+$", "1.5", True, id="digits in brackets"),
        pytest.param(r"^\S+$", "a b", False, id="no white space"),
        pytest.param(r"^\[\w\]$", "[a]", True, id="escaped brackets"),
        pytest.param("a", "x" * 10_000 + "a", True, id="a long text"),
        pytest.param("a", "\ud800a", True, id="half a character"),
    ],
)
def test_patterns(pattern: str, text: str, found: bool) -> None:
    """Patterns are read as Kubernetes reads them."""
    assert matches(pattern, text) is found


def test_patterns_take_no_time_on_hostile_text() -> None:
    """A pattern that others take years for is answered at once."""
    assert not matches(r"^(.+)\s(.+)\s(.+)\s(.+)\s(.+)$", " " * 50_000 + "\n")


@pytest.mark.parametrize("pattern", ["(", "[", "a{2,1}", "*"])
def test_bad_patterns(pattern: str) -> None:
    """A pattern that is none is an error of the schema."""
    with pytest.raises(InvalidObject, match="is not a regular expression"):
        matches(pattern, "a")


def test_a_backslash_at_the_end_stays() -> None:
    """A pattern that ends in the middle of an escape is left for the engine to refuse."""
    assert to_ascii_classes("a\\") == "a\\"


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        pytest.param("bsonobjectid", "507f1f77bcf86cd799439011", "507f", id="object ids"),
        pytest.param("hexcolor", "#ffffff", "#ffff", id="colours in hexadecimal"),
        pytest.param("rgbcolor", "rgb(1, 2,3)", "rgb(1,2)", id="colours in decimal"),
        pytest.param("ssn", "111-11-1111", "11-11-1111", id="social security numbers"),
        pytest.param(
            "uuid3", f"{HEAD}-32d3-a456-{TAIL}", f"{HEAD}-42d3-a456-{TAIL}", id="uuids of version 3"
        ),
        pytest.param(
            "uuid4", f"{HEAD}-42d3-a456-{TAIL}", f"{HEAD}-32d3-a456-{TAIL}", id="uuids of version 4"
        ),
        pytest.param(
            "uuid5", f"{HEAD}-52d3-a456-{TAIL}", f"{HEAD}-52d3-7456-{TAIL}", id="uuids of version 5"
        ),
        pytest.param("k8s-short-name", "a-b", "a.b", id="short names"),
        pytest.param("k8s-long-name", "a.b", "A.b", id="long names"),
        pytest.param("uri", "https://example.com", "http://[", id="addresses of the web"),
        pytest.param("duration", "9 weeks", "9 lightyears", id="durations in words"),
        pytest.param("duration", "1h", "9" * 30 + " weeks", id="durations without end"),
    ],
)
def test_formats(name: str, good: str, bad: str) -> None:
    """Each format takes what is of it and nothing else."""
    assert is_of_format(name, good)
    assert not is_of_format(name, bad)


@pytest.mark.parametrize(
    ("name", "spelled"),
    [
        ("plain", "plain"),
        ("namespace", "__namespace__"),
        ("x-y", "x__dash__y"),
        ("a.b/c", "a__dot__b__slash__c"),
        ("a__b", "a__underscores__b"),
        ("1a", None),
        ("a b", None),
    ],
)
def test_spelling_of_fields_in_rules(name: str, spelled: str | None) -> None:
    """A field goes by a name that CEL can spell, if it has one."""
    assert spell(name) == spelled


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", '"a"'),
        (1, "1"),
        (1.0, "1"),
        (1.5, "1.5"),
        (None, "null"),
        ({"b": 1, "a": [True]}, '{"a":[true],"b":1}'),
        (object, "an object"),
    ],
)
def test_values_in_messages(value: Any, text: str) -> None:
    """Values are shown as an API server shows them."""
    assert render(value) == text


def test_types_that_json_does_not_have_keep_their_name() -> None:
    """A value that JSON does not have is called what Python calls it."""
    assert type_name(b"") == "bytes"


@pytest.mark.parametrize(
    "plain",
    [
        pytest.param(5, id="a number"),
        pytest.param({"type": 5}, id="a type that is no text"),
        pytest.param({"properties": []}, id="properties in a list"),
        pytest.param({"x-kubernetes-validations": [{"message": "no rule"}]}, id="a rule without a rule"),
    ],
)
def test_what_is_no_schema(plain: Any) -> None:
    """Data that is no schema is refused as such."""
    with pytest.raises(InvalidObject, match=r"^schema: "):
        load(plain)


def test_bad_rules_are_found_wherever_they_are() -> None:
    """A rule that cannot be compiled is named by its place in the schema."""
    bad = {"x-kubernetes-validations": [{"rule": "true"}, {"rule": "oops("}]}
    schema = load(
        {
            "properties": {"a": {"items": bad}, "b": {"additionalProperties": bad}},
            "allOf": [bad],
        }
    )

    assert [problem.field for problem in find_bad_rules(schema)] == [
        "properties[a].items.x-kubernetes-validations[1].rule",
        "properties[b].additionalProperties.x-kubernetes-validations[1].rule",
        "allOf[0].x-kubernetes-validations[1].rule",
    ]


def test_a_bad_rule_is_a_problem_of_every_object() -> None:
    """Where a definition with a bad rule got through, its objects are refused rather than waved through."""
    schema = load({"type": "object", "x-kubernetes-validations": [{"rule": "oops("}]})

    (problem,) = check_rules(schema, {})

    assert "rule compile error" in problem.message


@pytest.mark.parametrize(
    "expression",
    ["self.missing", "5", "'a\\nb'", "oops(", "''"],
    ids=["fails", "number", "lines", "bad", "empty"],
)
def test_a_message_that_cannot_be_made_is_replaced(expression: str) -> None:
    """Where a rule's own message fails, the fixed one is used."""
    rule = {"rule": "false", "message": "no", "messageExpression": expression}
    schema = load({"type": "object", "x-kubernetes-validations": [rule]})

    assert [str(problem) for problem in check_rules(schema, {})] == ["<nil>: Invalid value: no"]


def test_a_rule_without_a_message_is_shown() -> None:
    """A rule without a message is shown itself."""
    schema = load({"type": "integer", "x-kubernetes-validations": [{"rule": "self > 5"}]})

    assert [str(each) for each in check_rules(schema, 1, "a")] == [
        "a: Invalid value: 1: failed rule: self > 5"
    ]


def test_wrong_types_in_rules_are_explained() -> None:
    """A rule that compares what cannot be compared says so."""
    schema = load(
        {
            "x-kubernetes-int-or-string": True,
            "x-kubernetes-validations": [{"rule": "self > 5", "message": "m"}],
        }
    )
    (problem,) = check_rules(schema, "x", "a")

    assert "call arguments did not match a supported operator" in problem.message


def test_rules_of_parts_are_asked() -> None:
    """Rules in allOf are asked as well."""
    rule = {"rule": "self > 5", "message": "too small"}
    schema = load({"type": "integer", "allOf": [{"x-kubernetes-validations": [rule]}]})

    assert [str(each) for each in check_rules(schema, 1, "a")] == ["a: Invalid value: 1: too small"]


def test_null_is_asked_nothing() -> None:
    """Rules are about values, and null is none."""
    schema = load({"type": "string", "nullable": True, "x-kubernetes-validations": [{"rule": "false"}]})

    assert list(check_rules(schema, None)) == []


def test_unknown_fields_below_unknown_lists() -> None:
    """Fields below something without a schema are unknown, whatever lies between."""
    schema = load({"type": "object", "properties": {"a": {"type": "array"}}})

    assert prune_unknown_fields(schema, {"a": [{"b": 1}], "c": 2}, root=False) == (
        {"a": [{}]},
        ("a[0].b", "c"),
    )


def test_embedded_objects_keep_their_metadata() -> None:
    """What every object has is known in an embedded one, too."""
    schema = load(
        {"type": "object", "properties": {"e": {"type": "object", "x-kubernetes-embedded-resource": True}}}
    )
    plain = {"e": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {}}}

    assert prune_unknown_fields(schema, plain)[1] == ("e.spec",)


def test_defaults_are_copies() -> None:
    """Filling in a default twice does not tie two objects together."""
    schema = load({"properties": {"a": {"type": "array", "default": [1], "items": {"type": "integer"}}}})

    first, second = apply_defaults(schema, {}), apply_defaults(schema, {})

    assert first["a"] is not second["a"]


def test_items_have_defaults() -> None:
    """A null in a list stands for the default of its items, where they have one."""
    schema = load({"type": "array", "items": {"type": "integer", "default": 3}})

    assert apply_defaults(schema, [None, 1]) == [3, 1]


def test_what_an_update_leaves_alone_is_not_judged_again() -> None:
    """A schema that became stricter does not hold up changes elsewhere."""
    schema = load(
        {
            "type": "object",
            "properties": {
                "a": {"type": "integer", "maximum": 5, "x-kubernetes-validations": [{"rule": "self < 3"}]},
                "b": {"type": "string"},
            },
        }
    )

    assert check(schema, {"a": 9, "b": "new"}, old={"a": 9, "b": "old"}) == ()
    assert check(schema, {"a": 9, "b": "new"}, old=ABSENT) != ()
    assert check(schema, {"a": 8, "b": "old"}, old={"a": 9, "b": "old"}) != ()
