"""
Sets of field paths, in the very form in which ``fieldsV1`` spells them.

A set is a dictionary from path elements to sets: ``f:NAME`` a field, ``k:{...}`` the item of a list with
those keys, ``v:VALUE`` the item of a list of values. An element that maps to an empty set is a member; one
that has members beneath it and is one itself says so with ``.``.

    {"f:metadata": {"f:labels": {".": {}, "f:app": {}}}}     metadata.labels and metadata.labels.app

Nothing here changes its arguments.
"""

from __future__ import annotations

from typing import Any

import msgspec

Set = dict[str, Any]

SELF = "."


def split(node: Set) -> tuple[bool, Set]:
    """Return whether the node itself is a member, and what is beneath it."""
    if not node:
        return True, {}
    if SELF in node:
        return True, {key: part for key, part in node.items() if key != SELF}
    return False, node


def join(member: bool, children: Set) -> Set | None:
    """Return a node, or None when it would hold nothing."""
    if not children:
        return {} if member else None
    return {SELF: {}, **children} if member else children


def union(left: Set, right: Set) -> Set:
    """Return what is in either, `left` itself if it has all of `right`; both are roots, not nodes."""
    if not right:
        return left
    if not left:
        return right
    found = dict(left)
    same = True
    for key, theirs in right.items():
        if key == SELF:
            node: Set = found.get(SELF, {})
        elif key in found:
            node = _union_node(found[key], theirs)
        else:
            node = theirs
        if found.get(key) is not node:
            found[key] = node
            same = False
    return left if same else found


def _union_node(left: Set, right: Set) -> Set:
    left_member, left_children = split(left)
    right_member, right_children = split(right)
    children = union(left_children, right_children)
    if children is left_children and (left_member or not right_member):
        return left
    node = join(left_member or right_member, children)
    assert node is not None
    return node


def intersection(left: Set, right: Set) -> Set:
    found: Set = {}
    for key, ours in left.items():
        if key == SELF or key not in right:
            continue
        left_member, left_children = split(ours)
        right_member, right_children = split(right[key])
        node = join(left_member and right_member, intersection(left_children, right_children))
        if node is not None:
            found[key] = node
    return found


def difference(left: Set, right: Set) -> Set:
    """Return what is in `left` and not in `right`: `left` itself, if `right` has nothing of it."""
    if not right:
        return left
    found: Set = {}
    same = SELF not in left
    for key, ours in left.items():
        if key == SELF:
            continue
        if key not in right:
            found[key] = ours
            continue
        left_member, left_children = split(ours)
        right_member, right_children = split(right[key])
        rest = difference(left_children, right_children)
        if rest is left_children and not (left_member and right_member):
            found[key] = ours
            continue
        same = False
        node = join(left_member and not right_member, rest)
        if node is not None:
            found[key] = node
    return left if same else found


def without(left: Set, right: Set) -> Set:
    """Return `left` without the members of `right` and everything beneath them."""
    if not right:
        return left
    found: Set = {}
    for key, ours in left.items():
        if key == SELF or key not in right:
            found[key] = ours
            continue
        right_member, right_children = split(right[key])
        if right_member:
            continue
        left_member, left_children = split(ours)
        node = join(left_member, without(left_children, right_children))
        if node is not None:
            found[key] = node
    return found


def ordered(node: Set) -> Set:
    """Return the set with its elements in order, so that equal sets are written alike."""
    return {key: ordered(node[key]) for key in sorted(node)} if node else node


def paths(node: Set, prefix: str = "") -> list[str]:
    """Return every member as people write it: ``.spec.containers[name="c"].image``."""
    found: list[str] = []
    for key in sorted(node):
        if key == SELF:
            continue
        path = prefix + _text(key)
        member, children = split(node[key])
        if member:
            found.append(path)
        found.extend(paths(children, path))
    return found


def _text(element: str) -> str:
    kind, _, rest = element.partition(":")
    match kind:
        case "f":
            return f".{rest}"
        case "k":
            return f"[{','.join(f'{key}={value}' for key, value in _key_pairs(rest))}]"
        case "v":
            return f"[={rest}]"
        case _:
            return f"[{rest}]"


def _key_pairs(text: str) -> list[tuple[str, str]]:
    return [(key, msgspec.json.encode(value).decode()) for key, value in msgspec.json.decode(text).items()]
