from typing import Any

import pytest

from karpenter_local.apiserver.managed.entries import APPLY, UPDATE, Key
from karpenter_local.apiserver.managed.owners import (
    Conflicts,
    Write,
    after_create,
    after_update,
    apply,
    created_fields,
)
from karpenter_local.apiserver.managed.sets import Set
from karpenter_local.apiserver.managed.shapes import Shape, of_custom_kind

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "size": {"type": "integer"},
                "color": {"type": "string"},
                "parts": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object",
                        "properties": {"name": {"type": "string"}, "weight": {"type": "integer"}},
                    },
                },
                "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                "steps": {"type": "array", "items": {"type": "string"}},
            },
        }
    },
}
SHAPE: Shape = of_custom_kind(SCHEMA)


def writing(manager: str, operation: str = APPLY, now: str = "later") -> Write:
    """Return a write by `manager`."""
    return Write(key=Key(operation, manager, "v1"), now=now, shape=SHAPE, ignored={})


def thing(managed: list[Any] | None = None, **spec: Any) -> dict[str, Any]:
    meta: dict[str, Any] = {"name": "t", "resourceVersion": "1"}
    if managed:
        meta["managedFields"] = managed
    return {"kind": "Thing", "apiVersion": "v1", "metadata": meta, "spec": spec}


def owned(entries: list[Any], manager: str) -> Set:
    found: Set = next((entry["fieldsV1"] for entry in entries if entry["manager"] == manager), {})
    return found


def applied(live: dict[str, Any], manager: str, *, force: bool = False, **spec: Any) -> dict[str, Any]:
    """Return the object after an apply, with its managers."""
    given = {"kind": "Thing", "apiVersion": "v1", "metadata": {"name": "t"}, "spec": spec}
    result = apply(live, given, writing(manager), force=force)
    return {**result.value, "metadata": {**result.value["metadata"], "managedFields": result.managers}}


def test_a_creator_owns_what_it_wrote() -> None:
    """Everything that is not in a blank object is the creator's; its name has no owner."""
    blank = {"kind": "Thing", "apiVersion": "v1"}

    made, write = thing(size=1, parts=[{"name": "a"}]), writing("maker", UPDATE)
    entries = after_create(made, created_fields(made, blank, write), write)

    parts: Set = {".": {}, 'k:{"name":"a"}': {".": {}, "f:name": {}}}
    assert owned(entries, "maker") == {"f:spec": {".": {}, "f:parts": parts, "f:size": {}}}


def test_an_update_takes_over_what_it_changed() -> None:
    """Ownership moves with the change, and with nothing else."""
    before = applied(thing(), "a", size=1, color="red")
    after = {**before, "spec": {"size": 2, "color": "red"}}

    entries = after_update(after, before, writing("b", UPDATE), {})

    assert entries is not None
    assert owned(entries, "a") == {"f:spec": {"f:color": {}}}
    assert owned(entries, "b") == {"f:spec": {"f:size": {}}}


def test_a_conflict_names_the_owner_and_the_field() -> None:
    """Changing another manager's value is refused, and changes nothing."""
    live = applied(thing(), "a", size=1)

    with pytest.raises(Conflicts) as caught:
        applied(live, "b", size=2)

    assert caught.value.causes == [('"a"', ".spec.size")]


def test_agreement_is_no_conflict() -> None:
    """Two managers may own the same value."""
    live = applied(thing(), "a", size=1)

    shared = applied(live, "b", size=1)

    entries = shared["metadata"]["managedFields"]
    assert owned(entries, "a") == owned(entries, "b") == {"f:spec": {"f:size": {}}}


def test_force_takes_ownership_away() -> None:
    """A manager that forces a value is its only owner."""
    forced = applied(applied(thing(), "a", size=1), "b", force=True, size=2)

    assert forced["spec"] == {"size": 2}
    assert owned(forced["metadata"]["managedFields"], "a") == {}


def test_what_is_said_no_more_goes() -> None:
    """Leaving a field out of a configuration removes it, if no other manager owns it."""
    live = applied(applied(thing(), "a", size=1, color="red"), "b", color="red")

    left = applied(live, "a")

    assert left["spec"] == {"color": "red"}


def test_items_are_owned_one_by_one() -> None:
    """Two managers can share a list of items with an identity."""
    live = applied(thing(), "a", parts=[{"name": "x", "weight": 1}])
    live = applied(live, "b", parts=[{"name": "y"}])

    left = applied(live, "a", parts=[])

    assert live["spec"]["parts"] == [{"name": "x", "weight": 1}, {"name": "y"}]
    assert left["spec"]["parts"] == [{"name": "y"}]


def test_a_list_without_identity_is_one_value() -> None:
    """Another order, or one item more, is another value."""
    live = applied(thing(), "a", steps=["one"])

    with pytest.raises(Conflicts):
        applied(live, "b", steps=["one", "two"])


def test_sets_grow_together() -> None:
    """Each manager adds its own values."""
    live = applied(applied(thing(), "a", tags=["x"]), "b", tags=["y"])

    assert sorted(live["spec"]["tags"]) == ["x", "y"]
    assert applied(live, "b", tags=[])["spec"]["tags"] == ["x"]


def test_applying_the_same_again_changes_nothing() -> None:
    """Not even the time of the entry."""
    live = applied(thing(), "a", size=1)
    live["metadata"]["managedFields"][0]["time"] = "before"

    again = applied(live, "a", size=1)

    assert again == live


def test_an_object_from_before_has_an_owner() -> None:
    """Fields without a manager belong to before-first-apply."""
    live = thing(size=1)

    with pytest.raises(Conflicts) as caught:
        applied(live, "a", size=2)

    assert caught.value.causes == [('"before-first-apply" using v1', ".spec.size")]


def test_a_client_may_forget_all_owners() -> None:
    """A list of one empty entry resets the managers."""
    before = applied(thing(), "a", size=1)
    after = {**before, "metadata": {**before["metadata"], "managedFields": [{}]}}

    assert after_update(after, before, writing("b", UPDATE), {}) == []


def test_old_updaters_are_merged() -> None:
    """More than ten managers of updates are not kept apart."""
    value = applied(thing(), "first", size=0)
    for number in range(15):
        before = value
        value = {
            **before,
            "spec": {**before["spec"], "parts": [*before["spec"].get("parts", ()), {"name": f"p{number}"}]},
        }
        entries = after_update(value, before, writing(f"m{number:02}", UPDATE, now=f"{number:02}"), {})
        value["metadata"] = {**value["metadata"], "managedFields": entries}

    names = [entry["manager"] for entry in value["metadata"]["managedFields"] if entry["operation"] == UPDATE]

    assert len(names) == 10
    assert "ancient-changes" in names
