"""CustomResourceDefinitions: how they come to be served, what they may say, and how they go."""

from http import HTTPStatus
from typing import Any

import pytest

from tests.contract.kubernetes.api import Api, Object, done, eventually
from tests.contract.kubernetes.things import definition, place, served, thing

OPEN: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


@pytest.fixture
def group(api: Api) -> str:
    """A group that no other test uses."""
    return f"{api.unique}.example.com"


def conditions(found: Object) -> dict[str, str]:
    return {each["type"]: each["status"] for each in found["status"].get("conditions") or []}


def test_a_definition_is_filled_in(api: Api, group: str) -> None:
    """Names and conversion have defaults."""
    made = api.make("customresourcedefinitions", definition(group, OPEN))

    assert made["spec"]["names"] == {
        "plural": "things",
        "singular": "thing",
        "kind": "Thing",
        "listKind": "ThingList",
    }
    assert made["spec"]["conversion"] == {"strategy": "None"}
    assert made["status"]["storedVersions"] == ["v1"]


def test_a_definition_is_established(api: Api, group: str) -> None:
    """After a moment the names are accepted and the kind is served."""
    name = api.make("customresourcedefinitions", definition(group, OPEN))["metadata"]["name"]

    found = eventually(
        lambda: (
            read
            if conditions(read := api.read("customresourcedefinitions", name))
            == {"NamesAccepted": "True", "Established": "True"}
            else None
        )
    )

    assert found["status"]["acceptedNames"]["kind"] == "Thing"
    reasons = {each["type"]: (each["reason"], each["message"]) for each in found["status"]["conditions"]}
    assert reasons == {
        "NamesAccepted": ("NoConflicts", "no conflicts found"),
        "Established": ("InitialNamesAccepted", "the initial names have been accepted"),
    }


def test_a_kind_that_is_taken(api: Api, group: str) -> None:
    """Two definitions of one group cannot share a kind: the second is not served."""
    api.make("customresourcedefinitions", definition(group, OPEN))
    assert served(api, place(api, group))
    second = api.make("customresourcedefinitions", definition(group, OPEN, plural="stuff"))["metadata"][
        "name"
    ]

    found = eventually(
        lambda: (
            read
            if conditions(read := api.read("customresourcedefinitions", second)).get("NamesAccepted")
            == "False"
            else None
        )
    )

    [accepted] = [each for each in found["status"]["conditions"] if each["type"] == "NamesAccepted"]
    assert accepted["reason"] in {"KindConflict", "ListKindConflict", "MultipleConflicts", "SingularConflict"}
    assert conditions(found)["Established"] == "False"


BROKEN: list[tuple[str, dict[str, Any], str, str]] = [
    (
        "no schema for a list's items",
        {"schema": {"type": "object", "properties": {"a": {"type": "array"}}}},
        "spec.validation.openAPIV3Schema.properties[a].items",
        "FieldValueRequired",
    ),
    (
        "no type",
        {"schema": {"type": "object", "properties": {"a": {"maxLength": 3}}}},
        "spec.validation.openAPIV3Schema.properties[a].type",
        "FieldValueRequired",
    ),
    (
        "not an object at the top",
        {"schema": {"type": "string"}},
        "spec.validation.openAPIV3Schema.type",
        "FieldValueInvalid",
    ),
    (
        "a rule that cannot be read",
        {"schema": {"type": "object", "x-kubernetes-validations": [{"rule": "self.x =="}]}},
        "spec.validation.openAPIV3Schema.x-kubernetes-validations[0].rule",
        "FieldValueInvalid",
    ),
    (
        "a rule about a field that is not there",
        {"schema": {"type": "object", "x-kubernetes-validations": [{"rule": "self.nope == 1"}]}},
        "spec.validation.openAPIV3Schema.x-kubernetes-validations[0].rule",
        "FieldValueInvalid",
    ),
    (
        "a default of another type",
        {"schema": {"type": "object", "properties": {"a": {"type": "integer", "default": "x"}}}},
        "spec.validation.openAPIV3Schema.properties[a].default",
        "FieldValueTypeInvalid",
    ),
    (
        "a name that does not match",
        {"schema": OPEN, "plural": "Things"},
        "spec.names.plural",
        "FieldValueInvalid",
    ),
]


@pytest.mark.parametrize(
    ("fields", "where", "reason"),
    [pytest.param(fields, where, reason, id=name) for name, fields, where, reason in BROKEN],
)
def test_definitions_that_are_refused(
    api: Api, group: str, fields: dict[str, Any], where: str, reason: str
) -> None:
    """A schema is checked before anything can break on it."""
    answer = api.create("customresourcedefinitions", definition(group, **fields))

    assert (answer.status, answer.reason) == (422, "Invalid")
    assert (where, reason) in [(field, why) for field, why, _ in answer.causes]


def test_the_name_is_plural_and_group(api: Api, group: str) -> None:
    """A definition's name is made of what it defines."""
    sent = definition(group, OPEN)
    sent["metadata"]["name"] = f"other.{group}"

    answer = api.create("customresourcedefinitions", sent)

    assert answer.status == 422
    assert ("metadata.name", "FieldValueInvalid") in [(field, why) for field, why, _ in answer.causes]
    assert 'must be spec.names.plural+"."+spec.group' in answer.message


def test_a_new_schema_takes_effect(api: Api, group: str) -> None:
    """Changing a definition changes what is stored from then on."""
    path = place(api, group)
    old = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string"}}}},
    }
    new = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"b": {"type": "string"}}}},
    }
    name = api.make("customresourcedefinitions", definition(group, old))["metadata"]["name"]
    assert served(api, path)
    version = definition(group, new)["spec"]["versions"]

    done(api.patch("customresourcedefinitions", name, {"spec": {"versions": version}}))

    def takes_b() -> bool:
        # A real server answers 503 until the storage of the new schema has replaced the old one.
        answer = api.create(path, thing("x", {"a": "1", "b": "2"}, group=group), dryRun="All")
        return answer.status != HTTPStatus.SERVICE_UNAVAILABLE and bool(done(answer)["spec"] == {"b": "2"})

    assert eventually(takes_b)


def test_a_deleted_definition_takes_its_objects_along(api: Api, group: str) -> None:
    """When the definition goes, so do the objects and the address."""
    path = place(api, group)
    made = api.make("customresourcedefinitions", definition(group, OPEN))
    assert served(api, path)
    done(api.send("POST", path, thing("a", group=group)))

    done(api.delete("customresourcedefinitions", made["metadata"]["name"]))

    assert eventually(lambda: api.gone("customresourcedefinitions", made["metadata"]["name"]))
    assert eventually(lambda: api.find(path).status == 404)


def test_a_definition_for_the_whole_cluster(api: Api, group: str) -> None:
    """Objects of a cluster-wide kind have no namespace."""
    api.make("customresourcedefinitions", definition(group, OPEN, scope="Cluster"))
    path = f"/apis/{group}/v1/things"
    assert served(api, path)

    made = done(api.send("POST", path, thing("a", group=group)))

    assert "namespace" not in made["metadata"]
    done(api.send("DELETE", f"{path}/a"))


def test_a_kind_without_a_status_subresource(api: Api, group: str) -> None:
    """Without the subresource, status is a field like any other, and there is no such address."""
    api.make("customresourcedefinitions", definition(group, OPEN))
    path = place(api, group)
    assert served(api, path)

    made = done(api.send("POST", path, thing("a", group=group, status={"x": 1})))

    assert made["status"] == {"x": 1}
    assert api.get(path, "a", sub="status").status == 404


def test_two_versions_of_one_kind(api: Api, group: str) -> None:
    """An object written in one version is read in another."""
    sent = definition(group, OPEN)
    sent["spec"]["versions"].append(
        {"name": "v2", "served": True, "storage": False, "schema": {"openAPIV3Schema": OPEN}}
    )
    api.make("customresourcedefinitions", sent)
    path = place(api, group)
    assert served(api, path)
    made = done(api.send("POST", path, thing("a", {"x": 1}, group=group)))

    found = eventually(lambda: _body(api, path.replace("/v1/", "/v2/") + "/a"))

    assert found["apiVersion"] == f"{group}/v2"
    assert (found["spec"], found["metadata"]["uid"]) == ({"x": 1}, made["metadata"]["uid"])


def _body(api: Api, path: str) -> Object | None:
    answer = api.send("GET", path)
    return answer.json if answer.status == 200 else None


def test_a_version_that_is_not_served(api: Api, group: str) -> None:
    """A version may be known but not served."""
    sent = definition(group, OPEN)
    sent["spec"]["versions"].append(
        {"name": "v2", "served": False, "storage": False, "schema": {"openAPIV3Schema": OPEN}}
    )
    api.make("customresourcedefinitions", sent)
    path = place(api, group)
    assert served(api, path)

    assert api.find(path.replace("/v1/", "/v2/")).status == 404


def test_a_status_that_the_schema_fills_in(api: Api, group: str) -> None:
    """What a user writes as status is dropped; what the schema says instead is there at once."""
    condition = {"type": "Ready", "status": "True"}
    status = {
        "type": "object",
        "default": {"conditions": [condition]},
        "properties": {
            "conditions": {
                "type": "array",
                "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            }
        },
    }
    schema = {"type": "object", "properties": {"status": status}}
    api.make("customresourcedefinitions", definition(group, schema, subresources={"status": {}}))
    where = place(api, group)
    assert served(api, where)

    made = api.make(where, thing("a", group=group, status={"conditions": []}))

    assert made["status"] == {"conditions": [condition]}
    assert api.read(where, "a") == made
