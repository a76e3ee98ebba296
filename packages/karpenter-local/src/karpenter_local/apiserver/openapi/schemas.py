"""Definitions as OpenAPI schemas, and which of them a kind needs."""

from __future__ import annotations

from typing import Any

from karpenter_local.apiserver.openapi import words
from karpenter_local.apiserver.schema.types import FieldType, TypeDefinition, TypeField, built_in_types

_PKG = "io.k8s.apimachinery.pkg"
# Types that are written otherwise than Go declares them, such as a Quantity as text or number:
# https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
SPECIAL: dict[str, tuple[str, dict[str, Any]]] = {
    "q": (f"{_PKG}.api.resource.Quantity", {"oneOf": [{"type": "string"}, {"type": "number"}]}),
    "x": (
        f"{_PKG}.util.intstr.IntOrString",
        {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
    ),
    "t": (f"{_PKG}.apis.meta.v1.Time", {"type": "string", "format": "date-time"}),
    "u": (f"{_PKG}.apis.meta.v1.MicroTime", {"type": "string", "format": "date-time"}),
    "o": (f"{_PKG}.runtime.RawExtension", {"type": "object"}),
}
_PLAIN: dict[str, dict[str, Any]] = {
    "s": {"type": "string"},
    "b": {"type": "boolean"},
    "i": {"type": "integer", "format": "int32"},
    "l": {"type": "integer", "format": "int64"},
    "d": {"type": "number", "format": "double"},
    "y": {"type": "string", "format": "byte"},
    "j": {},
}
_V2_SPECIAL = {"q": {"type": "string"}, "x": {"type": "string", "format": "int-or-string"}}
META = f"{_PKG}.apis.meta.v1.ObjectMeta"
LIST_META = f"{_PKG}.apis.meta.v1.ListMeta"


class Schemas:
    """Collects schemas and all that they refer to; `prefix` is what references begin with."""

    def __init__(self, prefix: str, *, old: bool = False) -> None:
        self._prefix = prefix
        self._old = old
        self.found: dict[str, dict[str, Any]] = {}

    def add(self, name: str) -> None:
        """Take a definition and everything that it refers to."""
        if name in self.found:
            return
        definition = built_in_types().definition(name)
        target = self.found[name] = dict[str, Any]()
        target |= self._struct(definition)

    def _struct(self, definition: TypeDefinition) -> dict[str, Any]:
        top = definition.gvk is not None
        properties = {}
        for field in definition.fields.values():
            described = words.of_field(definition.short, field.name, top=top)
            properties[field.name] = self._field(field, described)
        schema: dict[str, Any] = {"type": "object", "properties": properties}
        described = words.of_kind(definition.short)
        if described:
            schema = {"description": described, **schema}
        if definition.required:
            schema["required"] = list(definition.required)
        if definition.atomic:
            schema["x-kubernetes-map-type"] = "atomic"
        if definition.gvk is not None:
            group, version, kind = definition.gvk
            schema["x-kubernetes-group-version-kind"] = [{"group": group, "version": version, "kind": kind}]
        return schema

    def _field(self, field: TypeField, described: str) -> dict[str, Any]:
        schema = self._type(field.type)
        if described:
            if "$ref" in schema and not self._old:
                schema = {"allOf": [schema], "default": {}}
            schema = {"description": described, **schema}
        for key, value in (
            ("enum", list(field.enum)),
            ("x-kubernetes-list-type", field.list_type),
            ("x-kubernetes-list-map-keys", list(field.list_keys)),
            ("x-kubernetes-map-type", field.map_type),
            ("x-kubernetes-patch-strategy", field.strategy),
            ("x-kubernetes-patch-merge-key", field.merge_key),
        ):
            if value:
                schema = {**schema, key: value}
        return schema

    def _type(self, type_: FieldType) -> dict[str, Any]:
        match type_.code:
            case "#":
                self.add(type_.name)
                return {"$ref": f"{self._prefix}{type_.name}"}
            case "[":
                assert type_.inner is not None
                return {"type": "array", "items": self._type(type_.inner)}
            case "{":
                assert type_.inner is not None
                return {"type": "object", "additionalProperties": self._type(type_.inner)}
            case code if code in SPECIAL:
                name, schema = SPECIAL[code]
                self.found[name] = _V2_SPECIAL.get(code, schema) if self._old else schema
                return {"$ref": f"{self._prefix}{name}"}
            case code:
                return dict(_PLAIN[code])


def of_custom(plain: dict[str, Any], gvk: tuple[str, str, str], prefix: str) -> dict[str, Any]:
    """Return the schema of a custom kind as it is published: with the metadata that every object has."""
    group, version, kind = gvk
    properties = dict(plain.get("properties") or {})
    common = {
        "apiVersion": {"type": "string", "description": words.FIELDS["apiVersion"]},
        "kind": {"type": "string", "description": words.FIELDS["kind"]},
        "metadata": {
            "description": words.FIELDS["metadata"],
            "allOf": [{"$ref": f"{prefix}{META}"}],
        },
    }
    return {
        **plain,
        "properties": common | {key: part for key, part in properties.items() if key not in common},
        "x-kubernetes-group-version-kind": [{"group": group, "version": version, "kind": kind}],
    }


def of_list(item: str, gvk: tuple[str, str, str], list_kind: str, prefix: str) -> dict[str, Any]:
    group, version, _ = gvk
    return {
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"$ref": f"{prefix}{LIST_META}"},
            "items": {"type": "array", "items": {"$ref": f"{prefix}{item}"}},
        },
        "x-kubernetes-group-version-kind": [{"group": group, "version": version, "kind": list_kind}],
    }
