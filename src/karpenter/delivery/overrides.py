r"""
Values that a user states, on the command line or in files, laid over the defaults.

``--set`` is read as Helm reads it: ``a.b=1,c=x`` sets two values, ``\\.`` and ``\\,`` are a plain dot and a
plain comma, ``{a,b}`` is a list, ``a[0].b=x`` is in the first item of a list, and ``null`` takes a value
away. Unlike Helm, a name that the chart does not know is refused.
"""

from __future__ import annotations

import difflib
import itertools
import re
from typing import Any, Final

from karpenter.delivery.values import VALUES, default_values

_WORD: Final = re.compile(r"((?:\\.|[^\\.\[\]])+)((?:\[\d+\])*)")
_WHOLE: Final = re.compile(r"-?(?:0|[1-9]\d*)")
_LONGEST_LIST: Final = 1000


class BadValue(ValueError):  # noqa: N818  says what is wrong
    """A value that cannot be read, or that the chart does not know."""


def parse_set(text: str) -> list[tuple[list[str | int], Any]]:
    """
    Return what one ``--set`` says: paths and values.

    Raises:
        BadValue: naming what cannot be read.
    """
    return [_assignment(part, text) for part in _split(text, ",") if part]


def lay_over(values: dict[str, Any], stated: dict[str, Any]) -> None:
    """
    Lay what a file of values states over `values`.

    Raises:
        BadValue: naming a value that the chart does not know.
    """
    _check(stated, "")
    _merge(values, stated)


def put(values: dict[str, Any], path: list[str | int], value: Any) -> None:
    """
    Set one value.

    Raises:
        BadValue: the chart does not know it, or it is not where that path leads.
    """
    words = [word for word in path if isinstance(word, str)]
    _check_path(words)
    level: Any = values
    for word, after in itertools.pairwise(path):
        level = _step(level, word, [] if isinstance(after, int) else {}, path)
    last = path[-1]
    if isinstance(last, int):
        _step(level, last, None, path)
        level[last] = value
    elif not isinstance(level, dict):
        raise BadValue(f"{_spell(path)}: there is no mapping to put {last} in")
    elif value is None:
        level.pop(last, None)
    else:
        level[last] = value


def values_of(files: list[dict[str, Any]], sets: list[str]) -> dict[str, Any]:
    """
    Return the values in force: defaults, then files, then what was set, the later over the earlier.

    Raises:
        BadValue: naming what cannot be used.
    """
    values = default_values()
    for stated in files:
        lay_over(values, stated)
    for text in sets:
        for path, value in parse_set(text):
            put(values, path, value)
    return values


def _step(level: Any, word: str | int, empty: Any, path: list[str | int]) -> Any:
    if isinstance(word, int):
        if not isinstance(level, list) or word > _LONGEST_LIST:
            raise BadValue(f"{_spell(path)}: there is no list with an item {word}")
        level += [None] * (word + 1 - len(level))
        if level[word] is None:
            level[word] = empty
        return level[word]
    if not isinstance(level, dict):
        raise BadValue(f"{_spell(path)}: there is no mapping to find {word} in")
    if level.get(word) is None:
        level[word] = empty
    return level[word]


def _assignment(part: str, text: str) -> tuple[list[str | int], Any]:
    name, equals, value = part.partition("=")
    if not equals:
        raise BadValue(f"{text!r} is not NAME=VALUE")
    path: list[str | int] = []
    at = 0
    while at <= len(name):
        found = _WORD.match(name, at)
        if found is None:
            raise BadValue(f"{name!r} is not the name of a value, such as controller.image.tag")
        path.append(_plain(found[1]))
        path += [int(number) for number in re.findall(r"\d+", found[2])]
        at = found.end()
        if at < len(name) and name[at] != ".":
            raise BadValue(f"{name!r} is not the name of a value, such as controller.image.tag")
        at += 1
    if value.startswith("{") and value.endswith("}"):
        return path, [_typed(each) for each in _split(value[1:-1], ",") if each]
    return path, _typed(value)


def _split(text: str, mark: str) -> list[str]:
    """Split at a mark that is neither escaped nor in braces."""
    parts, depth, current = [], 0, ""
    escaped = False
    for letter in text:
        depth += 0 if escaped else (letter == "{") - (letter == "}")
        if letter == mark and not escaped and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += letter
        escaped = letter == "\\" and not escaped
    return [*parts, current]


def _typed(text: str) -> Any:
    match text:
        case "true" | "false":
            return text == "true"
        case "null":
            return None
        case _ if _WHOLE.fullmatch(text):
            return int(text)
        case _:
            return _plain(text)


def _plain(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def _merge(values: dict[str, Any], stated: dict[str, Any]) -> None:
    for key, value in stated.items():
        if value is None:
            values.pop(key, None)
        elif isinstance(value, dict) and isinstance(values.get(key), dict):
            _merge(values[key], value)
        else:
            values[key] = value


def _check(stated: dict[str, Any], above: str) -> None:
    for key, value in stated.items():
        path = f"{above}{key}"
        _check_path(path.split("."))
        if isinstance(value, dict) and not _is_open(path):
            _check(value, f"{path}.")


def _check_path(words: list[str]) -> None:
    path = ".".join(words)
    known = {knob.path for knob in VALUES}
    inner = any(each.startswith(f"{path}.") for each in known)
    if path not in known and not inner and not _is_open(path):
        close = difflib.get_close_matches(path, known, n=1)
        meant = f"; did you mean {close[0]}?" if close else ""
        raise BadValue(f"the chart has no value {path}{meant}")


def _is_open(path: str) -> bool:
    return any(path == knob.path or path.startswith(f"{knob.path}.") for knob in VALUES if knob.open)


def _spell(path: list[str | int]) -> str:
    return ".".join(str(word) for word in path)
