"""Merge, JSON and strategic-merge patches."""

from typing import Any

import pytest

from tests.contract.kubernetes.api import JSON_PATCH, MERGE, STRATEGIC, Api, done
from tests.contract.kubernetes.objects import configmap, container, deployment, node, pod


def test_a_merge_patch_adds_changes_and_removes(api: Api) -> None:
    """Keys in the patch win, null removes, the rest stays."""
    api.make("configmaps", configmap("a", {"keep": "1", "change": "1", "drop": "1"}))

    patched = done(api.patch("configmaps", "a", {"data": {"change": "2", "drop": None, "new": "3"}}))

    assert patched["data"] == {"keep": "1", "change": "2", "new": "3"}


def test_a_merge_patch_replaces_lists(api: Api) -> None:
    """A merge patch knows no list keys."""
    api.make("pods", pod("a", spec={"tolerations": [{"key": "x", "operator": "Exists"}]}))
    added = [{"key": "z", "operator": "Exists"}]
    kept = api.read("pods", "a")["spec"]["tolerations"]

    patched = done(api.patch("pods", "a", {"spec": {"tolerations": [*kept, *added]}}))

    assert patched["spec"]["tolerations"] == [*kept, *added]


def test_a_merge_patch_with_the_current_version_is_taken(api: Api) -> None:
    """A resourceVersion in a patch is a precondition that may hold."""
    made = api.make("configmaps", configmap("a"))
    version = made["metadata"]["resourceVersion"]

    assert (
        api.patch("configmaps", "a", {"metadata": {"resourceVersion": version}, "data": {"x": "1"}}).status
        == 200
    )


@pytest.mark.parametrize("kind", [MERGE, STRATEGIC], ids=["merge", "strategic"])
def test_a_patch_with_an_old_version_conflicts(api: Api, kind: str) -> None:
    """A resourceVersion in a patch is a precondition that may fail."""
    made = api.make("configmaps", configmap("a"))
    done(api.patch("configmaps", "a", {"data": {"x": "1"}}))
    version = made["metadata"]["resourceVersion"]

    answer = api.patch(
        "configmaps", "a", {"metadata": {"resourceVersion": version}, "data": {"x": "2"}}, kind=kind
    )

    assert (answer.status, answer.reason) == (409, "Conflict")


def test_a_patch_cannot_change_the_uid(api: Api) -> None:
    """A uid in a patch is a change to a field that never changes."""
    api.make("configmaps", configmap("a"))

    answer = api.patch("configmaps", "a", {"metadata": {"uid": "11111111-1111-4111-8111-111111111111"}})

    assert (answer.status, answer.reason) == (422, "Invalid")


def test_a_patch_that_changes_nothing_keeps_the_version(api: Api) -> None:
    """An empty patch is not a change."""
    made = api.make("configmaps", configmap("a", {"x": "1"}))

    patched = done(api.patch("configmaps", "a", {"data": {"x": "1"}}))

    assert patched["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


def test_a_patch_cannot_rename(api: Api) -> None:
    """The name in a patch must be the name in the address."""
    api.make("configmaps", configmap("a"))

    answer = api.patch("configmaps", "a", {"metadata": {"name": "b"}})

    assert (answer.status, answer.reason) == (400, "BadRequest")
    assert answer.message == "the name of the object (b) does not match the name on the URL (a)"


def test_a_patch_cannot_move(api: Api) -> None:
    """The namespace in a patch must be the namespace in the address."""
    api.make("configmaps", configmap("a"))

    answer = api.patch("configmaps", "a", {"metadata": {"namespace": "other"}})

    assert (answer.status, answer.reason) == (400, "BadRequest")


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        pytest.param([{"op": "add", "path": "/data/y", "value": "2"}], {"x": "1", "y": "2"}, id="add a key"),
        pytest.param([{"op": "add", "path": "/data/x", "value": "2"}], {"x": "2"}, id="add over a key"),
        pytest.param([{"op": "replace", "path": "/data/x", "value": "2"}], {"x": "2"}, id="replace"),
        pytest.param(
            [{"op": "replace", "path": "/data/y", "value": "2"}],
            {"x": "1", "y": "2"},
            id="replace what is not there adds it",
        ),
        pytest.param([{"op": "remove", "path": "/data/x"}], None, id="remove the last key"),
        pytest.param([{"op": "move", "from": "/data/x", "path": "/data/y"}], {"y": "1"}, id="move"),
        pytest.param([{"op": "copy", "from": "/data/x", "path": "/data/y"}], {"x": "1", "y": "1"}, id="copy"),
        pytest.param(
            [
                {"op": "test", "path": "/data/x", "value": "1"},
                {"op": "replace", "path": "/data/x", "value": "3"},
            ],
            {"x": "3"},
            id="a test that holds",
        ),
        pytest.param(
            [{"op": "add", "path": "/data/a~1b", "value": "2"}], None, id="an escaped slash is an invalid key"
        ),
    ],
)
def test_json_patch(api: Api, operations: list[Any], expected: dict[str, str] | None) -> None:
    """Operations are carried out in order."""
    api.make("configmaps", configmap("a", {"x": "1"}))

    answer = api.patch("configmaps", "a", operations, kind=JSON_PATCH)

    assert answer.json.get("data") == expected


@pytest.mark.parametrize(
    ("operations", "status", "reason"),
    [
        pytest.param(
            [{"op": "test", "path": "/data/x", "value": "9"}], 422, "Invalid", id="a test that fails"
        ),
        pytest.param([{"op": "remove", "path": "/data/nope"}], 422, "Invalid", id="remove what is not there"),
        pytest.param(
            [{"op": "add", "path": "/nope/deep/x", "value": "1"}], 422, "Invalid", id="add below nothing"
        ),
        pytest.param([{"op": "jump", "path": "/data/x"}], 422, "Invalid", id="an unknown operation"),
        pytest.param({"op": "add"}, 400, "BadRequest", id="not a list"),
        pytest.param(b"[", 400, "BadRequest", id="not JSON"),
    ],
)
def test_json_patch_refusals(api: Api, operations: object, status: int, reason: str) -> None:
    """A patch that cannot be carried out changes nothing."""
    made = api.make("configmaps", configmap("a", {"x": "1"}))

    answer = api.patch("configmaps", "a", operations, kind=JSON_PATCH)

    assert (answer.status, answer.reason) == (status, reason)
    assert api.read("configmaps", "a") == made


def test_json_patch_list_positions(api: Api) -> None:
    """A dash appends, a number inserts before."""
    api.make("nodes", node(api.unique, spec={"taints": [{"key": "b", "effect": "NoSchedule"}]}))
    taint = {"effect": "NoSchedule"}
    operations = [
        {"op": "add", "path": "/spec/taints/0", "value": {"key": "a", **taint}},
        {"op": "add", "path": "/spec/taints/-", "value": {"key": "c", **taint}},
    ]

    patched = done(api.patch("nodes", api.unique, operations, kind=JSON_PATCH))

    keys = [each["key"] for each in patched["spec"]["taints"] if each["key"] in "abc"]
    assert keys == ["a", "b", "c"]


def test_json_patch_that_tests_the_version(api: Api) -> None:
    """A test of resourceVersion is how a JSON patch states a precondition."""
    api.make("configmaps", configmap("a"))
    operations = [
        {"op": "test", "path": "/metadata/resourceVersion", "value": "1"},
        {"op": "add", "path": "/data", "value": {"x": "1"}},
    ]

    answer = api.patch("configmaps", "a", operations, kind=JSON_PATCH)

    assert (answer.status, answer.reason) == (422, "Invalid")


def test_a_strategic_patch_merges_containers_by_name(api: Api) -> None:
    """Lists with a merge key are merged, others are replaced."""
    api.make("deployments", deployment("web", 0, containers=[container("a"), container("b")]))
    change = {"spec": {"template": {"spec": {"containers": [{"name": "b", "image": "new:2"}]}}}}

    patched = done(api.patch("deployments", "web", change, kind=STRATEGIC))

    images = {each["name"]: each["image"] for each in patched["spec"]["template"]["spec"]["containers"]}
    assert images == {"a": "registry.example/app:1", "b": "new:2"}


def test_a_strategic_patch_puts_new_containers_first(api: Api) -> None:
    """What a patch adds to a merged list comes before what was there."""
    api.make("deployments", deployment("web", 0, containers=[container("a")]))
    change = {"spec": {"template": {"spec": {"containers": [container("b")]}}}}

    patched = done(api.patch("deployments", "web", change, kind=STRATEGIC))

    assert [each["name"] for each in patched["spec"]["template"]["spec"]["containers"]] == ["b", "a"]


def test_a_strategic_patch_deletes_by_key(api: Api) -> None:
    """``$patch: delete`` removes one element."""
    api.make("deployments", deployment("web", 0, containers=[container("a"), container("b")]))
    change = {"spec": {"template": {"spec": {"containers": [{"name": "a", "$patch": "delete"}]}}}}

    patched = done(api.patch("deployments", "web", change, kind=STRATEGIC))

    assert [each["name"] for each in patched["spec"]["template"]["spec"]["containers"]] == ["b"]


def test_a_strategic_patch_replaces_on_request(api: Api) -> None:
    """``$patch: replace`` in a list throws away what was there."""
    api.make("deployments", deployment("web", 0, containers=[container("a"), container("b")]))
    change = {"spec": {"template": {"spec": {"containers": [{"$patch": "replace"}, container("c")]}}}}

    patched = done(api.patch("deployments", "web", change, kind=STRATEGIC))

    assert [each["name"] for each in patched["spec"]["template"]["spec"]["containers"]] == ["c"]


def test_a_strategic_patch_replaces_a_map_on_request(api: Api) -> None:
    """``$patch: replace`` in a map throws away its other keys."""
    api.make("configmaps", configmap("a", {"x": "1", "y": "1"}))

    patched = done(api.patch("configmaps", "a", {"data": {"$patch": "replace", "z": "1"}}, kind=STRATEGIC))

    assert patched["data"] == {"z": "1"}


def test_a_strategic_patch_keeps_keys_on_request(api: Api) -> None:
    """``$retainKeys`` names what may stay of a map."""
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    api.make("deployments", deployment("web", 0, spec={"strategy": rolling}))
    change = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}

    patched = done(api.patch("deployments", "web", change, kind=STRATEGIC))

    assert patched["spec"]["strategy"] == {"type": "Recreate"}


def test_a_strategic_patch_deletes_from_a_list_of_words(api: Api) -> None:
    """``$deleteFromPrimitiveList`` takes words out of a merged list."""
    api.make("configmaps", configmap("a", finalizers=["x.io/a", "x.io/b"]))

    patched = done(
        api.patch(
            "configmaps",
            "a",
            {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x.io/a"]}},
            kind=STRATEGIC,
        )
    )

    assert patched["metadata"]["finalizers"] == ["x.io/b"]
    done(api.patch("configmaps", "a", {"metadata": {"finalizers": None}}))


def test_a_strategic_patch_sets_the_order_of_a_list(api: Api) -> None:
    """``$setElementOrder`` says where merged elements stand."""
    api.make("deployments", deployment("web", 0, containers=[container("a"), container("b")]))
    inner = {
        "$setElementOrder/containers": [{"name": "b"}, {"name": "a"}],
        "containers": [{"name": "a", "image": "i"}],
    }

    patched = done(api.patch("deployments", "web", {"spec": {"template": {"spec": inner}}}, kind=STRATEGIC))

    assert [each["name"] for each in patched["spec"]["template"]["spec"]["containers"]] == ["b", "a"]


def test_a_strategic_patch_replaces_taints(api: Api) -> None:
    """Taints of a node have no merge key: the list is replaced."""
    api.make("nodes", node(api.unique, spec={"taints": [{"key": "a", "effect": "NoSchedule"}]}))

    patched = done(
        api.patch(
            "nodes", api.unique, {"spec": {"taints": [{"key": "b", "effect": "NoExecute"}]}}, kind=STRATEGIC
        )
    )

    assert [each["key"] for each in patched["spec"]["taints"] if "/" not in each["key"]] == ["b"]


def test_a_strategic_patch_merges_conditions_by_type(api: Api) -> None:
    """Conditions of a node are merged by their type."""
    api.make("nodes", node(api.unique))
    for kind, status in (("Ready", "True"), ("DiskPressure", "False"), ("Ready", "False")):
        change = {"status": {"conditions": [{"type": kind, "status": status}]}}
        patched = done(api.patch("nodes", api.unique, change, kind=STRATEGIC, sub="status"))

    assert {each["type"]: each["status"] for each in patched["status"]["conditions"]} == {
        "Ready": "False",
        "DiskPressure": "False",
    }


def test_env_is_merged_by_name(api: Api) -> None:
    """Variables of a container are merged by name, deep in a template."""
    api.make(
        "deployments", deployment("web", 0, containers=[container("a", env=[{"name": "X", "value": "1"}])])
    )
    change = {"name": "a", "env": [{"name": "Y", "value": "2"}]}

    patched = done(
        api.patch(
            "deployments", "web", {"spec": {"template": {"spec": {"containers": [change]}}}}, kind=STRATEGIC
        )
    )

    env = patched["spec"]["template"]["spec"]["containers"][0]["env"]
    assert sorted(each["name"] for each in env) == ["X", "Y"]


@pytest.mark.parametrize("kind", [MERGE, STRATEGIC], ids=["merge", "strategic"])
@pytest.mark.parametrize(
    ("body", "status"),
    [
        pytest.param(b"{", 400, id="not JSON"),
        pytest.param(b"[]", 400, id="a list"),
        pytest.param({"data": {"x": 1}}, 422, id="a number where a string is due"),
        pytest.param({"data": []}, 422, id="a list where a map is due"),
    ],
)
def test_patches_that_do_not_fit(api: Api, kind: str, body: object, status: int) -> None:
    """A patch that is no patch is a bad request; one whose result is no object is invalid."""
    api.make("configmaps", configmap("a", {"y": "1"}))

    assert api.patch("configmaps", "a", body, kind=kind).status == status


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/json", ""], ids=["text", "plain json", "no type"]
)
def test_a_patch_needs_a_type(api: Api, kind: str) -> None:
    """The Content-Type of a patch says how it is meant."""
    api.make("configmaps", configmap("a"))

    answer = api.patch("configmaps", "a", {"data": {"x": "1"}}, kind=kind)

    assert (answer.status, answer.reason) == (415, "UnsupportedMediaType")


def test_a_patch_is_validated(api: Api) -> None:
    """The result of a patch must be a valid object."""
    api.make("pods", pod("a"))

    answer = api.patch("pods", "a", {"spec": {"containers": [{"name": "main", "image": ""}]}}, kind=STRATEGIC)

    assert (answer.status, answer.reason) == (422, "Invalid")
    assert ("spec.containers[0].image", "FieldValueRequired", "Required value") in answer.causes
