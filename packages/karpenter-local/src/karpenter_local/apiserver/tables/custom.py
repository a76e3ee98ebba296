"""The columns that a CustomResourceDefinition asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from karpenter_local.apiserver.tables.columns import Cell, Object, TableColumn, ago
from karpenter_local.apiserver.tables.jsonpath import PathError, compile_path

if TYPE_CHECKING:
    from datetime import datetime


_HOW = "Custom resource definition column (in JSONPath format)"


def columns(given: list[dict[str, Any]]) -> tuple[TableColumn, ...]:
    """Return the columns of ``additionalPrinterColumns``; one whose path cannot be read stays empty."""
    return tuple(
        TableColumn(
            name=item["name"],
            cell=_cell(item["jsonPath"], item["type"]),
            type=item["type"],
            format=item.get("format", ""),
            priority=item.get("priority", 0),
            description=item.get("description") or f"{_HOW}: {item['jsonPath']}",
        )
        for item in given
    )


def _cell(path: str, kind: str) -> Cell:
    try:
        find = compile_path(path)
    except PathError:
        return lambda _, __: None

    def cell(value: Object, now: datetime) -> Any:
        found = find(value)
        return _shown(found[0], kind, now) if found else None

    return cell


def _shown(value: Any, kind: str, now: datetime) -> Any:
    match kind:
        case "date":
            try:
                return ago(value, now)
            except (TypeError, ValueError):
                return "<invalid>"
        case "integer":
            return value if isinstance(value, int) and not isinstance(value, bool) else _whole(value)
        case "number":
            return value if isinstance(value, int | float) else None
        case "boolean":
            return value if isinstance(value, bool) else None
        case _:
            return value if isinstance(value, str) else _text(value)


def _whole(value: Any) -> int | None:
    return int(value) if isinstance(value, float) and value.is_integer() else None


def _text(value: Any) -> str:
    return "true" if value is True else "false" if value is False else msgspec.json.encode(value).decode()
