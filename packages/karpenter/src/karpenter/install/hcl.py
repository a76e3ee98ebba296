"""
Writes HCL, the language of Terraform, as ``terraform fmt`` would.

Pure. Values are plain data; an :class:`HclExpression` stands as it is, and texts that are known by an
expression, such as the ARN of a role that the same files make, become references to it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_WIDEST: Final = 100
_STEP: Final = "  "


class HclExpression(msgspec.Struct, frozen=True):
    """An expression that is written as it is."""

    text: str


class HclCall(msgspec.Struct, frozen=True):
    """A function of one value, such as ``jsonencode``."""

    function: str
    value: Any


class HclBlock(msgspec.Struct, frozen=True, kw_only=True):
    """A block: its type and labels, and what it states, in order."""

    head: tuple[str, ...]
    body: Mapping[str, Any]
    comment: str = ""

    @property
    def address(self) -> str:
        """What the resource is called in expressions."""
        return ".".join(self.head[1:])


class HclWriter:
    """Writes blocks; `known` says which texts, or parts of texts, are written as which expressions."""

    def __init__(self, known: Mapping[str, str] | None = None) -> None:
        self._known = dict(known or {})
        longest = sorted(self._known, key=len, reverse=True)
        self._parts = re.compile("|".join(map(re.escape, longest))) if longest else None

    def block(self, block: HclBlock) -> str:
        """Return a block as text, without a line break at its end."""
        kind, *labels = block.head
        head = " ".join((kind, *(json.dumps(each) for each in labels)))
        lines = [f"# {line}" for line in block.comment.splitlines()]
        return "\n".join([*lines, f"{head} {{", *self._items(block.body, 1), "}"])

    def text(self, text: str) -> str:
        """Return a text as HCL: quoted, or as the expression that it is known by."""
        if text in self._known:
            return self._known[text]
        if self._parts is None:
            return _quoted(text)
        found, end = "", 0
        for match in self._parts.finditer(text):
            found += f"{_escaped(text[end : match.start()])}${{{self._known[match[0]]}}}"
            end = match.end()
        return f'"{found}{_escaped(text[end:])}"'

    def value(self, value: Any, depth: int) -> str:
        """Return a value as HCL; lines after the first are indented for `depth`."""
        match value:
            case HclExpression():
                return value.text
            case HclCall():
                return f"{value.function}({self.value(value.value, depth)})"
            case str():
                return self.text(value)
            case bool() | int() | float() | None:
                return json.dumps(value)
            case Mapping():
                inside = self._items(value, depth + 1)
                return "\n".join(["{", *inside, f"{_STEP * depth}}}"]) if inside else "{}"
            case _:
                return self._list(list(value), depth)

    def _list(self, values: list[Any], depth: int) -> str:
        each = [self.value(one, depth + 1) for one in values]
        line = f"[{', '.join(each)}]"
        if "\n" not in line and len(line) + len(_STEP) * depth <= _WIDEST:
            return line
        pad = _STEP * (depth + 1)
        return "\n".join(["[", *(f"{pad}{one}," for one in each), f"{_STEP * depth}]"])

    def _items(self, items: Mapping[str, Any], depth: int) -> list[str]:
        """Return the lines of items; beside each other, those of one line have their signs in one column."""
        pad = _STEP * depth
        found: list[str] = []
        pending: list[tuple[str, str]] = []

        def flush() -> None:
            width = max((len(key) for key, _ in pending), default=0)
            found.extend(f"{pad}{key.ljust(width)} = {text}" for key, text in pending)
            pending.clear()

        for name, value in items.items():
            key = self._key(name)
            text = self.value(value, depth)
            if "\n" in text:
                flush()
                found.append(f"{pad}{key} = {text}")
            else:
                pending.append((key, text))
        flush()
        return found

    def _key(self, name: str) -> str:
        text = self.text(name)
        # `{ for` begins a comprehension. https://developer.hashicorp.com/terraform/language/expressions/for
        if text == f'"{name}"' and _NAME.fullmatch(name) and name != "for":
            return name
        # A key that is an expression needs parentheses, or it would be taken for a name.
        return text if text.startswith('"') else f"({text})"


def _quoted(text: str) -> str:
    return f'"{_escaped(text)}"'


def _escaped(text: str) -> str:
    inner = json.dumps(text, ensure_ascii=False)[1:-1]
    return inner.replace("${", "$${").replace("%{", "%%{")
