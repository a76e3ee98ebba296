"""
Whether a partial object fits its kind's schema, as server-side apply asks: the first thing that does not,
in its words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from karpenter_local.apiserver.schema.types import FieldType, TypeDefinition

_FREE = frozenset("qxoj")


def problem(value: Any, definition: TypeDefinition) -> str:
    """Return what does not fit, or nothing."""
    return _struct(value, definition, "")


def _struct(value: Any, definition: TypeDefinition, path: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, dict):
        return f"{path}: expected map, got {_shown(value)}"
    for key, part in value.items():
        field = definition.fields.get(key)
        if field is None:
            return f"{path}.{key}: field not declared in schema"
        wrong = _value(part, field.type, f"{path}.{key}")
        if wrong:
            return wrong
    return ""


def _value(value: Any, type_: FieldType, path: str) -> str:
    if value is None or type_.code in _FREE:
        return ""
    match type_.code:
        case "#":
            return _struct(value, type_.definition, path)
        case "[":
            if not isinstance(value, list):
                return f"{path}: expected list, got {_shown(value)}"
            assert type_.inner is not None
            inner = type_.inner
            return next(
                (bad for index, item in enumerate(value) if (bad := _value(item, inner, f"{path}[{index}]"))),
                "",
            )
        case "{":
            if not isinstance(value, dict):
                return f"{path}: expected map, got {_shown(value)}"
            assert type_.inner is not None
            inner = type_.inner
            return next(
                (bad for key, item in value.items() if (bad := _value(item, inner, f"{path}.{key}"))), ""
            )
        case "b":
            return "" if isinstance(value, bool) else f"{path}: expected boolean, got {_shown(value)}"
        case "i" | "l" | "d":
            fine = isinstance(value, int | float) and not isinstance(value, bool)
            return "" if fine else f"{path}: expected numeric (int or float), got {_name(value)}"
        case _:
            shown = f"&value.valueUnstructured{{Value:{_plain(value)}}}"
            return "" if isinstance(value, str) else f"{path}: expected string, got {shown}"


def _name(value: Any) -> str:
    match value:
        case str():
            return "string"
        case bool():
            return "bool"
        case list():
            return "[]interface {}"
        case _:
            return "map[string]interface {}"


def _shown(value: Any) -> str:
    return f"&{{{_plain(value)}}}"


def _plain(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case list():
            return f"[{' '.join(_plain(item) for item in value)}]"
        case dict():
            return f"map[{' '.join(f'{key}:{_plain(part)}' for key, part in sorted(value.items()))}]"
        case _:
            return str(value)
