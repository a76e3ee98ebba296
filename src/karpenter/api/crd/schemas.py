"""
From a struct to its structural OpenAPI schema, everything inlined.

Fields without a default are required. What a field's type cannot say (bounds, patterns, rules,
defaults) stands beside it in :mod:`karpenter.api.constraints`.
"""

import types
from datetime import datetime
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec

from karpenter.api.constraints import QUANTITY_SCHEMA, REQUIRED
from karpenter.api.crd.prose import describe_fields, describe_struct
from karpenter.api.meta import ObjectMeta
from karpenter.api.wire import Quantity

_SCALARS: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer", "format": "int64"},
    datetime: {"type": "string", "format": "date-time"},
}


def struct_schema(struct: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the schema of a struct, with the words of its docstrings."""
    words = describe_fields(struct)
    properties: dict[str, Any] = {}
    required: list[str] = []
    for field in msgspec.structs.fields(struct):
        schema = type_schema(field.type)
        if schema.pop(REQUIRED, False) or field.required:
            required.append(field.encode_name)
        said = words.get(field.name) or schema.get("description", "")
        properties[field.encode_name] = {"description": said, **schema} if said else schema
        if said:
            properties[field.encode_name]["description"] = said
    schema = {"description": describe_struct(struct), "type": "object"}
    if required:
        schema["required"] = sorted(required)
    return {**schema, "properties": dict(sorted(properties.items()))}


def type_schema(annotation: Any) -> dict[str, Any]:
    """Return the schema of a type as it stands in an annotation."""
    if get_origin(annotation) is Annotated:
        base, *metas = get_args(annotation)
        schema = type_schema(base)
        for meta in metas:
            schema = _merge(schema, meta.extra_json_schema or {})
        return schema
    if annotation in _SCALARS:
        return dict(_SCALARS[annotation])
    if annotation == Quantity:
        return dict(QUANTITY_SCHEMA)
    if annotation is ObjectMeta:
        return {"type": "object"}
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return struct_schema(annotation)
    return _generic_schema(annotation)


def _generic_schema(annotation: Any) -> dict[str, Any]:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in {Union, types.UnionType}:
        (some,) = (each for each in arguments if each is not types.NoneType)
        return type_schema(some)
    if origin is tuple:
        return {"type": "array", "items": type_schema(arguments[0])}
    if origin is dict and arguments[1] is Any:
        return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    if origin is dict:
        return {"type": "object", "additionalProperties": type_schema(arguments[1])}
    raise TypeError(f"{annotation!r} has no schema: give it one in karpenter.api.crd.schemas")


def _merge(schema: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Return `schema` with `more` said about it; about items and values as well."""
    merged = dict(schema)
    for key, value in more.items():
        inner = merged.get(key)
        merged[key] = _merge(inner, value) if isinstance(inner, dict) and isinstance(value, dict) else value
    return merged


def object_schema(struct: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the schema of a kind: its struct, with the fields that every object has."""
    schema = struct_schema(struct)
    schema["properties"] = {
        "apiVersion": {"description": "The group and version of this kind.", "type": "string"},
        "kind": {"description": "This kind.", "type": "string"},
        "metadata": {"type": "object"},
        **{name: each for name, each in schema["properties"].items() if name != "metadata"},
    }
    return schema
