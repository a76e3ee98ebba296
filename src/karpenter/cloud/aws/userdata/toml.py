"""Writing TOML: tables of texts, numbers, truths, lists and tables, as far as the settings of images go."""

from __future__ import annotations

import json
import re
from datetime import date, datetime, time
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")


def render_toml(table: Mapping[str, Any]) -> str:
    """Return a table as a TOML document."""
    return "\n".join(_table(table, ())).strip("\n") + "\n"


def _table(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    values = {key: value for key, value in table.items() if not isinstance(value, dict)}
    if path and (values or not table):
        yield f"[{'.'.join(map(_key, path))}]"
    for key, value in values.items():
        yield f"{_key(key)} = {_value(value)}"
    if values or not table:
        yield ""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _table(value, (*path, key))


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _text(key)


def _value(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case str():
            return _text(value)
        case datetime() | date() | time():
            return value.isoformat()
        case list():
            return f"[{', '.join(map(_value, value))}]"
        case dict():
            return f"{{{', '.join(f'{_key(key)} = {_value(each)}' for key, each in value.items())}}}"
        case _:
            raise TypeError(f"{value!r} cannot be written as TOML")


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
