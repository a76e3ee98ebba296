"""
A structural schema: the OpenAPI subset by which a CustomResourceDefinition describes its objects.

:func:`load` reads it once from plain data; the other modules of this package walk it. Only the parts that
decide about objects are kept. Whether a schema is structural in every detail is checked by the API server.

Numbers are 64-bit integers, and floats beyond that, as other readers of JSON have them.

For updates, :func:`old_member` and :func:`old_item` find the old value that a new one replaces. List items
are matched only in lists with ``x-kubernetes-list-type: map``; in any other list an item has no old value.

Defaulting changes nothing in place: a null is kept where the schema says ``nullable``, replaced where there
is a default, and dropped otherwise. Defaults below an absent field are not filled in, unless that field has a
default itself. Pruning removes unknown fields, and their paths are returned for strict readers. At the root
of an object, and of every embedded one, ``apiVersion``, ``kind`` and ``metadata`` are always known.
"""

import copy
import json
import math
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType, field

from karpenter.api.meta import InvalidObject, explain
from karpenter.api.schema.field import child, index
from karpenter.base.pretty import excerpt


class ValidationRule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A CEL expression that must be true of the value beside which it stands."""

    rule: str
    message: str = ""
    message_expression: str = ""
    reason: str = ""
    field_path: str = ""
    optional_old_self: bool = False


class Schema(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", dict=True):
    """One node of a structural schema. What is found out about it once may be noted in its ``__dict__``."""

    type: str = ""
    format: str = ""
    title: str = ""
    description: str = ""
    nullable: bool = False
    default: Any = UNSET
    enum: tuple[Any, ...] | UnsetType = UNSET
    minimum: int | float | None = None
    maximum: int | float | None = None
    exclusive_minimum: bool = False
    exclusive_maximum: bool = False
    multiple_of: int | float | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: str = ""
    min_items: int | None = None
    max_items: int | None = None
    min_properties: int | None = None
    max_properties: int | None = None
    required: tuple[str, ...] = ()
    properties: dict[str, "Schema"] = field(default_factory=dict)
    additional_properties: "Schema | bool | None" = None
    items: "Schema | None" = None
    all_of: tuple["Schema", ...] = ()
    any_of: tuple["Schema", ...] = ()
    one_of: tuple["Schema", ...] = ()
    not_: "Schema | None" = field(name="not", default=None)
    preserve_unknown: bool = field(name="x-kubernetes-preserve-unknown-fields", default=False)
    embedded: bool = field(name="x-kubernetes-embedded-resource", default=False)
    int_or_string: bool = field(name="x-kubernetes-int-or-string", default=False)
    list_type: str = field(name="x-kubernetes-list-type", default="")
    list_map_keys: tuple[str, ...] = field(name="x-kubernetes-list-map-keys", default=())
    map_type: str = field(name="x-kubernetes-map-type", default="")
    rules: tuple[ValidationRule, ...] = field(name="x-kubernetes-validations", default=())

    @property
    def values(self) -> "Schema | None":
        """The schema of a map's values; none when this is no map of known values."""
        return self.additional_properties if isinstance(self.additional_properties, Schema) else None

    def member(self, name: str) -> "Schema | None":
        """Return the schema of one member of an object or map; none when it is unknown."""
        found = self.properties.get(name)
        return self.values if found is None else found


def load(plain: object) -> Schema:
    """
    Read a schema from plain data, such as ``spec.versions[].schema.openAPIV3Schema``.

    Raises:
        InvalidObject: if the data is no schema.
    """
    try:
        return msgspec.convert(plain, Schema)
    except msgspec.ValidationError as error:
        place, problem = explain(str(error))
        raise InvalidObject(subject="schema", field=place, problem=problem) from error
    except (RecursionError, UnicodeError) as error:
        raise InvalidObject(subject="schema", problem="nested too deep, or not text") from error


def to_double(value: float) -> float:
    """Return a number as a float; one beyond all floats is infinite."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def held(value: float) -> float:
    """Return a number as it is held: an integer if it fits 64 bits, else a float."""
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return value
    return to_double(value)


def is_whole(value: float) -> bool:
    """Say whether a number has no fraction, and is one."""
    return isinstance(value, int) or (math.isfinite(value) and value.is_integer())


ABSENT = object()
"""No old value: the object is new, or the value is, or its past cannot be told."""


def old_member(old: object, name: str) -> object:
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
            _prune(items, item, index(path, i), unknown, is_object=bool(items and items.embedded))
            for i, item in enumerate(value)
        ]
    if not isinstance(value, dict):
        return value
    kept = {}
    for name, member in value.items():
        place = child(path, name)
        known = schema.member(name) if schema else None
        if is_object and name in _META:
            kept[name] = member
        elif known is not None:
            kept[name] = _prune(known, member, place, unknown, is_object=known.embedded)
        elif schema is not None and (schema.preserve_unknown or schema.additional_properties is True):
            kept[name] = member
        else:
            unknown.append(place)
    return kept
