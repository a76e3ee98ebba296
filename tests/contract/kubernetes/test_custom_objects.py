"""Objects of a custom kind: patches, status and scale, columns and selectors."""

import pytest

from tests.contract.kubernetes.api import APPLY, JSON_PATCH, MERGE, STRATEGIC, Api, done
from tests.contract.kubernetes.tables import TABLE
from tests.contract.kubernetes.things import GROUP, thing


def test_a_custom_object_is_stored(api: Api, things: str) -> None:
    """A custom object has all that others have, a generation included."""
    made = api.make(things, thing("a", {"size": 1}))

    assert (made["apiVersion"], made["kind"]) == (f"{GROUP}/v1", "Thing")
    assert made["metadata"]["generation"] == 1
    assert api.read(things, "a") == made


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
