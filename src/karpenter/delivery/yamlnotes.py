"""YAML with a comment above every value that has one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from karpenter.api.yamltext import render_documents

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def with_notes(values: Mapping[str, Any], notes: Mapping[str, str]) -> str:
    """Return mappings as YAML; `notes` are keyed by path."""
    return "\n".join(_lines(values, notes, "", "")) + "\n"


def _lines(values: Mapping[str, Any], notes: Mapping[str, str], above: str, pad: str) -> Iterator[str]:
    for key, value in values.items():
        path = f"{above}{key}"
        if path in notes:
            yield f"{pad}# {notes[path]}"
            for line in render_documents([{key: value}]).splitlines():
                yield f"{pad}{line}"
        else:
            yield f"{pad}{key}:"
            yield from _lines(value, notes, f"{path}.", f"{pad}  ")
