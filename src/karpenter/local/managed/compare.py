"""What changed between two states of an object, and what a configuration speaks of: sets of fields, by shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from karpenter.local.managed.sets import SELF, Set, union

if TYPE_CHECKING:
    from karpenter.local.managed.shapes import Shape

_ABSENT: Any = object()


class Comparison:
    """Which fields came, changed and went."""

    __slots__ = ("added", "modified", "removed")

    def __init__(self) -> None:
        self.added: Set = {}
        self.modified: Set = {}
        self.removed: Set = {}

    @property
    def touched(self) -> Set:
        """What came or changed."""
        return union(self.modified, self.added)

    def __bool__(self) -> bool:
        return bool(self.added or self.modified or self.removed)


def compare(before: Any, after: Any, shape: Shape) -> Comparison:
    """Return what an update from `before` to `after` did."""
    found = Comparison()
    _map(before, after, shape, found.added, found.modified, found.removed)
    return found


def _value(before: Any, after: Any, shape: Shape, key: str, added: Set, modified: Set, removed: Set) -> None:
    """Compare one field; each of the three sets is that of the parent, and `key` the element to put there."""
    kind = shape.kind
    given = before if after is _ABSENT else after
    if kind == "map" and type(given) is dict and (given or (type(before) is dict and before)):
        if type(before) is dict or before is _ABSENT or before is None:
            below: tuple[Set, Set, Set] = {}, {}, {}
            _map(before if type(before) is dict else {}, after if type(after) is dict else {}, shape, *below)
            _collect(before, after, key, below, (added, modified, removed))
            return
    elif kind == "list" and type(given) is list and (given or (type(before) is list and before)):
        if type(before) is list or before is _ABSENT or before is None:
            below = {}, {}, {}
            _list(before if type(before) is list else [], after if type(after) is list else [], shape, *below)
            _collect(before, after, key, below, (added, modified, removed))
            return
    if before is _ABSENT:
        added[key] = {}
    elif after is _ABSENT:
        removed[key] = {}
    elif before != after or isinstance(before, bool) != isinstance(after, bool):
        modified[key] = {}


def _collect(before: Any, after: Any, key: str, below: tuple[Set, Set, Set], into: tuple[Set, Set, Set]) -> None:
    """Hang what was found beneath a field under its element; the field itself counts when it came or went."""
    whole = (before is _ABSENT, False, after is _ABSENT)
    for found, target, itself in zip(below, into, whole, strict=True):
        if itself:
            target[key] = {SELF: {}, **found} if found else {}
        elif found:
            target[key] = found


def _map(before: Any, after: Any, shape: Shape, added: Set, modified: Set, removed: Set) -> None:
    for name, now in after.items():
        was = before.get(name, _ABSENT)
        if was is now:
            continue
        _value(was, now, shape.child(name), f"f:{name}", added, modified, removed)
    for name, was in before.items():
        if name not in after:
            _value(was, _ABSENT, shape.child(name), f"f:{name}", added, modified, removed)


def _list(before: list[Any], after: list[Any], shape: Shape, added: Set, modified: Set, removed: Set) -> None:
    old = {shape.element(item): item for item in before}
    new = {shape.element(item): item for item in after}
    inner = shape.item
    for element, now in new.items():
        _value(old.get(element, _ABSENT), now, inner, element, added, modified, removed)
    for element, was in old.items():
        if element not in new:
            _value(was, _ABSENT, inner, element, added, modified, removed)


def fields_of(value: Any, shape: Shape) -> Set:
    """Return the fields that a configuration speaks of."""
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
