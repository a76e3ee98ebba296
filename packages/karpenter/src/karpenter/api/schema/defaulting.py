"""
Defaulting and pruning by a structural schema. Nothing is changed in place.

Defaulting: a null is kept where the schema says ``nullable``, replaced where there is a default, and dropped
otherwise. Defaults below an absent field are not filled in, unless that field has a default itself.

Pruning: unknown fields are removed, and their paths are returned for strict readers. At the root of an
object, and of every embedded one, ``apiVersion``, ``kind`` and ``metadata`` are always known.
"""

import copy
from typing import Any

from msgspec import UNSET

from karpenter.api.schema import field
from karpenter.api.schema.structural import Schema


def apply_defaults(schema: Schema, value: Any) -> Any:
    """Return `value` with the schema's defaults in place and meaningless nulls gone."""
    if isinstance(value, dict):
        return _fill_in_object(schema, value)
    if isinstance(value, list):
        return [_fill_in_item(schema.items, item) for item in value]
    return value


def _fill_in_object(schema: Schema, value: dict[str, Any]) -> dict[str, Any]:
    filled = {}
    for name, member in value.items():
        known = schema.member(name)
        if member is None and known is not None and not known.nullable:
            if known.default is UNSET or known.default is None:
                continue
            member = copy.deepcopy(known.default)  # noqa: PLW2901  the default takes the null's place
        filled[name] = member if known is None else apply_defaults(known, member)
    for name, known in schema.properties.items():
        if name not in filled and known.default is not UNSET and known.default is not None:
            filled[name] = apply_defaults(known, copy.deepcopy(known.default))
    return filled


def _fill_in_item(schema: Schema | None, item: Any) -> Any:
    if schema is None:
        return item
    if item is None and not schema.nullable and schema.default is not UNSET:
        item = copy.deepcopy(schema.default)
    return apply_defaults(schema, item)


_META = frozenset({"apiVersion", "kind", "metadata"})


def prune_unknown_fields(schema: Schema, value: Any, *, root: bool = True) -> tuple[Any, tuple[str, ...]]:
    """Return `value` without the fields that `schema` does not know, and their paths, sorted."""
    unknown: list[str] = []
    known = _prune(schema, value, "", unknown, is_object=root or schema.embedded)
    return known, tuple(sorted(unknown))


def _prune(schema: Schema | None, value: Any, path: str, unknown: list[str], *, is_object: bool) -> Any:
    if isinstance(value, list):
        items = schema.items if schema else None
        if items is None and schema is not None and schema.preserve_unknown:
            return value
        return [
            _prune(items, item, field.index(path, i), unknown, is_object=bool(items and items.embedded))
            for i, item in enumerate(value)
        ]
    if not isinstance(value, dict):
        return value
    kept = {}
    for name, member in value.items():
        place = field.child(path, name)
        known = schema.member(name) if schema else None
        if is_object and name in _META:
            kept[name] = member
        elif known is not None:
            kept[name] = _prune(known, member, place, unknown, is_object=known.embedded)
        elif _keeps_unknown(schema):
            kept[name] = member
        else:
            unknown.append(place)
    return kept


def _keeps_unknown(schema: Schema | None) -> bool:
    return schema is not None and (schema.preserve_unknown or schema.additional_properties is True)
