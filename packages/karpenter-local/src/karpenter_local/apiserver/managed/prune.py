"""Removing the fields that an applier owned, no longer applies, and no other manager owns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from karpenter_local.apiserver.managed import sets
from karpenter_local.apiserver.managed.compare import fields_of
from karpenter_local.apiserver.managed.sets import SELF, Set

if TYPE_CHECKING:
    from karpenter_local.apiserver.managed.shapes import Shape


def prune(merged: Any, shape: Shape, last: Set, owned: Set) -> Any:
    """Return `merged` without what `last` owned and no manager owns now; `owned` is what all managers own."""
    if not last:
        return merged
    named = _with_fields(last, shape)
    pruned = remove(merged, named, shape)
    everything = _with_fields(fields_of(merged, shape), shape)
    kept = sets.union(_with_fields(fields_of(pruned, shape), shape), _with_fields(owned, shape))
    gone = sets.difference(everything, kept)
    return remove(merged, sets.intersection(gone, named), shape)


def _with_fields(found: Set, shape: Shape) -> Set:
    """Return the set with every field that the schema names on the way to a member as a member, too."""
    result: Set = {}
    for key, node in found.items():
        if key == SELF:
            continue
        member, children = sets.split(node)
        name = key[2:]
        inner = shape.child(name) if key.startswith("f:") else shape.item
        named = key.startswith("f:") and shape.is_field(name)
        joined = sets.join(member or named, _with_fields(children, inner))
        if joined is not None:
            result[key] = joined
    return result


def remove(value: Any, gone: Set, shape: Shape) -> Any:
    """Return `value` without the members of `gone`; what loses all it had goes as well."""
    if shape.kind == "map" and type(value) is dict:
        kept: dict[str, Any] = {}
        for key, part in value.items():
            node = gone.get(f"f:{key}")
            if node is None:
                kept[key] = part
                continue
            member, children = sets.split(node)
            if member:
                continue
            left = remove(part, children, shape.child(key))
            if left is not None:
                kept[key] = left
        return kept or None
    if shape.kind == "list" and type(value) is list:
        items = []
        for item in value:
            node = gone.get(shape.element(item))
            if node is None:
                items.append(item)
                continue
            member, children = sets.split(node)
            if not member:
                items.append(remove(item, children, shape.item))
        return items or None
    return value
