"""What the schema of a custom kind fills in, drops and refuses, and in which words."""

import pytest

from tests.contract.kubernetes.api import Api, Object
from tests.contract.kubernetes.things import GROUP, thing

NOT_CHECKED = (
    "Invalid value: null: some validation rules were not checked because the object was invalid;"
    " correct the existing errors to complete validation"
)

ONE_OF = 'Invalid value: "": "spec.one" must validate one and only one schema (oneOf).'

UNCHECKED = (
    "<nil>",
    "FieldValueInvalid",
    NOT_CHECKED,
)


def test_defaults(api: Api, things: str) -> None:
    """Defaults fill in what is left out, also inside lists and below other defaults."""
    made = api.make(things, thing("a", {"size": 1, "list": [{"b": 2}, {"a": "y"}]}))

    assert made["spec"] == {
        "size": 1,
        "color": "red",
        "list": [{"a": "x", "b": 2}, {"a": "y"}],
        "deep": {"inner": {"n": 3}},
    }


def test_no_defaults_below_what_is_not_there(api: Api, things: str) -> None:
    """Without a spec there is nothing to fill."""
    assert "spec" not in api.make(things, thing("a"))


def test_null_takes_the_default(api: Api, things: str) -> None:
    """Null where null is not allowed counts as left out."""
    assert api.make(things, thing("a", {"size": 1, "color": None}))["spec"]["color"] == "red"


def test_null_where_allowed_is_kept(api: Api, things: str) -> None:
    """A nullable field keeps its null."""
    assert api.make(things, thing("a", {"size": 1, "maybe": None}))["spec"]["maybe"] is None


def test_pruning(api: Api, things: str) -> None:
    """What the schema does not know is dropped, with warnings that name it."""
    answer = api.create(things, thing("a", {"size": 1, "zzz": 1, "list": [{"zz": 1}]}, extra=1))

    assert answer.status == 201
    assert "extra" not in answer.json
    assert answer.json["spec"]["list"] == [{"a": "x"}]
    assert "zzz" not in answer.json["spec"]
    assert answer.headers["warning"] == (
        '299 - "unknown field \\"extra\\"", 299 - "unknown field \\"spec.list[0].zz\\"",'
        ' 299 - "unknown field \\"spec.zzz\\""'
    )


def test_what_is_preserved(api: Api, things: str) -> None:
    """Where unknown fields are preserved, anything stays."""
    wild = {"k": [1, {"x": None}], "s": "t", "f": 1.5}

    assert api.make(things, thing("a", {"size": 1, "any": wild}))["spec"]["any"] == wild


def test_strictness(api: Api, things: str) -> None:
    """Strict refuses unknown fields and lists them."""
    answer = api.create(things, thing("a", {"size": 1, "zzz": 1}, extra=1), fieldValidation="Strict")

    assert answer.status == 400
    assert answer.message == (
        'Thing in version "v1" cannot be handled as a Thing: strict decoding error:'
        ' unknown field "extra", unknown field "spec.zzz"'
    )


COMPLAINTS: list[tuple[str, Object, tuple[str, str, str]]] = [
    ("left out", {}, ("spec.size", "FieldValueRequired", "Required value")),
    (
        "too small",
        {"size": 0},
        (
            "spec.size",
            "FieldValueInvalid",
            "Invalid value: 0: spec.size in body should be greater than or equal to 1",
        ),
    ),
    (
        "too large",
        {"size": 11, "color": "blue"},
        (
            "spec.size",
            "FieldValueInvalid",
            "Invalid value: 11: spec.size in body should be less than or equal to 10",
        ),
    ),
    (
        "a string for an integer",
        {"size": "x"},
        (
            "spec.size",
            "FieldValueTypeInvalid",
            'Invalid value: "string": spec.size in body must be of type integer: "string"',
        ),
    ),
    (
        "a fraction for an integer",
        {"size": 1.5},
        (
            "spec.size",
            "FieldValueTypeInvalid",
            'Invalid value: "number": spec.size in body must be of type integer: "number"',
        ),
    ),
    (
        "not one of",
        {"size": 1, "color": "green"},
        (
            "spec.color",
            "FieldValueNotSupported",
            'Unsupported value: "green": supported values: "red", "blue"',
        ),
    ),
    (
        "too long",
        {"size": 1, "word": "abcdef"},
        ("spec.word", "FieldValueTooLong", "Too long: may not be more than 5 bytes"),
    ),
    (
        "not like the pattern",
        {"size": 1, "word": "A1"},
        (
            "spec.word",
            "FieldValueInvalid",
            "Invalid value: \"A1\": spec.word in body should match '^[a-z]+$'",
        ),
    ),
    (
        "not of the format",
        {"size": 1, "cidr": "x"},
        (
            "spec.cidr",
            "FieldValueTypeInvalid",
            'Invalid value: "x": spec.cidr in body must be of type cidr: "x"',
        ),
    ),
    (
        "no time",
        {"size": 1, "when": "x"},
        (
            "spec.when",
            "FieldValueTypeInvalid",
            'Invalid value: "x": spec.when in body must be of type date-time: "x"',
        ),
    ),
    (
        "too many items",
        {"size": 1, "list": [{}, {}, {}]},
        ("spec.list", "FieldValueTooMany", "Too many: 3: must have at most 2 items"),
    ),
    (
        "a wrong type in a list",
        {"size": 1, "list": [{"b": "x"}]},
        (
            "spec.list[0].b",
            "FieldValueTypeInvalid",
            'Invalid value: "string": spec.list[0].b in body must be of type integer: "string"',
        ),
    ),
    (
        "a wrong type in a map",
        {"size": 1, "map": {"a": "x"}},
        (
            "spec.map.a",
            "FieldValueTypeInvalid",
            'Invalid value: "string": spec.map.a in body must be of type integer: "string"',
        ),
    ),
    (
        "neither integer nor string",
        {"size": 1, "port": True},
        (
            "spec.port",
            "FieldValueTypeInvalid",
            'Invalid value: "boolean": spec.port in body must be of type integer,string: "boolean"',
        ),
    ),
    (
        "twice in a set",
        {"size": 1, "tags": ["a", "a"]},
        ("spec.tags[1]", "FieldValueDuplicate", 'Duplicate value: "a"'),
    ),
    (
        "twice the same key",
        {"size": 1, "keyed": [{"key": "a"}, {"key": "a"}]},
        ("spec.keyed[1]", "FieldValueDuplicate", 'Duplicate value: {"key":"a"}'),
    ),
    (
        "none of two",
        {"size": 1, "one": {}},
        (
            "<nil>",
            "FieldValueInvalid",
            f"{ONE_OF} Found none valid",
        ),
    ),
    (
        "both of two",
        {"size": 1, "one": {"x": "1", "y": "1"}},
        (
            "<nil>",
            "FieldValueInvalid",
            f"{ONE_OF} Found 2 valid alternatives",
        ),
    ),
    (
        "a rule with a message",
        {"size": 1, "map": {"a": 1, "b": 2, "c": 3}},
        ("spec", "FieldValueInvalid", "Invalid value: too many"),
    ),
    (
        "a rule with a message that is computed",
        {"size": 9},
        ("spec", "FieldValueInvalid", "Invalid value: nine is not for red"),
    ),
    (
        "a rule with a path and a reason",
        {"size": 8},
        ("spec.size", "FieldValueForbidden", "Forbidden: failed rule: self.size != 8"),
    ),
    (
        "a rule without a message",
        {"size": 7},
        ("spec", "FieldValueInvalid", "Invalid value: failed rule: self.size != 7"),
    ),
]


@pytest.mark.parametrize(
    ("spec", "complaint"), [pytest.param(spec, complaint, id=name) for name, spec, complaint in COMPLAINTS]
)
def test_complaints(api: Api, things: str, spec: Object, complaint: tuple[str, str, str]) -> None:
    """The schema and its rules refuse in the server's words."""
    answer = api.create(things, thing("a", spec))

    assert (answer.status, answer.reason) == (422, "Invalid")
    assert complaint in answer.causes


@pytest.mark.parametrize("spec", [{}, {"size": 1, "color": "green"}], ids=["required", "enum"])
def test_rules_are_not_checked_on_what_is_broken(api: Api, things: str, spec: Object) -> None:
    """When the schema is not met, the rules are not asked, and the answer says so."""
    assert UNCHECKED in api.create(things, thing("a", spec)).causes


def test_the_message_names_kind_group_and_object(api: Api, things: str) -> None:
    """The sentence begins with what was refused."""
    answer = api.create(things, thing("a", {"size": 8}))

    assert (
        answer.message == f'Thing.{GROUP} "a" is invalid: spec.size: Forbidden: failed rule: self.size != 8'
    )


def test_transition_rules(api: Api, things: str) -> None:
    """A rule about the old value is asked on updates only."""
    api.make(things, thing("a", {"size": 1, "fixed": "x"}))

    answer = api.patch(things, "a", {"spec": {"fixed": "y"}})

    assert answer.status == 422
    assert answer.causes == [("spec.fixed", "FieldValueInvalid", 'Invalid value: "y": fixed is forever')]


def test_transition_rules_need_both_sides(api: Api, things: str) -> None:
    """A field that was not there before may be set."""
    api.make(things, thing("a", {"size": 1}))

    assert api.patch(things, "a", {"spec": {"fixed": "y"}}).status == 200
