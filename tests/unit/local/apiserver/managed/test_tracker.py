"""What creators own is remembered by the structure of what they create."""

from typing import Any

import pytest

from karpenter_local.apiserver.managed import owners
from karpenter_local.apiserver.managed.shapes import LEAF
from karpenter_local.apiserver.managed.tracker import Author, Tracker, blank, structure
from karpenter_local.apiserver.resources import Registry
from karpenter_local.apiserver.schema.conform import conform
from karpenter_local.apiserver.schema.types import built_in_types

AUTHOR = Author("maker", "v1")


def pod(**changes: Any) -> dict[str, Any]:
    """Return a pod as it is before it is stored."""
    found: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "app:1"}], "priority": 0},
        "status": {},
    }
    for place, value in changes.items():
        *way, last = place.split("__")
        held = found
        for step in way:
            held = held[step]
        held[last] = value
    definition = built_in_types().of_kind("", "v1", "Pod")
    assert definition is not None
    conform(found, definition)
    return found


CHANGES: dict[str, dict[str, Any]] = {
    "nothing": {},
    "a name": {"metadata__name": "b"},
    "the value of a label": {"metadata__labels": {"app": "other"}},
    "the name of a label": {"metadata__labels": {"tier": "web"}},
    "no labels": {"metadata__labels": {}},
    "a number": {"spec__priority": 5},
    "what is the same as nothing": {"spec__hostNetwork": False},
    "what is not": {"spec__hostNetwork": True},
    "the key of an item": {"spec__containers": [{"name": "other", "image": "app:1"}]},
    "an empty text": {"spec__nodeSelector": {"zone": ""}},
    "a status": {"status__phase": "Pending"},
}


@pytest.mark.parametrize("first", CHANGES.values(), ids=CHANGES)
def test_a_pod_after_another_has_the_owners_it_would_have_alone(first: dict[str, Any]) -> None:
    """Whatever was created before, the managed fields are those of a comparison with a blank object."""
    tracker = Tracker(lambda: "2026-01-01T00:00:00Z", lambda _: LEAF)
    resource = Registry().find("", "v1", "pods")
    assert resource is not None
    tracker.on_create(resource, pod(**first), AUTHOR)
    for changes in CHANGES.values():
        made = pod(**changes)
        write = tracker._write(resource, "Update", AUTHOR)
        expected = owners.created_fields(made, blank(resource), write)
        tracker.on_create(resource, made, AUTHOR)
        (entry,) = made["metadata"]["managedFields"]

        assert entry["fieldsV1"] == expected
        assert list(entry["fieldsV1"]) == sorted(expected)


def test_the_structure_is_without_values() -> None:
    """Objects that differ in names and numbers alone share what is remembered."""
    assert structure(pod()) == structure(pod(metadata__name="b", metadata__labels={"app": "other"}))
    assert structure(pod()) != structure(pod(spec__priority=5))
