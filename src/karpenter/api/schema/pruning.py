"""
What a schema does not know: unknown fields are taken out and named.

A server that prunes stores what is left; a strict reader reports the names instead. At the root
of an object, and of every embedded one, ``apiVersion``, ``kind`` and ``metadata`` are always known.
"""

from typing import Any

from karpenter.api.schema import paths
from karpenter.api.schema.structural import Schema

_META = frozenset({"apiVersion", "kind", "metadata"})


def take_out_unknown(schema: Schema, value: Any, *, root: bool = True) -> tuple[Any, tuple[str, ...]]:
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
            _prune(items, item, paths.index(path, i), unknown, is_object=bool(items and items.embedded))
            for i, item in enumerate(value)
        ]
    if not isinstance(value, dict):
        return value
    kept = {}
    for name, member in value.items():
        place = paths.child(path, name)
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
