"""
Keys that a JSON body gives more than once.

Decoders keep the last one and say nothing; field validation wants to know. Looked for only when a body may
have some, because this is slow.
"""

from __future__ import annotations

import json
from typing import Any


class _Seen(dict[str, Any]):
    """A JSON object that remembers which of its keys were repeated."""

    repeated: tuple[str, ...] = ()


def in_json(raw: bytes) -> tuple[str, ...]:
    """Return a sentence for each repeated key of a JSON text."""
    guilty: list[_Seen] = []

    def pairs(items: list[tuple[str, Any]]) -> _Seen:
        seen = _Seen(items)
        if len(seen) < len(items):
            keys = [key for key, _ in items]
            seen.repeated = tuple(dict.fromkeys(key for key in keys if keys.count(key) > 1))
            guilty.append(seen)
        return seen

    value = json.loads(raw, object_pairs_hook=pairs)
    found: list[str] = []
    if guilty:
        _walk(value, "", found)
    return tuple(found)


def _walk(value: Any, path: str, found: list[str]) -> None:
    if isinstance(value, _Seen):
        prefix = f"{path}." if path else ""
        found.extend(f'duplicate field "{prefix}{key}"' for key in value.repeated)
        for key, part in value.items():
            _walk(part, f"{prefix}{key}", found)
    elif isinstance(value, list):
        for index, part in enumerate(value):
            _walk(part, f"{path}[{index}]", found)
