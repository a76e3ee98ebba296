"""Columns: a heading, and a function from an object and the time to a cell."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec

Object = dict[str, Any]
Cell = Callable[[Object, datetime], Any]

NONE = "<none>"
UNKNOWN = "<unknown>"


class TableColumn(msgspec.Struct, frozen=True, kw_only=True):
    """One column; those with a priority are shown only when the table is wide."""

    name: str
    cell: Cell
    type: str = "string"
    format: str = ""
    priority: int = 0
    description: str = ""

    def definition(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


def column(name: str, cell: Cell, *, wide: bool = False, type_: str = "string") -> TableColumn:
    return TableColumn(name=name, cell=cell, priority=1 if wide else 0, type=type_)


def dig(value: Any, path: str) -> Any:
    """Return what is at a dotted path, or None."""
    for step in path.split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(step)
    return value


def at(path: str, absent: Any = "") -> Cell:
    """Return a cell that shows what is at a dotted path."""

    def cell(value: Object, _: datetime) -> Any:
        found = dig(value, path)
        return absent if found is None or found == "" else found

    return cell


def count(path: str) -> Cell:
    """Return a cell that shows a number, zero if it is not there."""
    return at(path, 0)


def size(*paths: str) -> Cell:
    """Return a cell that counts the items at some paths together."""

    def cell(value: Object, _: datetime) -> Any:
        return sum(len(dig(value, path) or ()) for path in paths)

    return cell


def parse_time(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def since(path: str) -> Cell:
    """Return a cell that shows how long ago the moment at a path was."""

    def cell(value: Object, now: datetime) -> Any:
        return ago(dig(value, path), now)

    return cell


def ago(text: str | None, now: datetime) -> str:
    """Return how long ago a moment was, as kubectl prints ages."""
    if not text:
        return UNKNOWN
    return human((now - parse_time(text)).total_seconds())


NAME = TableColumn(name="Name", cell=at("metadata.name"), format="name", description="The object's name.")
AGE = TableColumn(
    name="Age", cell=since("metadata.creationTimestamp"), description="How long ago the object was created."
)
CREATED = TableColumn(name="Created At", cell=at("metadata.creationTimestamp"), type="date")

_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400
# Up to how many seconds, in which unit, with which finer unit behind it.
# duration.HumanDuration of k8s.io/apimachinery, which kubectl prints ages with.
_UNITS: tuple[tuple[float, int, str, int, str], ...] = (
    (2 * _MINUTE, 1, "s", 0, ""),
    (10 * _MINUTE, _MINUTE, "m", 1, "s"),
    (3 * _HOUR, _MINUTE, "m", 0, ""),
    (8 * _HOUR, _HOUR, "h", _MINUTE, "m"),
    (2 * _DAY, _HOUR, "h", 0, ""),
    (8 * _DAY, _DAY, "d", _HOUR, "h"),
    (2 * _YEAR, _DAY, "d", 0, ""),
    (8 * _YEAR, _YEAR, "y", _DAY, "d"),
    (float("inf"), _YEAR, "y", 0, ""),
)


def human(seconds: float) -> str:
    """Return a duration in at most two units, the finer one only while it matters."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    whole = max(whole, 0)
    _, size, unit, finer_size, finer = next(row for row in _UNITS if whole < row[0])
    rest = whole % size // finer_size if finer_size else 0
    return f"{whole // size}{unit}{rest}{finer}" if rest else f"{whole // size}{unit}"


def labels(given: dict[str, str] | None) -> str:
    """Return labels on one line, in order of key."""
    return ",".join(f"{key}={given[key]}" for key in sorted(given)) if given else NONE


def selector(given: Object | None) -> str:
    if given is None:
        return NONE
    terms = [f"{key}={value}" for key, value in sorted((given.get("matchLabels") or {}).items())]
    for item in given.get("matchExpressions") or ():
        values = ",".join(sorted(item.get("values") or ()))
        match item["operator"]:
            case "In":
                terms.append(f"{item['key']} in ({values})")
            case "NotIn":
                terms.append(f"{item['key']} notin ({values})")
            case "Exists":
                terms.append(item["key"])
            case _:
                terms.append(f"!{item['key']}")
    return ",".join(sorted(terms)) if terms else NONE
