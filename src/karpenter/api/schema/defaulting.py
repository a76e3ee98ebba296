"""
What a schema fills in: absent fields that have a default, and nulls that stand for absent ones.

A null is kept where the schema says ``nullable``, replaced where there is a default, and dropped
otherwise. Defaults below a field that is absent are not filled in, unless that field has a
default itself. Nothing is changed in place.
"""

import copy
from typing import Any

from msgspec import UNSET

from karpenter.api.schema.structural import Schema


def fill_in(schema: Schema, value: Any) -> Any:
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
        filled[name] = member if known is None else fill_in(known, member)
    for name, known in schema.properties.items():
        if name not in filled and known.default is not UNSET and known.default is not None:
            filled[name] = fill_in(known, copy.deepcopy(known.default))
    return filled


def _fill_in_item(schema: Schema | None, item: Any) -> Any:
    if schema is None:
        return item
    if item is None and not schema.nullable and schema.default is not UNSET:
        item = copy.deepcopy(schema.default)
    return fill_in(schema, item)
