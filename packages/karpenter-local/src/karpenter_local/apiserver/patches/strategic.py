"""
Strategic merge patch: a merge patch that knows which lists have items with an identity.

Lists of the built-in kinds that have a merge key are merged item by item; other lists are replaced.
Directives in the patch say more: ``$patch: delete|replace|merge``, ``$deleteFromPrimitiveList/FIELD``,
``$setElementOrder/FIELD``, ``$retainKeys``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from karpenter_local.apiserver import errors
from karpenter_local.apiserver.entry import encode

if TYPE_CHECKING:
    from collections.abc import Callable

    from karpenter_local.apiserver.schema.types import TypeDefinition, TypeField

# The directives of a strategic merge patch:
# https://github.com/kubernetes/community/blob/master/contributors/devel/sig-api-machinery/strategic-merge-patch.md
_DIRECTIVE = "$patch"
_RETAIN = "$retainKeys"
_DELETE_FROM = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"


def apply(value: dict[str, Any], patch: dict[str, Any], definition: TypeDefinition) -> dict[str, Any]:
    """Return `value` changed by `patch`; what it does not change, the two share."""
    if b'"$' in encode(patch):
        return _struct(value, patch, definition)
    return _merge(value, patch, definition)


def _merge(value: dict[str, Any], patch: dict[str, Any], definition: TypeDefinition | None) -> dict[str, Any]:
    """Do the same for a patch without directives, as nearly all are."""
    changed = dict(value)
    fields = definition.fields if definition is not None else {}
    for key, part in patch.items():
        kind = type(part)
        if part is None:
            changed.pop(key, None)
        elif kind is dict:
            changed[key] = _merge_map(changed.get(key), part, fields.get(key))
        elif kind is list:
            field = fields.get(key)
            merges = field is not None and field.merges
            changed[key] = _list(changed.get(key), part, field, None, _merge) if merges else part
        else:
            changed[key] = part
    return changed


def _merge_map(value: Any, patch: dict[str, Any], field: TypeField | None) -> dict[str, Any]:
    if field is not None and field.strategy == "replace":
        return patch
    inner = field.type.definition if field is not None and field.type.code == "#" else None
    return _merge(value if type(value) is dict else {}, patch, inner)


def _struct(
    value: dict[str, Any], patch: dict[str, Any], definition: TypeDefinition | None
) -> dict[str, Any]:
    directive = patch.pop(_DIRECTIVE, None)
    if directive == "replace":
        return patch
    if directive == "delete":
        return {}
    if directive not in {None, "merge"}:
        raise errors.APIStatusError(500, "", f"unknown patch type: {directive} in map")
    value = dict(_retained(value, patch))
    orders = {key.removeprefix(_ORDER): patch.pop(key) for key in list(patch) if key.startswith(_ORDER)}
    _delete_values(value, patch)
    for key, part in patch.items():
        field = definition.fields.get(key) if definition is not None else None
        if part is None or (isinstance(part, dict) and part.get(_DIRECTIVE) == "delete"):
            value.pop(key, None)
        elif isinstance(part, dict):
            value[key] = _map(value.get(key), part, field)
        elif isinstance(part, list):
            value[key] = _list(value.get(key), part, field, orders.pop(key, None))
        else:
            value[key] = part
    _reorder(value, orders, definition)
    return value


def _retained(value: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    retained = patch.pop(_RETAIN, None)
    if retained is None:
        return value
    if any(key not in retained and not key.startswith("$") and patch[key] is not None for key in patch):
        raise errors.bad_request("patch has a field that is not in the retainKeys list")
    return {key: part for key, part in value.items() if key in retained}


def _delete_values(value: dict[str, Any], patch: dict[str, Any]) -> None:
    for directive in [key for key in patch if key.startswith(_DELETE_FROM)]:
        gone, key = patch.pop(directive), directive.removeprefix(_DELETE_FROM)
        if isinstance(value.get(key), list):
            value[key] = [item for item in value[key] if item not in gone]


def _reorder(value: dict[str, Any], orders: dict[str, list[Any]], definition: TypeDefinition | None) -> None:
    """Sort the lists whose order is all that the patch says about them."""
    for key, order in orders.items():
        if isinstance(value.get(key), list):
            field = definition.fields.get(key) if definition is not None else None
            value[key] = _in_order(value[key], order, list(value[key]), field.merge_key if field else "")


def _map(value: Any, patch: dict[str, Any], field: TypeField | None) -> dict[str, Any]:
    inner = field.type.definition if field is not None and field.type.code == "#" else None
    if field is not None and field.strategy == "replace":
        patch.pop(_DIRECTIVE, None)
        return patch
    return _struct(value if isinstance(value, dict) else {}, patch, inner)


def _list(
    value: Any,
    patch: list[Any],
    field: TypeField | None,
    order: list[Any] | None,
    merge: Callable[[dict[str, Any], dict[str, Any], TypeDefinition | None], dict[str, Any]] | None = None,
) -> list[Any]:
    """Return a list changed by a patch; `merge` is how items are, for a patch without directives."""
    if field is None or not field.merges:
        return [item for item in patch if not (isinstance(item, dict) and _DIRECTIVE in item)]
    old = value if isinstance(value, list) else []
    key = field.merge_key
    named = patch if order is None else order
    if not key:
        return _in_order([*old, *(item for item in patch if item not in old)], named, old, "")
    if merge is None and any(isinstance(item, dict) and item.get(_DIRECTIVE) == "replace" for item in patch):
        return [item for item in patch if _DIRECTIVE not in item]
    inner = (
        field.type.inner.definition if field.type.inner is not None and field.type.inner.code == "#" else None
    )
    if order is not None and not _covers(order, patch, key):
        raise errors.APIStatusError(
            500, "", "the order in the patch list does not match the $setElementOrder list"
        )
    named = [item for item in named if isinstance(item, dict)]
    merged = list(old)
    for item in patch:
        merged = _item(merged, item, key, inner, merge or _struct)
    return _in_order(merged, named, old, key)


def _covers(order: list[Any], patch: list[Any], key: str) -> bool:
    """Return whether an order names every item that the patch brings."""
    named = [item.get(key) for item in order if isinstance(item, dict)]
    brought = [item for item in patch if isinstance(item, dict) and _DIRECTIVE not in item]
    return all(item.get(key) in named for item in brought)


def _item(
    merged: list[Any],
    item: Any,
    key: str,
    inner: TypeDefinition | None,
    merge: Callable[[dict[str, Any], dict[str, Any], TypeDefinition | None], dict[str, Any]],
) -> list[Any]:
    if not isinstance(item, dict) or (key not in item and _DIRECTIVE not in item):
        raise errors.APIStatusError(500, "", f"map: {item!r} does not contain declared merge key: {key}")
    name = item.get(key)
    if item.get(_DIRECTIVE) == "delete":
        return [old for old in merged if old.get(key) != name]
    for at, old in enumerate(merged):
        if old.get(key) == name:
            merged[at] = merge(old, item, inner)
            return merged
    merged.append(merge({}, item, inner))
    return merged


def _in_order(items: list[Any], order: list[Any], before: list[Any], key: str) -> list[Any]:
    """Return the items in the patch's order; those it does not name stay before what they preceded."""

    def identity(item: Any) -> str | tuple[str]:
        value = item.get(key) if key and isinstance(item, dict) else item
        return value if type(value) is str else (repr(value),)

    ranks = {identity(item): rank for rank, item in enumerate(order)}
    called = [(identity(item), item) for item in items]
    named = sorted((each for each in called if each[0] in ranks), key=lambda each: ranks[each[0]])
    if len(named) == len(called):
        return [item for _, item in named]
    places = {identity(item): place for place, item in enumerate(before)}
    others = [each for each in called if each[0] not in ranks]
    result: list[Any] = []
    while named and others:
        left, right = places.get(others[0][0]), places.get(named[0][0])
        keeps_first = left is not None and right is not None and left < right
        result.append(others.pop(0) if keeps_first else named.pop(0))
    return [item for _, item in (*result, *named, *others)]
