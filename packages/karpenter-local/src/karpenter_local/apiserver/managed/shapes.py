"""
What merges with what: which maps are taken apart, which lists have items with an identity, and what is
replaced whole.

One view over two sources: the facts about built-in kinds, and the schemas that CRDs bring.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from karpenter_local.apiserver.schema.types import FieldType, TypeDefinition, TypeField, built_in_types

if TYPE_CHECKING:
    from collections.abc import Mapping


_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_encode = msgspec.json.Encoder(order="sorted").encode
_MOST_ELEMENTS = 256


class Shape:
    """A way of taking values apart. This one: not at all."""

    kind = "leaf"

    def child(self, key: str) -> Shape:
        _ = key
        return LEAF

    def is_field(self, key: str) -> bool:
        _ = key
        return False

    @property
    def item(self) -> Shape:
        return LEAF

    def element(self, item: Any) -> str:
        """Return the path element that stands for an item of a list."""
        return f"v:{_encode(item).decode()}"


LEAF = Shape()


class Map(Shape):
    """A map whose entries are owned one by one."""

    kind = "map"

    def __init__(self, inner: Shape) -> None:
        self._inner = inner

    def child(self, key: str) -> Shape:
        _ = key
        return self._inner


class Deduced(Shape):
    """A value of which no schema speaks: maps are taken apart, the rest is not."""

    kind = "map"

    def child(self, key: str) -> Shape:
        _ = key
        return self


DEDUCED = Deduced()


class ValueSet(Shape):
    """A list of distinct plain values."""

    kind = "list"


class Items(Shape):
    """A list of objects that are told apart by some of their fields."""

    kind = "list"

    def __init__(self, inner: Shape, keys: tuple[str, ...], defaults: Mapping[str, Any]) -> None:
        self._inner = inner
        self.keys = tuple(sorted(keys))
        self._defaults = defaults
        self._elements: dict[str, str] = {}
        """Path elements of items with a single key, by its value: there are few types of conditions."""

    @property
    def item(self) -> Shape:
        return self._inner

    def element(self, item: Any) -> str:
        if not isinstance(item, dict):
            return f"v:{_encode(item).decode()}"
        name = item.get(self.keys[0]) if len(self.keys) == 1 else None
        if type(name) is str and (known := self._elements.get(name)) is not None:
            return known
        found = {}
        for key in self.keys:
            value = item.get(key, self._defaults.get(key))
            if value is not None:
                found[key] = value
        element = f"k:{_encode(found).decode()}"
        if type(name) is str and len(self._elements) < _MOST_ELEMENTS:
            self._elements[name] = element
        return element


class Struct(Shape):
    """A struct of a built-in kind."""

    kind = "map"

    def __init__(self, definition: TypeDefinition) -> None:
        self._definition = definition
        self._children: dict[str, Shape] = {}

    def child(self, key: str) -> Shape:
        found = self._children.get(key)
        if found is None:
            field = self._definition.fields.get(key)
            found = self._children[key] = LEAF if field is None else _of_field(field)
        return found

    def is_field(self, key: str) -> bool:
        return key in self._definition.fields


@cache
def of_definition(name: str) -> Shape:
    definition = built_in_types().definition(name)
    return LEAF if definition.atomic else Struct(definition)


def of_kind(group: str, version: str, kind: str) -> Shape:
    definition = built_in_types().of_kind(group, version, kind)
    assert definition is not None, kind
    return of_definition(definition.name)


def _of_field(field: TypeField) -> Shape:
    if field.map_type == "atomic":
        return LEAF
    if field.type.code == "[":
        inner = field.type.inner
        assert inner is not None
        if field.list_type == "map":
            defaults = {"protocol": "TCP"} if "protocol" in field.list_keys else {}
            return Items(_of_type(inner), field.list_keys, defaults)
        return ValueSet() if field.list_type == "set" else LEAF
    return _of_type(field.type)


def _of_type(type_: FieldType) -> Shape:
    match type_.code:
        case "#":
            return of_definition(type_.name)
        case "{":
            assert type_.inner is not None
            return Map(_of_type(type_.inner))
        case _:
            return LEAF


class Custom(Shape):
    """A part of a custom kind, as its schema describes it."""

    def __init__(self, schema: Mapping[str, Any], *, root: bool = False) -> None:
        self._schema = schema
        self._root = root
        self._children: dict[str, Shape] = {}
        self.kind = "map"

    def child(self, key: str) -> Shape:
        found = self._children.get(key)
        if found is None:
            found = self._children[key] = self._find(key)
        return found

    def _find(self, key: str) -> Shape:
        if self._root and key == "metadata":
            return of_definition(_META)
        given = (self._schema.get("properties") or {}).get(key)
        if given is not None:
            return of_schema(given)
        extra = self._schema.get("additionalProperties")
        if isinstance(extra, dict):
            return of_schema(extra)
        return DEDUCED

    def is_field(self, key: str) -> bool:
        return key in (self._schema.get("properties") or {}) or (
            self._root and key in {"apiVersion", "kind", "metadata"}
        )


def of_schema(schema: Mapping[str, Any]) -> Shape:
    if schema.get("type") == "array":
        items = schema.get("items") or {}
        match schema.get("x-kubernetes-list-type"):
            case "map":
                keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())
                properties = items.get("properties") or {}
                defaults = {
                    key: properties[key]["default"] for key in keys if "default" in properties.get(key, {})
                }
                return Items(of_schema(items), keys, defaults)
            case "set":
                return ValueSet()
            case _:
                return LEAF
    if schema.get("type") == "object" or "properties" in schema or "additionalProperties" in schema:
        return LEAF if schema.get("x-kubernetes-map-type") == "atomic" else Custom(schema)
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return DEDUCED
    return LEAF


def of_custom_kind(schema: Mapping[str, Any]) -> Shape:
    """Return the shape of a custom kind, whose metadata is that of every object."""
    return Custom(schema, root=True)
