from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from karpenter_local.apiserver.managed.compare import compare
from karpenter_local.apiserver.managed.entries import APPLY, Key
from karpenter_local.apiserver.managed.owners import Conflicts, Write, apply
from karpenter_local.apiserver.managed.shapes import of_custom_kind

ITEM = {"type": "object", "properties": {"name": {"type": "string"}, "weight": {"type": "integer"}}}
SHAPE = of_custom_kind(
    {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "size": {"type": "integer"},
                    "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                    "items": {
                        "type": "array",
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["name"],
                        "items": ITEM,
                    },
                    "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                },
            }
        },
    }
)
NAMES = st.sampled_from("abc")
ITEMS = st.dictionaries(NAMES, st.integers(0, 2), max_size=3).map(
    lambda given: [{"name": name, "weight": weight} for name, weight in given.items()]
)
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "size": st.integers(0, 2),
        "labels": st.dictionaries(NAMES, st.sampled_from("xy"), min_size=1, max_size=3),
        "items": ITEMS,
        "tags": st.lists(NAMES, unique=True, max_size=3),
    },
)
Spec = dict[str, Any]


def thing(spec: Spec) -> dict[str, Any]:
    """Return a thing as a client would send it."""
    return {"kind": "Thing", "apiVersion": "v1", "metadata": {"name": "t"}, "spec": spec}


def applied(live: dict[str, Any], manager: str, spec: Spec, *, force: bool = True) -> dict[str, Any]:
    """Return the object after an apply, with its managers."""
    write = Write(key=Key(APPLY, manager, "v1"), now="now", shape=SHAPE, ignored={})
    result = apply(live, thing(spec), write, force=force)
    return {**result.value, "metadata": {**result.value["metadata"], "managedFields": result.managers}}


BLANK = {"kind": "Thing", "apiVersion": "v1", "metadata": {"name": "t"}}


def canonical(value: Any) -> Any:
    """Return a value in which the order of items, and empty parts, do not count."""
    if isinstance(value, dict):
        parts = {key: canonical(part) for key, part in value.items() if key != "managedFields"}
        return {key: part for key, part in sorted(parts.items()) if part not in ({}, [])}
    if isinstance(value, list):
        return sorted((canonical(item) for item in value), key=repr)
    return value


@given(first=SPECS, second=SPECS)
def test_a_single_applier_gets_what_it_says(first: Spec, second: Spec) -> None:
    """Whatever was applied before, the object is what its only owner says now."""
    value = applied(applied(BLANK, "a", first), "a", second)

    assert canonical(value.get("spec", {})) == canonical(second)


@given(first=SPECS, second=SPECS)
def test_applying_twice_is_applying_once(first: Spec, second: Spec) -> None:
    """An apply that is already true changes nothing at all."""
    once = applied(applied(BLANK, "a", first), "b", second)

    assert applied(once, "b", second) == once


@given(first=SPECS, second=SPECS)
def test_a_conflict_is_a_changed_value_of_another_owner(first: Spec, second: Spec) -> None:
    """Without force, an apply either keeps every value of the others or is refused."""
    live = applied(BLANK, "a", first)
    try:
        merged = applied(live, "b", second, force=False)
    except Conflicts:
        return

    assert not compare(live, {**merged, "metadata": live["metadata"]}, SHAPE).modified


@given(first=SPECS, second=SPECS)
def test_leaving_gives_back_what_was_there(first: Spec, second: Spec) -> None:
    """When a second applier withdraws everything, what the first one says and still owns is left."""
    live = applied(BLANK, "a", first)
    try:
        both = applied(live, "b", second, force=False)
    except Conflicts:
        return

    left = applied(both, "b", {})

    assert canonical(left.get("spec", {})) == canonical(first)
