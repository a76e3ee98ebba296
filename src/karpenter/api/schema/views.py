"""
How an object looks from inside a CEL rule.

Only fields that the schema knows can be seen, under names that CEL can spell; dates and durations
are values rather than texts; a number is a float wherever the schema says ``number``. At the root,
``apiVersion``, ``kind`` and the object's name can always be seen.
"""

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from karpenter.api.schema.correlation import identity, item_key
from karpenter.api.schema.formats import parse_date_time, parse_duration
from karpenter.api.schema.numbers import held, is_whole, to_double
from karpenter.api.schema.structural import Schema

_KEYWORDS = frozenset(
    "true false null in as break const continue else for "  # noqa: SIM905  words read best as words
    "function if import let loop package namespace return var void while".split()
)
_NAME = re.compile(r"[A-Za-z_./-][A-Za-z0-9_./-]*")
_SPELLINGS = (("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__"))


@lru_cache(maxsize=4096)
def spell(name: str) -> str | None:
    """Return a field's name as rules spell it, or None when they cannot."""
    if name in _KEYWORDS:
        return f"__{name}__"
    if not _NAME.fullmatch(name):
        return None
    for sign, spelled in _SPELLINGS:
        name = name.replace(sign, spelled)
    return name


def view(schema: Schema, value: Any, *, root: bool = False) -> Any:
    """Return what a rule beside `schema` sees of `value`."""
    if isinstance(value, dict):
        return _view_object(schema, value, root=root)
    if isinstance(value, list):
        return [view(schema.items, item) for item in value] if schema.items else value
    return _view_scalar(schema, value)


def _view_object(schema: Schema, value: dict[str, Any], *, root: bool) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    if root or schema.embedded:
        seen |= {name: value[name] for name in ("apiVersion", "kind") if name in value}
        metadata = value.get("metadata")
        if isinstance(metadata, dict):
            seen["metadata"] = {n: metadata[n] for n in ("name", "generateName") if n in metadata}
    if schema.values is not None:
        return seen | {name: view(schema.values, member) for name, member in value.items()}
    for name, known in schema.properties.items():
        spelled = spell(name)
        if name in value and spelled is not None and spelled not in seen:
            seen[spelled] = view(known, value[name])
    return seen


def _view_scalar(schema: Schema, value: Any) -> Any:
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return _view_number(schema, value)
    if schema.type == "string" and isinstance(value, str):
        read = _READERS.get(schema.format)
        text = value.encode(errors="replace").decode()
        return text if read is None else _read_or_keep(read, text)
    return value


def _view_number(schema: Schema, value: float) -> float:
    if schema.type == "number":
        return to_double(value)
    return held(int(value)) if schema.type == "integer" and is_whole(value) else held(value)


def _read_or_keep(read: Callable[[str], Any], text: str) -> Any:
    """Return the value that a text stands for; a text that stands for none stays one."""
    try:
        return read(text)
    except (ValueError, OverflowError, binascii.Error):
        return text


_READERS: Mapping[str, Callable[[str], Any]] = MappingProxyType(
    {"date-time": parse_date_time, "duration": parse_duration, "byte": base64.b64decode}
)


def align(schema: Schema, old: Any, new: Any) -> Any:
    """
    Return `old` with its sets and maps in the order of `new` where both hold the same members.

    The order of such lists has no meaning, but CEL compares lists item by item.
    """
    if isinstance(old, dict) and isinstance(new, dict):
        return {name: _align_member(schema.member(name), old[name], new.get(name)) for name in old}
    if not isinstance(old, list) or not isinstance(new, list) or schema.list_type not in {"set", "map"}:
        return old
    by_key = {_key(schema, item): item for item in old}
    keys = [_key(schema, item) for item in new]
    if len(by_key) != len(old) or sorted(keys) != sorted(by_key):
        return old
    return [_align_member(schema.items, by_key[key], item) for key, item in zip(keys, new, strict=True)]


def _align_member(schema: Schema | None, old: Any, new: Any) -> Any:
    return old if schema is None else align(schema, old, new)


def _key(schema: Schema, item: Any) -> str:
    named = schema.list_type == "map" and isinstance(item, dict)
    return identity(item_key(schema, item) if named else item)
