"""Server-side apply: who owns which field, and what happens when two want the same."""

from typing import Any

import pytest

from tests.contract.kubernetes.api import APPLY, Api, Object, done
from tests.contract.kubernetes.objects import configmap, container, deployment, pod


def managers(made: Object) -> list[tuple[str, str, str]]:
    """Return manager, operation and subresource of each entry."""
    entries = made["metadata"].get("managedFields", [])
    return [(each["manager"], each["operation"], each.get("subresource", "")) for each in entries]


def owned(made: Object, manager: str, operation: str = "Apply") -> Any:
    """Return the field set that `manager` holds by `operation`."""
    entries = made["metadata"].get("managedFields", [])
    return next(
        (
            each["fieldsV1"]
            for each in entries
            if (each["manager"], each["operation"]) == (manager, operation)
        ),
        None,
    )


def test_apply_creates(api: Api) -> None:
    """What is not there is created, and owned by whoever applied it."""
    answer = api.apply("configmaps", configmap("a", {"x": "1"}))

    assert answer.status == 201
    assert managers(answer.json) == [("tester", "Apply", "")]
    assert owned(answer.json, "tester") == {"f:data": {"f:x": {}}}


def test_the_entry_of_a_manager_says_when_and_in_which_version(api: Api) -> None:
    """A managedFields entry has six facts."""
    [entry] = done(api.apply("configmaps", configmap("a", {"x": "1"})))["metadata"]["managedFields"]

    assert sorted(entry) == ["apiVersion", "fieldsType", "fieldsV1", "manager", "operation", "time"]
    assert (entry["apiVersion"], entry["fieldsType"]) == ("v1", "FieldsV1")


def test_apply_again_changes_nothing(api: Api) -> None:
    """The same intent twice is one change."""
    first = done(api.apply("configmaps", configmap("a", {"x": "1"})))

    assert done(api.apply("configmaps", configmap("a", {"x": "1"}))) == first


def test_apply_changes_what_it_owns(api: Api) -> None:
    """An owner may change its mind."""
    done(api.apply("configmaps", configmap("a", {"x": "1"})))

    assert done(api.apply("configmaps", configmap("a", {"x": "2"})))["data"] == {"x": "2"}


def test_apply_removes_what_it_no_longer_says(api: Api) -> None:
    """A field that only this manager owned goes when it is left out."""
    done(api.apply("configmaps", configmap("a", {"x": "1", "y": "1"})))

    assert done(api.apply("configmaps", configmap("a", {"x": "1"})))["data"] == {"x": "1"}


def test_apply_leaves_what_others_own(api: Api) -> None:
    """Fields of another manager stay."""
    done(api.apply("configmaps", configmap("a", {"x": "1"}), manager="one"))

    both = done(api.apply("configmaps", configmap("a", {"y": "2"}), manager="two"))

    assert both["data"] == {"x": "1", "y": "2"}
    assert managers(both) == [("one", "Apply", ""), ("two", "Apply", "")]


def test_two_may_own_the_same_value(api: Api) -> None:
    """Agreement is no conflict, and the field stays until both let go."""
    done(api.apply("configmaps", configmap("a", {"x": "1"}), manager="one"))
    done(api.apply("configmaps", configmap("a", {"x": "1"}), manager="two"))

    after = done(api.apply("configmaps", configmap("a"), manager="one"))

    assert after["data"] == {"x": "1"}
    assert owned(after, "two") == {"f:data": {"f:x": {}}}


def test_another_value_conflicts(api: Api) -> None:
    """Two managers that want different values: the second is refused, with the first's name and the field."""
    done(api.apply("configmaps", configmap("a", {"x": "1"}), manager="one"))

    answer = api.apply("configmaps", configmap("a", {"x": "2"}), manager="two")

    assert (answer.status, answer.reason) == (409, "Conflict")
    assert answer.message == 'Apply failed with 1 conflict: conflict with "one": .data.x'
    assert answer.causes == [(".data.x", "FieldManagerConflict", 'conflict with "one"')]


def test_many_conflicts_are_all_named(api: Api) -> None:
    """The refusal counts and lists."""
    done(api.apply("configmaps", configmap("a", {"x": "1", "y": "1"}), manager="one"))

    answer = api.apply("configmaps", configmap("a", {"x": "2", "y": "2"}), manager="two")

    assert answer.message == 'Apply failed with 2 conflicts: conflicts with "one":\n- .data.x\n- .data.y'
    assert len(answer.causes) == 2


def test_force_takes_over(api: Api) -> None:
    """With force, the field changes hands."""
    done(api.apply("configmaps", configmap("a", {"x": "1", "y": "1"}), manager="one"))

    after = done(api.apply("configmaps", configmap("a", {"x": "2"}), manager="two", force="true"))

    assert after["data"] == {"x": "2", "y": "1"}
    assert owned(after, "one") == {"f:data": {"f:y": {}}}
    assert owned(after, "two") == {"f:data": {"f:x": {}}}


def test_conflict_with_an_update(api: Api) -> None:
    """What was written by a plain update is owned too; the refusal says by which operation and version."""
    api.make("configmaps", configmap("a", {"x": "1"}), fieldManager="writer")

    answer = api.apply("configmaps", configmap("a", {"x": "2"}))

    assert answer.status == 409
    assert answer.message.startswith('Apply failed with 1 conflict: conflict with "writer" using v1')
    assert answer.message.endswith(": .data.x")


def test_an_update_takes_fields_from_an_applier(api: Api) -> None:
    """A plain write never conflicts: it takes the fields it changes."""
    done(api.apply("configmaps", configmap("a", {"x": "1", "y": "1"}), manager="one"))

    after = done(api.patch("configmaps", "a", {"data": {"x": "2"}}, fieldManager="writer"))

    assert owned(after, "one") == {"f:data": {"f:y": {}}}
    assert owned(after, "writer", "Update") == {"f:data": {"f:x": {}}}


def test_an_update_is_owned_by_the_user_agent(api: Api) -> None:
    """Without fieldManager, the first part of the User-Agent is the manager."""
    made = api.make("configmaps", configmap("a", {"x": "1"}))

    assert managers(made) == [("suite", "Update", "")]
    assert owned(made, "suite", "Update") == {"f:data": {".": {}, "f:x": {}}}


def test_managed_fields_of_nothing(api: Api) -> None:
    """An object with nothing to own has no managedFields."""
    made = api.make("configmaps", {"metadata": {"name": "a"}})

    assert "managedFields" not in made["metadata"]


def test_labels_and_annotations_are_owned_key_by_key(api: Api) -> None:
    """Metadata is shared as data is."""
    made = done(api.apply("configmaps", configmap("a", labels={"l": "1"}, annotations={"x.io/n": "1"})))

    assert owned(made, "tester") == {
        "f:metadata": {"f:annotations": {"f:x.io/n": {}}, "f:labels": {"f:l": {}}},
    }


def test_lists_are_owned_by_key(api: Api) -> None:
    """An element of a keyed list is written as the key it has."""
    made = done(api.apply("pods", pod("a", spec={"containers": [container("main")]})))

    containers = owned(made, "tester")["f:spec"]["f:containers"]
    assert containers == {'k:{"name":"main"}': {".": {}, "f:image": {}, "f:name": {}}}


def test_two_appliers_share_a_keyed_list(api: Api) -> None:
    """Each owns its own containers of one Deployment."""
    labels = {"app": "web"}
    base = deployment("web", 0, containers=[container("a")])
    done(api.apply("deployments", base, manager="one"))
    extra: Object = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container("b")]}},
        },
    }

    after = done(api.apply("deployments", extra, manager="two"))

    assert [each["name"] for each in after["spec"]["template"]["spec"]["containers"]] == ["a", "b"]


def test_an_applier_that_leaves_out_its_element_removes_it(api: Api) -> None:
    """Keyed elements go as fields do."""
    done(api.apply("deployments", deployment("web", 0, containers=[container("a"), container("b")])))

    after = done(api.apply("deployments", deployment("web", 0, containers=[container("b")])))

    assert [each["name"] for each in after["spec"]["template"]["spec"]["containers"]] == ["b"]


def test_what_one_object_was_given_is_not_taken_for_granted_in_the_next(api: Api) -> None:
    """The defaults of an object that was made by applying are owned by whoever creates another."""
    done(api.apply("deployments", deployment("first", 0, containers=[container("a")])))

    second = done(api.create("deployments", deployment("second", 0, containers=[container("a")])))

    owned = second["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]
    assert {"f:rollingUpdate", "f:type"} <= owned["f:strategy"].keys()


def test_finalizers_are_a_set(api: Api) -> None:
    """Two managers may each add a finalizer."""
    done(api.apply("configmaps", configmap("a", finalizers=["x.io/one"]), manager="one"))

    after = done(api.apply("configmaps", configmap("a", finalizers=["x.io/two"]), manager="two"))

    assert after["metadata"]["finalizers"] == ["x.io/one", "x.io/two"]
    assert owned(after, "two")["f:metadata"] == {"f:finalizers": {'v:"x.io/two"': {}}}
    done(api.patch("configmaps", "a", {"metadata": {"finalizers": None}}))


def test_apply_to_the_status_is_a_separate_entry(api: Api) -> None:
    """What is applied through a subresource is held apart."""
    api.make("pods", pod("a"))
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "status": {"message": "hi"}}

    after = done(api.apply("pods", body, sub="status"))

    assert ("tester", "Apply", "status") in managers(after)
    assert after["status"]["message"] == "hi"


def test_apply_needs_a_manager(api: Api) -> None:
    """Whoever applies must say who it is."""
    answer = api.patch("configmaps", "a", configmap("a"), kind=APPLY)

    assert (answer.status, answer.reason) == (422, "Invalid")
    assert answer.causes == [
        ("fieldManager", "FieldValueRequired", "Required value: is required for apply patch")
    ]


def test_force_is_only_for_apply(api: Api) -> None:
    """Other patches never conflict and cannot be forced."""
    api.make("configmaps", configmap("a"))

    answer = api.patch("configmaps", "a", {}, force="true")

    assert (answer.status, answer.reason) == (422, "Invalid")
    assert answer.causes == [
        ("force", "FieldValueForbidden", "Forbidden: may not be specified for non-apply patch")
    ]


def test_apply_must_not_carry_managed_fields(api: Api) -> None:
    """The server keeps the books."""
    answer = api.apply("configmaps", configmap("a", managedFields=[{"manager": "x", "operation": "Apply"}]))

    assert (answer.status, answer.reason) == (400, "BadRequest")
    assert answer.message == "metadata.managedFields must be nil"


def test_apply_must_say_its_kind(api: Api) -> None:
    """An intent names its version and kind."""
    answer = api.apply("configmaps", {"metadata": {"name": "a"}})

    assert (answer.status, answer.reason) == (400, "BadRequest")


def test_apply_under_another_name_is_refused(api: Api) -> None:
    """The name in the intent is the name in the address."""
    answer = api.patch("configmaps", "a", configmap("b"), kind=APPLY, fieldManager="x")

    assert (answer.status, answer.reason) == (400, "BadRequest")


def test_apply_takes_yaml(api: Api) -> None:
    """The type says yaml, and yaml is understood."""
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  x: one\n"

    answer = api.patch("configmaps", "a", text, kind=APPLY, fieldManager="x")

    assert (answer.status, answer.json["data"]) == (201, {"x": "one"})


@pytest.mark.parametrize(
    ("body", "status"),
    [
        pytest.param(b"a: b: c", 400, id="not yaml"),
        pytest.param({**configmap("a"), "data": {"x": 1}}, 500, id="a number where a string is due"),
        pytest.param({**configmap("a"), "dat": {"x": "1"}}, 500, id="an unknown field"),
    ],
)
def test_intents_that_do_not_fit(api: Api, body: object, status: int) -> None:
    """An intent must fit the schema; a type that does not is the server's fault, says the server."""
    answer = api.patch("configmaps", "a", body, kind=APPLY, fieldManager="x")

    assert answer.status == status


def test_a_dry_apply_stores_nothing(api: Api) -> None:
    """Trying an intent first is answered in full."""
    answer = api.apply("configmaps", configmap("a", {"x": "1"}), dryRun="All")

    assert (answer.status, answer.json["data"]) == (201, {"x": "1"})
    assert api.gone("configmaps", "a")


def test_apply_to_what_is_being_deleted_is_an_update(api: Api) -> None:
    """An object that waits for its finalizers can still be applied to."""
    done(api.apply("configmaps", configmap("a", {"x": "1"}, finalizers=["x.io/wait"])))
    done(api.delete("configmaps", "a"))

    after = done(api.apply("configmaps", configmap("a", {"x": "2"}, finalizers=["x.io/wait"])))

    assert after["data"] == {"x": "2"}
    assert "deletionTimestamp" in after["metadata"]
    done(api.patch("configmaps", "a", {"metadata": {"finalizers": None}}))


def test_apply_with_an_old_version_conflicts(api: Api) -> None:
    """A resourceVersion in an intent is a precondition."""
    first = done(api.apply("configmaps", configmap("a", {"x": "1"})))
    done(api.apply("configmaps", configmap("a", {"x": "2"})))
    version = first["metadata"]["resourceVersion"]

    answer = api.apply("configmaps", configmap("a", {"x": "3"}, resourceVersion=version))

    assert (answer.status, answer.reason) == (409, "Conflict")


def test_managed_fields_can_be_wiped(api: Api) -> None:
    """An update with one empty entry resets the books."""
    done(api.apply("configmaps", configmap("a", {"x": "1"})))

    after = done(api.patch("configmaps", "a", {"metadata": {"managedFields": [{}]}}))

    assert "managedFields" not in after["metadata"]


def test_status_writers_are_told_apart(api: Api) -> None:
    """The same manager has one entry per subresource."""
    api.make("pods", pod("a"), fieldManager="kubelet")

    after = done(
        api.patch("pods", "a", {"status": {"phase": "Running"}}, sub="status", fieldManager="kubelet")
    )

    assert managers(after) == [("kubelet", "Update", ""), ("kubelet", "Update", "status")]
