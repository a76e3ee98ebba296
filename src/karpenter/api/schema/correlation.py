"""
Which old value a new one replaces, so that an update can be judged against what was there.

Fields and map entries are found by name. List items are found only where the list says which of
their fields name them (``x-kubernetes-list-type: map``); in any other list no item has a past.
"""

import json
from typing import Any

from karpenter.api.schema.structural import Schema
from karpenter.base.excerpt import excerpt

ABSENT = object()
"""No old value: the object is new, or the value is, or its past cannot be told."""


def old_member(old: object, name: str) -> object:
    """Return the old value of a field or map entry."""
    return old.get(name, ABSENT) if isinstance(old, dict) else ABSENT


def old_item(schema: Schema, old: object, item: object) -> object:
    """Return the old item of a list that `item` replaces."""
    if schema.list_type != "map" or not isinstance(old, list) or not isinstance(item, dict):
        return ABSENT
    wanted = item_key(schema, item)
    found = [each for each in old if isinstance(each, dict) and item_key(schema, each) == wanted]
    return found[0] if len(found) == 1 else ABSENT


def item_key(schema: Schema, item: dict[str, Any]) -> dict[str, Any]:
    """Return the fields by which an item of a map-like list is named; absent ones have their default."""
    key = {}
    for name in schema.list_map_keys:
        known = schema.items.member(name) if schema.items else None
        value = item.get(name, known.default if known is not None else None)
        key[name] = value
    return key


def identity(value: object) -> str:
    """Return a text that equal values share, whatever the order of their fields."""
    return json.dumps(value, sort_keys=True, default=excerpt)


def unchanged(old: object, new: object) -> bool:
    """Say whether an update leaves this value as it was; such values are not judged again."""
    return old is not ABSENT and type(old) is type(new) and old == new
