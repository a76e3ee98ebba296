"""
What a conversion says about an object: renamed, behaves differently, or has no counterpart.

An object with an ``error`` is not converted and stays in the output as it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import msgspec

INFO: Final = "info"
"""Something has another name or place now; it means the same."""

WARN: Final = "warn"
"""Something behaves differently now, or has to be looked at."""

ERROR: Final = "error"
"""Something has no counterpart; the object is left as it is."""

Path: TypeAlias = tuple[str | int, ...]
Plain: TypeAlias = dict[str, Any]


class ConversionFinding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a conversion found out about one object."""

    level: str
    code: str
    """Of what sort it is, in one word, for programs."""

    message: str
    field: str = ""
    source: str = ""
    subject: str = ""

    def __str__(self) -> str:
        place = ": ".join(part for part in (self.source, self.subject, self.field) if part)
        return f"{self.level}: {place}: {self.message}" if place else f"{self.level}: {self.message}"


class ConversionOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the user for all objects."""

    node_role: str = ""
    """The IAM role of nodes, for node classes that name none or an instance profile of the past."""

    ignore_defaults: bool = False
    """Whether requirements that the old API filled in by itself stay away."""


class NewDocument(msgspec.Struct, frozen=True, kw_only=True):
    """An object that takes the place of another, and where its fields come from."""

    plain: Plain
    moves: Mapping[Path, Path] = {}
    """New path to old path, for fields that moved; comments move with them."""


class ConversionOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """Documents and findings that one object is converted to."""

    documents: tuple[NewDocument, ...] = ()
    findings: tuple[ConversionFinding, ...] = ()

    @property
    def has_errors(self) -> bool:
        return any(each.level == ERROR for each in self.findings)


class Findings:
    """Collects findings about one object."""

    def __init__(self) -> None:
        self.found: list[ConversionFinding] = []

    def info(self, code: str, message: str, field: str = "") -> None:
        self._add(INFO, code, message, field)

    def warn(self, code: str, message: str, field: str = "") -> None:
        self._add(WARN, code, message, field)

    def error(self, code: str, message: str, field: str = "") -> None:
        self._add(ERROR, code, message, field)

    def _add(self, level: str, code: str, message: str, field: str) -> None:
        finding = ConversionFinding(level=level, code=code, message=message, field=field)
        if finding not in self.found:
            self.found.append(finding)


def mapping(value: object) -> Plain:
    """Return a value that should be a mapping; empty where it is none."""
    return value if isinstance(value, dict) else {}


def items(value: object) -> list[Any]:
    """Return a value that should be a list; empty where it is none."""
    return value if isinstance(value, list) else []


def without_empty(plain: Plain) -> Plain:
    """Return a mapping without members that are None, an empty mapping or an empty list."""
    return {key: value for key, value in plain.items() if value is not None and value not in ({}, [])}


def at(plain: object, path: Path) -> Any:
    for step in path:
        in_map = isinstance(plain, dict) and step in plain
        if in_map or (isinstance(plain, list) and isinstance(step, int) and step < len(plain)):
            plain = plain[step]  # type: ignore[index]
        else:
            return None
    return plain


def spell(path: Path) -> str:
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text
