"""
A small reader of Go templates, for as much of them as our chart uses.

Written apart from what writes the templates, so that a mistake there is not repeated here. Facts of the
release (``include "karpenter.…" .``) are given by the caller.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ACTION = re.compile(r"\{\{(-?)\s*(.*?)\s*(-?)\}\}", re.DOTALL)
WORD = re.compile(r'"(?:\\.|[^"\\])*"|\S+')


class Reader:
    """Renders one template."""

    def __init__(self, text: str, values: dict[str, Any], fact: Callable[[str], str]) -> None:
        self._values = values
        self._fact = fact
        self._pieces = list(self._cut(text))
        self._at = 0

    def render(self) -> str:
        """Return the text."""
        text, ended = self._block(None, shown=True)
        assert ended == "", f"{ended} without a beginning"
        return text

    @staticmethod
    def _cut(text: str) -> Iterator[tuple[str, str]]:
        at, trim = 0, False
        for found in ACTION.finditer(text):
            before = text[at : found.start()]
            before = before.lstrip() if trim else before
            yield "text", before.rstrip() if found[1] else before
            yield "action", found[2]
            at, trim = found.end(), bool(found[3])
        yield "text", text[at:].lstrip() if trim else text[at:]

    def _block(self, dot: Any, *, shown: bool) -> tuple[str, str]:
        """Return the text up to an ``else`` or ``end``, and which it was."""
        out = ""
        while self._at < len(self._pieces):
            sort, content = self._pieces[self._at]
            self._at += 1
            if sort == "text":
                out += content
            elif content in {"else", "end"}:
                return (out if shown else ""), content
            elif content.startswith(("if ", "with ")):
                out += self._branch(content, dot, shown=shown)
            elif shown:
                out += self._print(self._value(content, dot))
        return out, ""

    def _branch(self, content: str, dot: Any, *, shown: bool) -> str:
        keyword, _, condition = content.partition(" ")
        found = self._value(condition, dot) if shown else None
        text, ended = self._block(found if keyword == "with" else dot, shown=shown and bool(found))
        if ended == "else":
            other, ended = self._block(dot, shown=shown and not found)
            text += other
        assert ended == "end", content
        return text

    def _value(self, expression: str, dot: Any) -> Any:
        first, *pipes = expression.split(" | ")
        value = self._call(WORD.findall(first), dot)
        for pipe in pipes:
            match pipe.split():
                case ["quote"]:
                    value = json.dumps(self._print(value), ensure_ascii=False)
                case ["nindent", count]:
                    pad = "\n" + " " * int(count)
                    value = pad + value.replace("\n", pad)
                case _:
                    raise AssertionError(pipe)
        return value

    def _call(self, words: list[str], dot: Any) -> Any:  # noqa: C901, PLR0911, PLR0912  one case for every function
        match words:
            case ["include", name, "."]:
                return self._fact(json.loads(name).removeprefix("karpenter."))
            case ["toYaml", one]:
                return yaml.safe_dump(self._call([one], dot), sort_keys=True, width=1000).rstrip("\n")
            case ["join", mark, one]:
                return json.loads(mark).join(self._call([one], dot))
            case ["required", _, one]:
                return self._call([one], dot)
            case ["or", *many]:
                return next((value for one in many if (value := self._call([one], dot))), None)
            case ["not", one]:
                return not self._call([one], dot)
            case ["eq", one, text]:
                return self._call([one], dot) == json.loads(text)
            case ["."]:
                return dot
            case [one] if one.startswith(".Values."):
                found: Any = self._values
                for word in one.removeprefix(".Values.").split("."):
                    found = (found or {}).get(word)
                return found
            case [".Release.Name"]:
                return self._fact("release")
            case [".Release.Namespace"]:
                return self._fact("namespace")
            case [".Chart.AppVersion"]:
                return self._fact("version")
            case _:
                raise AssertionError(words)

    @staticmethod
    def _print(value: Any) -> str:
        if isinstance(value, bool):
            return "true" if value else "false"
        return "" if value is None else str(value)
