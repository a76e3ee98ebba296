"""What changed between two states of an object, and what a configuration speaks of, as sets of fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from karpenter_local.apiserver.managed.sets import SELF, Set, union

if TYPE_CHECKING:
    from collections.abc import Callable

    from karpenter_local.apiserver.managed.shapes import Shape

_ABSENT: Any = object()
_CONTAINERS: dict[str, type] = {"map": dict, "list": list}
_NESTED = frozenset({dict, list})
_MAX_FLAT_ENTRIES = 1024
_FLAT: dict[tuple[str, ...], Set] = {}
"""The fields of maps of plain values, by their names; sets are never changed."""

_NUMBERS = frozenset({bool, int, float})
"""Types whose values may be equal across types."""


class Comparison:
    """Which fields came, changed and went."""

    __slots__ = ("added", "modified", "removed")

    def __init__(self) -> None:
        self.added: Set = {}
        self.modified: Set = {}
        self.removed: Set = {}

    @property
    def touched(self) -> Set:
        return union(self.modified, self.added)

    def __bool__(self) -> bool:
        return bool(self.added or self.modified or self.removed)


def compare(before: Any, after: Any, shape: Shape) -> Comparison:
    found = Comparison()
    _map(before, after, shape, found)
    return found


def _value(before: Any, after: Any, shape: Shape, key: str, into: Comparison) -> None:
    """Compare one field; `into` is the parent's comparison, and `key` the element to put there."""
    if before is after or (before == after and type(before) not in _NUMBERS):
        return  # most of an object, whatever is done to it
    if before is _ABSENT and type(after) is dict and (added := _flat(after, shape)) is not None:
        into.added[key] = added
        return
    walk = _walker(before, after, shape)
    if walk is not None:
        below = Comparison()
        empty: Any = {} if shape.kind == "map" else []
        walk(
            empty if before is _ABSENT or before is None else before,
            empty if after is _ABSENT or after is None else after,
            shape,
            below,
        )
        _collect(before, after, key, below, into)
    elif before is _ABSENT:
        into.added[key] = {}
    elif after is _ABSENT:
        into.removed[key] = {}
    elif before != after or isinstance(before, bool) != isinstance(after, bool):
        into.modified[key] = {}


def _flat(value: dict[str, Any], shape: Shape) -> Set | None:
    """Return what a new map has if it holds nothing but plain values, as conditions do; else None."""
    if shape.kind != "map" or not value:
        return None
    for part in value.values():
        if type(part) in _NESTED:
            return None
    names = tuple(value)
    found = _FLAT.get(names)
    if found is None:
        if len(_FLAT) >= _MAX_FLAT_ENTRIES:
            _FLAT.clear()
        found = _FLAT[names] = {SELF: {}, **{f"f:{name}": {} for name in names}}
    return found


def _walker(before: Any, after: Any, shape: Shape) -> Callable[[Any, Any, Shape, Comparison], None] | None:
    """Return how to go into a value, or None when it is compared whole: a leaf, or empty on both sides."""
    wanted = _CONTAINERS.get(shape.kind)
    if wanted is None:
        return None
    for side in (before, after):
        if side is not _ABSENT and side is not None and type(side) is not wanted:
            return None
    if (before is _ABSENT or not before) and (after is _ABSENT or not after):
        return None
    return _map if wanted is dict else _list


def _collect(before: Any, after: Any, key: str, below: Comparison, into: Comparison) -> None:
    """Hang what was found beneath a field under its element; the field itself counts when it came or went."""
    if before is _ABSENT:
        into.added[key] = {SELF: {}, **below.added} if below.added else {}
    elif below.added:
        into.added[key] = below.added
    if below.modified:
        into.modified[key] = below.modified
    if after is _ABSENT:
        into.removed[key] = {SELF: {}, **below.removed} if below.removed else {}
    elif below.removed:
        into.removed[key] = below.removed


def _map(before: dict[str, Any], after: dict[str, Any], shape: Shape, into: Comparison) -> None:
    for name, now in after.items():
        was = before.get(name, _ABSENT)
        if was is not now:
            _value(was, now, shape.child(name), f"f:{name}", into)
    for name, was in before.items():
        if name not in after:
            _value(was, _ABSENT, shape.child(name), f"f:{name}", into)


def _list(before: list[Any], after: list[Any], shape: Shape, into: Comparison) -> None:
    old = {shape.element(item): item for item in before}
    new = {shape.element(item): item for item in after}
    inner = shape.item
    for element, now in new.items():
        _value(old.get(element, _ABSENT), now, inner, element, into)
    for element, was in old.items():
        if element not in new:
            _value(was, _ABSENT, inner, element, into)


def fields_of(value: Any, shape: Shape) -> Set:
    found: Set = {}
    for name, part in value.items():
        below = _fields(part, shape.child(name))
        itself = part is None or part == {} or not shape.is_field(name)
        node = _node(itself, below)
        if node is not None:
            found[f"f:{name}"] = node
    return found


def _fields(value: Any, shape: Shape) -> Set | None:
    """Return what is beneath a value, or None when the value is a leaf."""
    if shape.kind == "map" and type(value) is dict:
        return fields_of(value, shape)
    if shape.kind == "list" and type(value) is list:
        found: Set = {}
        for item in value:
            node = _node(True, _fields(item, shape.item))
            assert node is not None
            found[shape.element(item)] = node
        return found
    return None


def _node(itself: bool, below: Set | None) -> Set | None:
    if below is None:
        return {}
    if not below:
        return {} if itself else None
    return {SELF: {}, **below} if itself else below
