"""Merging a configuration into an object: maps and items with keys merge, the rest is replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from karpenter_local.apiserver.managed.shapes import Shape

_ABSENT: Any = object()


def merge(live: Any, given: Any, shape: Shape) -> Any:
    """Return `live` with `given` laid over it; neither is changed."""
    if given is _ABSENT:
        return live
    if live is _ABSENT or live is None or given is None:
        return given
    if shape.kind == "map" and type(live) is dict and type(given) is dict:
        merged = dict(live)
        for key, value in given.items():
            merged[key] = merge(live.get(key, _ABSENT), value, shape.child(key))
        return merged
    if shape.kind == "list" and type(live) is list and type(given) is list:
        return _lists(live, given, shape)
    return given


def _lists(live: list[Any], given: list[Any], shape: Shape) -> list[Any]:
    """Return the items of both in the order of `given`; what only `live` has stays near its neighbours."""
    old = [shape.element(item) for item in live]
    new = [shape.element(item) for item in given]
    ours = dict(zip(old, live, strict=True))
    theirs = dict(zip(new, given, strict=True))
    shared = [element for element in new if element in ours]
    expected = shared.pop(0) if shared else None
    done: set[str] = set()
    merged: list[Any] = []
    left = right = 0
    while left < len(old) or right < len(new):
        if left < len(old):
            element = old[left]
            if right < len(new) and element == new[right]:
                merged.append(merge(ours[element], theirs[element], shape.item))
                done.add(element)
                left, right = left + 1, right + 1
                expected = shared.pop(0) if shared else None
                continue
            if right < len(new) and element in theirs and expected is not None and expected != element:
                left += 1
                continue
            if element not in theirs:
                merged.append(live[left])
                left += 1
                continue
            if element in done:
                left += 1
        if right < len(new):
            element = new[right]
            merged.append(merge(ours.get(element, _ABSENT), theirs[element], shape.item))
            done.add(element)
            right += 1
            if expected == element:
                expected = shared.pop(0) if shared else None
    return merged
