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


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """One column; those with a priority are shown only when the table is wide."""

    name: str
    cell: Cell
    type: str = "string"
    format: str = ""
    priority: int = 0
    description: str = ""

    def definition(self) -> dict[str, Any]:
        """Return the heading as the API describes it."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


def column(name: str, cell: Cell, *, wide: bool = False, type_: str = "string") -> Column:
    """Return a column."""
    return Column(name=name, cell=cell, priority=1 if wide else 0, type=type_)


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
    """Return the moment that the API wrote."""
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


NAME = Column(name="Name", cell=at("metadata.name"), format="name", description="The object's name.")
AGE = Column(
    name="Age", cell=since("metadata.creationTimestamp"), description="How long ago the object was created."
)
CREATED = Column(name="Created At", cell=at("metadata.creationTimestamp"), type="date")

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_EIGHT = 8


def human(seconds: float) -> str:  # noqa: PLR0911  a ladder of units
    """Return a duration in at most two units, the finer one only while it matters."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    whole = max(whole, 0)
    minutes, hours, days = whole // _MINUTE, whole // _HOUR, whole // _DAY
    if whole < 2 * _MINUTE:
        return f"{whole}s"
    if minutes < 10:
        return _two(minutes, "m", whole % _MINUTE, "s")
    if hours < 3:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    if days < 2920:
        return _two(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _two(whole: int, unit: str, rest: int, finer: str) -> str:
    return f"{whole}{unit}{rest}{finer}" if rest else f"{whole}{unit}"


def labels(given: dict[str, str] | None) -> str:
    """Return labels on one line, in order of key."""
    return ",".join(f"{key}={given[key]}" for key in sorted(given)) if given else NONE


def selector(given: Object | None) -> str:
    """Return a LabelSelector on one line."""
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
