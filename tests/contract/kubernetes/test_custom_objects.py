"""Objects of a custom kind: defaults, pruning, schema and CEL, status and scale, columns and selectors."""

import pytest

from tests.contract.kubernetes.api import APPLY, JSON_PATCH, MERGE, STRATEGIC, Api, Object, done
from tests.contract.kubernetes.test_tables import TABLE
from tests.contract.kubernetes.things import DEFINITION, GROUP, place, served, thing

UNCHECKED = (
    "<nil>",
    "FieldValueInvalid",
    "Invalid value: null: some validation rules were not checked because the object was invalid;"
    " correct the existing errors to complete validation",
)


@pytest.fixture
def things(api: Api) -> str:
    """Where things are; the definition is installed if it is not there yet."""
    if api.get("customresourcedefinitions", DEFINITION["metadata"]["name"]).status == 404:
        done(api.send("POST", api.path("customresourcedefinitions"), DEFINITION))
    path = place(api)
    assert served(api, path)
    return path


def test_a_custom_object_is_stored(api: Api, things: str) -> None:
    """A custom object has all that others have, a generation included."""
    made = api.make(things, thing("a", {"size": 1}))

    assert (made["apiVersion"], made["kind"]) == (f"{GROUP}/v1", "Thing")
    assert made["metadata"]["generation"] == 1
    assert api.read(things, "a") == made


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
            'Invalid value: "": "spec.one" must validate one and only one schema (oneOf). Found none valid',
        ),
    ),
    (
        "both of two",
        {"size": 1, "one": {"x": "1", "y": "1"}},
        (
            "<nil>",
            "FieldValueInvalid",
            'Invalid value: "": "spec.one" must validate one and only one schema (oneOf). Found 2 valid alternatives',
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


@pytest.mark.parametrize(
    ("body", "status"),
    [
        pytest.param({"metadata": {"name": "a"}, "spec": {"size": 1}}, 400, id="no kind"),
        pytest.param({**thing("a", {"size": 1}), "apiVersion": "other/v1"}, 400, id="another group"),
        pytest.param({**thing("a", {"size": 1}), "kind": "Other"}, 422, id="another kind"),
        pytest.param(b"{", 400, id="not JSON"),
        pytest.param(thing("A_b", {"size": 1}), 422, id="a bad name"),
        pytest.param({**thing("a"), "spec": []}, 422, id="a list for an object"),
        pytest.param({**thing("a"), "metadata": []}, 400, id="a list for metadata"),
        pytest.param(
            {**thing("a"), "metadata": {"name": "a", "labels": {"x": 1}}}, 400, id="a number for a label"
        ),
    ],
)
def test_bodies_that_do_not_fit(api: Api, things: str, body: object, status: int) -> None:
    """Custom kinds are held to the same as others, and say what they are."""
    assert api.create(things, body).status == status


def test_strategic_merge_is_not_for_custom_kinds(api: Api, things: str) -> None:
    """There are no merge keys to go by."""
    api.make(things, thing("a", {"size": 1}))

    answer = api.patch(things, "a", {"spec": {"size": 2}}, kind=STRATEGIC)

    assert (answer.status, answer.reason) == (415, "UnsupportedMediaType")
    assert answer.message == (
        "the body of the request was in an unknown format - accepted media types include:"
        " application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
    )


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        pytest.param(MERGE, {"spec": {"size": 2}}, id="merge"),
        pytest.param(JSON_PATCH, [{"op": "replace", "path": "/spec/size", "value": 2}], id="json"),
    ],
)
def test_patches(api: Api, things: str, kind: str, body: object) -> None:
    """Merge and JSON patches work, and count as changes of the spec."""
    api.make(things, thing("a", {"size": 1}))

    patched = done(api.patch(things, "a", body, kind=kind))

    assert (patched["spec"]["size"], patched["metadata"]["generation"]) == (2, 2)


def test_metadata_does_not_count(api: Api, things: str) -> None:
    """Labels and annotations leave the generation alone."""
    api.make(things, thing("a", {"size": 1}))

    patched = done(api.patch(things, "a", {"metadata": {"labels": {"x": "1"}, "annotations": {"y": "2"}}}))

    assert patched["metadata"]["generation"] == 1


def test_applying_to_keyed_lists(api: Api, things: str) -> None:
    """List types of the schema decide how two appliers share."""
    done(
        api.apply(
            things,
            thing("a", {"size": 1, "keyed": [{"key": "x", "value": "1"}], "tags": ["t"]}),
            manager="one",
        )
    )

    both = done(api.apply(things, thing("a", {"keyed": [{"key": "y"}], "tags": ["u"]}), manager="two"))

    assert both["spec"]["keyed"] == [{"key": "x", "value": "1"}, {"key": "y"}]
    assert both["spec"]["tags"] == ["t", "u"]


def test_applying_to_plain_lists(api: Api, things: str) -> None:
    """A list without a type is one value: two appliers conflict."""
    done(api.apply(things, thing("a", {"size": 1, "list": [{"a": "1"}]}), manager="one"))

    answer = api.apply(things, thing("a", {"list": [{"a": "2"}]}), manager="two")

    assert answer.status == 409
    assert answer.message == 'Apply failed with 1 conflict: conflict with "one": .spec.list'


def test_an_applied_unknown_field(api: Api, things: str) -> None:
    """Unknown fields of an intent cannot be owned, so the server gives up."""
    answer = api.patch(things, "a", thing("a", {"size": 1, "zzz": 1}), kind=APPLY, fieldManager="x")

    assert answer.status == 500
    assert answer.message.endswith(".spec.zzz: field not declared in schema")


def test_status_is_apart(api: Api, things: str) -> None:
    """With a status subresource, each door changes its own half."""
    made = api.make(things, thing("a", {"size": 1}, status={"ready": True}))
    change = {"spec": {"size": 2}, "status": {"ready": True}}

    through_status = done(api.patch(things, "a", change, sub="status"))
    through_main = done(api.patch(things, "a", {"status": {"ready": False}}))

    assert "status" not in made
    assert (through_status["spec"]["size"], through_status["status"]) == (1, {"ready": True})
    assert through_status["metadata"]["generation"] == 1
    assert through_main["status"] == {"ready": True}


def test_status_is_validated(api: Api, things: str) -> None:
    """The schema holds for the status too."""
    api.make(things, thing("a", {"size": 1}))

    answer = api.patch(things, "a", {"status": {"ready": "yes"}}, sub="status")

    assert answer.status == 422
    assert answer.causes[0][:2] == ("status.ready", "FieldValueTypeInvalid")


def test_a_replace_keeps_the_status(api: Api, things: str) -> None:
    """A PUT without a status does not lose it."""
    api.make(things, thing("a", {"size": 1}))
    current = done(api.patch(things, "a", {"status": {"ready": True}}, sub="status"))
    sent = thing("a", {"size": 2})
    sent["metadata"]["resourceVersion"] = current["metadata"]["resourceVersion"]

    assert done(api.replace(things, sent))["status"] == {"ready": True}


def test_a_replace_of_a_custom_object_needs_a_version(api: Api, things: str) -> None:
    """Unlike built-in kinds, custom kinds insist on optimistic concurrency in a PUT."""
    api.make(things, thing("a", {"size": 1}))

    answer = api.replace(things, thing("a", {"size": 2}))

    assert (answer.status, answer.reason) == (422, "Invalid")
    assert answer.causes == [
        ("metadata.resourceVersion", "FieldValueInvalid", "Invalid value: 0: must be specified for an update")
    ]


def test_scale_of_a_custom_object(api: Api, things: str) -> None:
    """The paths of the definition become a Scale that can be read and written."""
    api.make(things, thing("a", {"size": 1}))
    done(api.patch(things, "a", {"status": {"replicas": 3, "selector": "a=b"}}, sub="status"))

    found = done(api.get(things, "a", sub="scale"))
    done(api.patch(things, "a", {"spec": {"replicas": 5}}, sub="scale"))

    assert (found["kind"], found["spec"], found["status"]) == (
        "Scale",
        {"replicas": 1},
        {"replicas": 3, "selector": "a=b"},
    )
    assert api.read(things, "a")["spec"]["size"] == 5


def test_columns(api: Api, things: str) -> None:
    """The definition's columns follow the name; what is missing is null."""
    api.make(things, thing("a", {"size": 4}))

    found = done(api.send("GET", api.path(things, "a"), headers=TABLE))

    shown = [(each["name"], each["type"], each["priority"]) for each in found["columnDefinitions"]]
    assert shown == [
        ("Name", "string", 0),
        ("Size", "integer", 0),
        ("Color", "string", 1),
        ("Ready", "boolean", 0),
        ("Age", "date", 0),
    ]
    assert found["columnDefinitions"][3]["description"] == "Whether it is."
    assert found["columnDefinitions"][1]["description"] == (
        "Custom resource definition column (in JSONPath format): .spec.size"
    )
    assert found["rows"][0]["cells"][:4] == ["a", 4, "red", None]


def test_selectable_fields(api: Api, things: str) -> None:
    """Fields that the definition offers can be selected by; others cannot."""
    api.make(things, thing("a", {"size": 1}))
    api.make(things, thing("b", {"size": 1, "color": "blue"}))

    assert api.names(things, fieldSelector="spec.color=blue") == ["b"]
    answer = api.find(things, fieldSelector="spec.size=1")
    assert (answer.status, answer.message) == (400, "field label not supported: spec.size")


def test_lists_and_watches(api: Api, things: str) -> None:
    """Custom objects are listed and watched as others are, with kind and version on each item."""
    made = api.make(things, thing("a", {"size": 1}))

    listed = done(api.find(things))

    assert (listed["kind"], listed["apiVersion"], listed["items"]) == ("ThingList", f"{GROUP}/v1", [made])
    with api.watch(things, resourceVersion=listed["metadata"]["resourceVersion"]) as watch:
        done(api.delete(things, "a"))
        assert watch.take(1) == [("DELETED", "a")]


def test_discovery(api: Api, things: str) -> None:
    """A custom kind is discovered as others are."""
    assert things
    resources = {each["name"]: each for each in done(api.send("GET", f"/apis/{GROUP}/v1"))["resources"]}

    assert set(resources) == {"things", "things/status", "things/scale"}
    assert (resources["things"]["kind"], resources["things"]["singularName"]) == ("Thing", "thing")
    assert resources["things/scale"]["group"] == "autoscaling"


def test_openapi(api: Api, things: str) -> None:
    """The schema of a custom kind is published for clients such as ``kubectl explain``."""
    assert things
    found = done(api.send("GET", f"/openapi/v3/apis/{GROUP}/v1"))["components"]["schemas"]

    schema = found["com.example.contract.v1.Thing"]
    assert schema["x-kubernetes-group-version-kind"] == [{"group": GROUP, "kind": "Thing", "version": "v1"}]
    assert schema["properties"]["spec"]["properties"]["size"] == {
        "type": "integer",
        "minimum": 1,
        "maximum": 10,
    }
