r"""
The small part of JSONPath that printer columns use: fields, indices, and filters on one field.

    .spec.replicas
    .metadata.labels['a/b']    .metadata.labels.a\.b/c
    .status.conditions[?(@.type=="Ready")].status
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_TOKEN = re.compile(
    r"""
    \.(?P<field>(?:\\.|[^.\[\\])+)
    | \[\s*'(?P<single>[^']*)'\s*\] | \[\s*"(?P<double>[^"]*)"\s*\]
    | \[(?P<index>-?\d+)\]
    | \[(?P<all>\*)\]
    | \[\?\(\s*@\.(?P<key>[\w.\-/]+)\s*(?P<operator>==|!=)\s*(?P<value>"[^"]*"|'[^']*'|[^\s)]+)\s*\)\]
    """,
    re.VERBOSE,
)


class PathError(ValueError):
    """The text is not a path that this module reads."""


def compile_path(text: str) -> Callable[[Any], list[Any]]:
    """Return a function from a value to everything that the path finds in it."""
    stripped = text.strip().removeprefix("{").removesuffix("}")
    position = 0
    steps: list[Callable[[Any], list[Any]]] = []
    while position < len(stripped):
        match = _TOKEN.match(stripped, position)
        if match is None:
            raise PathError(f"cannot read {stripped[position:]!r} in the path {text!r}")
        steps.append(_step(match))
        position = match.end()

    def find(value: Any) -> list[Any]:
        found = [value]
        for step in steps:
            found = [item for part in found for item in step(part)]
        return found

    return find


def _step(match: re.Match[str]) -> Callable[[Any], list[Any]]:
    name = (
        match["single"]
        or match["double"]
        or (re.sub(r"\\(.)", r"\1", match["field"]) if match["field"] else None)
    )
    if name is not None:
        return lambda value: [value[name]] if isinstance(value, dict) and value.get(name) is not None else []
    if match["index"] is not None:
        index = int(match["index"])
        return lambda value: (
            [value[index]] if isinstance(value, list) and -len(value) <= index < len(value) else []
        )
    if match["all"]:
        return lambda value: (
            list(value)
            if isinstance(value, list)
            else list(value.values())
            if isinstance(value, dict)
            else []
        )
    key, wanted, equal = match["key"].split("."), match["value"].strip("\"'"), match["operator"] == "=="
    return lambda value: [
        item for item in (value if isinstance(value, list) else ()) if (_text(item, key) == wanted) is equal
    ]


def _text(value: Any, key: list[str]) -> str | None:
    for step in key:
        if not isinstance(value, dict) or step not in value:
            return None
        value = value[step]
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
