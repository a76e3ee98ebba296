"""
Strategic merge patch: a merge patch that knows which lists have items with an identity.

Lists of the built-in kinds that have a merge key are merged item by item; other lists are replaced. Directives
in the patch say more: ``$patch: delete|replace|merge``, ``$deleteFromPrimitiveList/FIELD``, ``$setElementOrder/FIELD``,
``$retainKeys``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from karpenter.local import faults

if TYPE_CHECKING:
    from karpenter.local.schema.facts import Definition, Field

_DIRECTIVE = "$patch"
_RETAIN = "$retainKeys"
_DELETE_FROM = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"


def apply(value: dict[str, Any], patch: dict[str, Any], definition: Definition) -> dict[str, Any]:
    """Return `value` changed by `patch`; neither is kept."""
    return _struct(value, patch, definition)


def _struct(value: dict[str, Any], patch: dict[str, Any], definition: Definition | None) -> dict[str, Any]:
    directive = patch.pop(_DIRECTIVE, None)
    if directive == "replace":
        return patch
    if directive == "delete":
        return {}
    if directive not in {None, "merge"}:
        raise faults.Fault(500, "", f"unknown patch type: {directive} in map")
    retained = patch.pop(_RETAIN, None)
    if retained is not None:
        unknown = [key for key in patch if key not in retained and not key.startswith("$") and patch[key] is not None]
        if unknown:
            raise faults.bad_request("patch has a field that is not in the retainKeys list")
        value = {key: part for key, part in value.items() if key in retained}
    orders = {key.removeprefix(_ORDER): patch.pop(key) for key in list(patch) if key.startswith(_ORDER)}
    gone = {key.removeprefix(_DELETE_FROM): patch.pop(key) for key in list(patch) if key.startswith(_DELETE_FROM)}
    for key, items in gone.items():
        if isinstance(value.get(key), list):
            value[key] = [item for item in value[key] if item not in items]
    for key, part in patch.items():
        field = definition.fields.get(key) if definition is not None else None
        if part is None:
            value.pop(key, None)
        elif isinstance(part, dict):
            value[key] = _map(value.get(key), part, field)
        elif isinstance(part, list):
            value[key] = _list(value.get(key), part, field, orders.pop(key, None))
        else:
            value[key] = part
    for key, order in orders.items():
        if isinstance(value.get(key), list):
            field = definition.fields.get(key) if definition is not None else None
            value[key] = _in_order(value[key], order, field.merge_key if field else "")
    return value


def _map(value: Any, patch: dict[str, Any], field: Field | None) -> dict[str, Any]:
    inner = field.type.definition if field is not None and field.type.code == "#" else None
    if field is not None and field.strategy == "replace":
        patch.pop(_DIRECTIVE, None)
        return patch
    return _struct(value if isinstance(value, dict) else {}, patch, inner)


def _list(value: Any, patch: list[Any], field: Field | None, order: list[Any] | None) -> list[Any]:
    merges = field is not None and "merge" in field.strategy.split(",")
    if not merges or field is None:
        return [item for item in patch if not (isinstance(item, dict) and _DIRECTIVE in item)]
    old = value if isinstance(value, list) else []
    key = field.merge_key
    if not key:
        merged = [*old, *(item for item in patch if item not in old)]
        return _in_order(merged, order, "") if order is not None else merged
    inner = field.type.inner.definition if field.type.inner is not None and field.type.inner.code == "#" else None
    if any(isinstance(item, dict) and item.get(_DIRECTIVE) == "replace" for item in patch):
        return [item for item in patch if _DIRECTIVE not in item]
    merged = list(old)
    for item in patch:
        merged = _item(merged, item, key, inner)
    if order is not None:
        return _in_order(merged, order, key)
    return merged


def _item(merged: list[Any], item: Any, key: str, inner: Definition | None) -> list[Any]:
    if not isinstance(item, dict) or (key not in item and _DIRECTIVE not in item):
        raise faults.bad_request(f"map: {item!r} does not contain declared merge key: {key}")
    position = next((at for at, old in enumerate(merged) if old.get(key) == item.get(key)), None)
    if item.get(_DIRECTIVE) == "delete":
        return [old for old in merged if old.get(key) != item.get(key)]
    if position is None:
        return [*merged, _struct({}, item, inner)]
    return [*merged[:position], _struct(merged[position], item, inner), *merged[position + 1 :]]


def _in_order(items: list[Any], order: list[Any], key: str) -> list[Any]:
    """Return the items in the order that the patch gives; items it does not name keep their place relative to others."""

    def identity(item: Any) -> Any:
        return item.get(key) if key and isinstance(item, dict) else item

    ranks = {repr(identity(item)): rank for rank, item in enumerate(order)}
    named = sorted((item for item in items if repr(identity(item)) in ranks), key=lambda item: ranks[repr(identity(item))])
    result: list[Any] = []
    waiting = iter(named)
    for item in items:
        result.append(next(waiting) if repr(identity(item)) in ranks else item)
    return result
