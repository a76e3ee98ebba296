"""Create, read, replace and delete: one object at a time."""

import re

from tests.contract.kubernetes.api import MERGE, Api, done
from tests.contract.kubernetes.objects import configmap, pod

UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def test_a_created_object_comes_back_with_what_the_server_decides(api: Api) -> None:
    """The server sets namespace, uid, resourceVersion and creationTimestamp, and keeps what was sent."""
    answer = api.create("configmaps", configmap("a", {"x": "1"}))

    made = answer.json
    assert answer.status == 201
    assert made["metadata"]["namespace"] == api.namespace
    assert UID.fullmatch(made["metadata"]["uid"])
    assert int(made["metadata"]["resourceVersion"]) > 0
    assert TIME.fullmatch(made["metadata"]["creationTimestamp"])
    assert made["data"] == {"x": "1"}


def test_kind_and_version_come_back_even_if_not_sent(api: Api) -> None:
    """A body need not say what the address already says."""
    made = api.make("configmaps", {"metadata": {"name": "a"}})

    assert (made["apiVersion"], made["kind"]) == ("v1", "ConfigMap")


def test_what_the_server_decides_cannot_be_sent(api: Api) -> None:
    """A uid and a creationTimestamp in the body of a create are replaced."""
    sent = configmap("a", uid="mine", creationTimestamp="2001-01-01T00:00:00Z", generation=7, selfLink="/x")

    made = api.make("configmaps", sent)["metadata"]

    assert made["uid"] != "mine"
    assert not made["creationTimestamp"].startswith("2001")
    assert "selfLink" not in made


def test_create_with_a_resource_version_is_refused(api: Api) -> None:
    """What does not exist has no version; the real server answers with a fault of its own here."""
    answer = api.create("configmaps", configmap("a", resourceVersion="1"))

    assert answer.status == 500
    assert answer.message == "resourceVersion should not be set on objects to be created"


def test_a_second_create_of_the_same_name_is_refused(api: Api) -> None:
    """Names are unique per resource and namespace, and the refusal names the object."""
    api.make("configmaps", configmap("a"))

    answer = api.create("configmaps", configmap("a"))

    assert (answer.status, answer.reason) == (409, "AlreadyExists")
    assert answer.message == 'configmaps "a" already exists'
    assert answer.json["details"] == {"name": "a", "kind": "configmaps"}


def test_the_same_name_may_be_used_for_another_resource(api: Api) -> None:
    """A Secret and a ConfigMap do not meet."""
    api.make("configmaps", configmap("a"))

    assert api.create("secrets", {"metadata": {"name": "a"}}).status == 201


def test_get_returns_what_create_returned(api: Api) -> None:
    """Reading an object shows exactly what was stored."""
    made = api.make("configmaps", configmap("a", {"x": "1"}))

    assert api.read("configmaps", "a") == made


def test_get_of_what_is_not_there(api: Api) -> None:
    """A missing object is a Status that says which one."""
    answer = api.get("configmaps", "nope")

    assert answer.status == 404
    assert answer.json == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'configmaps "nope" not found',
        "reason": "NotFound",
        "details": {"name": "nope", "kind": "configmaps"},
        "code": 404,
    }


def test_the_group_is_part_of_a_refusal(api: Api) -> None:
    """Outside the core group, messages and details carry the group."""
    answer = api.get("deployments", "nope")

    assert answer.message == 'deployments.apps "nope" not found'
    assert answer.json["details"] == {"name": "nope", "group": "apps", "kind": "deployments"}


def test_create_in_a_namespace_that_is_not_there(api: Api) -> None:
    """Objects need their namespace first."""
    answer = api.send("POST", api.path("configmaps", namespace="nowhere"), configmap("a"))

    assert (answer.status, answer.reason) == (404, "NotFound")
    assert answer.message == 'namespaces "nowhere" not found'


def test_create_with_another_namespace_in_the_body(api: Api) -> None:
    """The body may not contradict the address."""
    answer = api.create("configmaps", configmap("a", namespace="other"))

    assert (answer.status, answer.reason) == (400, "BadRequest")
    assert (
        answer.message
        == "the namespace of the provided object does not match the namespace sent on the request"
    )


def test_replace_stores_the_whole_object(api: Api) -> None:
    """A PUT removes what it does not mention, and gives a new version."""
    made = api.make("configmaps", configmap("a", {"x": "1"}, labels={"l": "1"}))
    sent = configmap("a", {"y": "2"}, resourceVersion=made["metadata"]["resourceVersion"])

    answer = api.replace("configmaps", sent)

    stored = answer.json
    assert answer.status == 200
    assert stored["data"] == {"y": "2"}
    assert "labels" not in stored["metadata"]
    assert int(stored["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])


def test_replace_keeps_what_the_server_decided(api: Api) -> None:
    """Uid and creationTimestamp survive a PUT that leaves them out."""
    made = api.make("configmaps", configmap("a"))

    stored = done(api.replace("configmaps", configmap("a", {"y": "2"})))

    assert stored["metadata"]["uid"] == made["metadata"]["uid"]
    assert stored["metadata"]["creationTimestamp"] == made["metadata"]["creationTimestamp"]


def test_replace_with_an_old_version_conflicts(api: Api) -> None:
    """Whoever read first and writes second has to read again."""
    made = api.make("configmaps", configmap("a"))
    done(api.replace("configmaps", configmap("a", {"x": "1"})))

    answer = api.replace("configmaps", made)

    assert (answer.status, answer.reason) == (409, "Conflict")
    assert answer.message == (
        'Operation cannot be fulfilled on configmaps "a": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )


def test_replace_without_a_version_wins(api: Api) -> None:
    """Leaving the version out of a PUT means: whatever is there."""
    api.make("configmaps", configmap("a"))
    done(api.replace("configmaps", configmap("a", {"x": "1"})))

    assert done(api.replace("configmaps", configmap("a", {"x": "2"})))["data"] == {"x": "2"}


def test_replace_with_another_uid_conflicts(api: Api) -> None:
    """A uid in a PUT is a precondition."""
    api.make("configmaps", configmap("a"))
    other = "11111111-1111-4111-8111-111111111111"

    answer = api.replace("configmaps", configmap("a", uid=other))

    assert (answer.status, answer.reason) == (409, "Conflict")
    assert f"Precondition failed: UID in precondition: {other}, UID in object meta: " in answer.message


def test_replace_of_what_is_not_there(api: Api) -> None:
    """A PUT does not create a ConfigMap."""
    answer = api.replace("configmaps", configmap("a"))

    assert (answer.status, answer.reason) == (404, "NotFound")


def test_replace_under_another_name_is_refused(api: Api) -> None:
    """The name in the body must be the name in the address."""
    api.make("configmaps", configmap("a"))

    answer = api.send("PUT", api.path("configmaps", "a"), configmap("b"))

    assert (answer.status, answer.reason) == (400, "BadRequest")
    assert answer.message == "the name of the object (b) does not match the name on the URL (a)"


def test_a_write_that_changes_nothing_keeps_the_version(api: Api) -> None:
    """Putting back what is there is not a change: no event, no new resourceVersion."""
    made = api.make("configmaps", configmap("a", {"x": "1"}))

    again = done(api.replace("configmaps", made))

    assert again["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


def test_delete_says_what_it_deleted(api: Api) -> None:
    """Deleting a plain object is answered with a Status that names it."""
    made = api.make("configmaps", configmap("a"))

    answer = api.delete("configmaps", "a")

    assert answer.status == 200
    assert answer.json == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {"name": "a", "kind": "configmaps", "uid": made["metadata"]["uid"]},
    }
    assert api.gone("configmaps", "a")


def test_delete_of_what_is_not_there(api: Api) -> None:
    """Deleting twice is an error the second time."""
    answer = api.delete("configmaps", "nope")

    assert (answer.status, answer.reason) == (404, "NotFound")


def test_a_new_object_of_the_same_name_is_another_object(api: Api) -> None:
    """A name can be used again, with a new uid."""
    first = api.make("configmaps", configmap("a"))
    done(api.delete("configmaps", "a"))

    second = api.make("configmaps", configmap("a"))

    assert second["metadata"]["uid"] != first["metadata"]["uid"]


def test_delete_collection_deletes_what_is_selected(api: Api) -> None:
    """A selector narrows a DELETE of the collection; the answer lists what went."""
    for name, color in (("a", "red"), ("b", "blue"), ("c", "red")):
        api.make("secrets", {"metadata": {"name": name, "labels": {"color": color}}})

    answer = api.delete_all("secrets", labelSelector="color=red")

    assert answer.status == 200
    assert answer.json["kind"] == "SecretList"
    assert [item["metadata"]["name"] for item in answer.json["items"]] == ["a", "c"]
    assert api.names("secrets") == ["b"]


def test_an_immutable_configmap_refuses_new_data(api: Api) -> None:
    """Immutable means that data and the word itself stay."""
    api.make("configmaps", {**configmap("a", {"x": "1"}), "immutable": True})

    answer = api.patch("configmaps", "a", {"data": {"x": "2"}})

    assert (answer.status, answer.reason) == (422, "Invalid")
    assert answer.causes == [
        ("data", "FieldValueForbidden", "Forbidden: field is immutable when `immutable` is set")
    ]


def test_string_data_of_a_secret_becomes_data(api: Api) -> None:
    """A Secret shows its stringData only as base64 in data."""
    made = api.make("secrets", {"metadata": {"name": "a"}, "stringData": {"k": "hello"}})

    assert made["data"] == {"k": "aGVsbG8="}
    assert "stringData" not in made
    assert made["type"] == "Opaque"


def test_an_object_of_another_kind_is_refused(api: Api) -> None:
    """The address decides the kind; a body of another kind is a mistake."""
    answer = api.create("configmaps", {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}})

    assert (answer.status, answer.reason) == (400, "BadRequest")
    assert answer.message.startswith('Secret in version "v1" cannot be handled as a ConfigMap')


def test_an_object_of_another_version_is_refused(api: Api) -> None:
    """A version that the group does not have is a mistake."""
    answer = api.create("configmaps", {"apiVersion": "v2", "kind": "ConfigMap", "metadata": {"name": "x"}})

    assert (answer.status, answer.reason) == (400, "BadRequest")
    assert answer.message.startswith('ConfigMap in version "v2" cannot be handled as a ConfigMap')


def test_a_patch_of_what_is_not_there(api: Api) -> None:
    """A merge patch does not create."""
    answer = api.patch("configmaps", "nope", {"data": {"x": "1"}}, kind=MERGE)

    assert (answer.status, answer.message) == (404, 'configmaps "nope" not found')


def test_a_pod_is_answered_whole_when_deleted_with_grace_zero(api: Api) -> None:
    """Deleting a pod returns the pod, not a Status."""
    api.make("pods", pod("a"))

    answer = api.delete("pods", "a", gracePeriodSeconds=0)

    assert (answer.status, answer.json["kind"]) == (200, "Pod")
    assert api.gone("pods", "a")
